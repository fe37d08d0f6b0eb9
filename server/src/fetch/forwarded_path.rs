//! The fields of a request to the origin that describe the request as this server received it:
//! `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`, `Forwarded` (RFC 7239) and
//! `X-Request-Id`.
//!
//! A client's own lines are replaced. A trusted proxy's lines are kept, but only if the response is
//! not shared: the text that clients of the proxy write into these fields is not in the key. If the
//! response may be stored, the origin gets only values that this server makes from the key, from
//! addresses and from numbers. Lines of a field that settings add to the key are kept in any case.

use std::fmt::Write;
use std::net::IpAddr;

use forebay_http::fields::{Field, FieldId, FieldSet, Fields};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{AddressList, ForwardedField, REAL_IP, RouteSettings};
use crate::counters::Counter;
use crate::forwarding::{request_id, trusted_hops};
use crate::rules::HookContext;

/// Fields whose received lines are never forwarded: this server writes them itself, or sends none.
const WRITTEN: FieldSet = FieldSet::of(&[FieldId::XForwardedFor, FieldId::XForwardedProto]);

/// One request, and the facts from which the fields that describe it are made.
pub(super) struct ForwardedPath<'a> {
    hook: HookContext<'a>,
    fields: Fields<'a>,
    /// The host that the client sent.
    host: Option<&'a HeaderValue>,
    /// Whether the response may be stored, or belongs to a stored response.
    is_shared: bool,
    /// Whether the request comes from a trusted proxy.
    is_trusted: bool,
}

impl<'a> ForwardedPath<'a> {
    pub(super) fn new(
        hook: HookContext<'a>,
        fields: Fields<'a>,
        host: Option<&'a HeaderValue>,
        is_shared: bool,
    ) -> ForwardedPath<'a> {
        let trusted = &hook.config.server.trusted_proxies;
        let is_trusted = !trusted.is_empty() && trusted.contains(hook.rule_state.peer());
        ForwardedPath { hook, fields, host, is_shared, is_trusted }
    }

    /// Whether a line of the request is not forwarded, because this server writes the field itself
    /// or sends none.
    pub(super) fn replaces(&self, field: &Field<'_>) -> bool {
        if field.id != FieldId::Other || field.is_ruled {
            return false;
        }
        if ForwardedField::is_respelled(field.name) {
            return true;
        }
        let is_usable = match ForwardedField::of(field.name) {
            Some(ForwardedField::RequestId) => request_id(self.fields).is_some(),
            Some(ForwardedField::Forwarded) if !has_closed_quotes(field.value) => return true,
            Some(_) => true,
            None if field.name.eq_ignore_ascii_case(REAL_IP.as_bytes()) => true,
            None => return false,
        };
        let is_kept = self.is_trusted && !self.is_shared && is_usable;
        !is_kept && !self.is_keyed(field.name)
    }

    /// Whether the key has the field.
    fn is_keyed(&self, name: &[u8]) -> bool {
        self.settings().is_some_and(|settings| settings.key_fields.contains(name))
    }

    fn settings(&self) -> Option<&'a RouteSettings> {
        self.hook.route.map(|route| &route.route.settings)
    }

    /// Appends the fields. `is_replaced` says whether a line of the request was left out.
    pub(super) fn append(&self, headers: &mut HeaderMap, is_replaced: bool) {
        if !self.is_trusted && (is_replaced || self.fields.seen().intersects(WRITTEN)) {
            self.hook.worker.count(Counter::ForwardedFieldsReplaced);
        }
        let Some(settings) = self.settings() else { return };
        let sends = |field| settings.forwarded_fields.has(field);
        let mut set = |field: ForwardedField, value: Option<HeaderValue>| {
            let name = HeaderName::from_static(field.name());
            // Lines that are kept, or that rules have set, take precedence.
            if let Some(value) = value.filter(|_| sends(field) && !headers.contains_key(&name)) {
                headers.insert(name, value);
            }
        };
        set(ForwardedField::For, self.addresses());
        let scheme = self.hook.rule_state.scheme().as_str();
        set(ForwardedField::Proto, Some(HeaderValue::from_static(scheme)));
        set(ForwardedField::Host, self.host.cloned());
        // If the field is in the key, the response must not depend on an ID that is not in the key.
        if !(self.is_shared && self.is_keyed(ForwardedField::RequestId.name().as_bytes())) {
            let id = self.hook.worker.request_id(self.hook.rule_state.number());
            set(ForwardedField::RequestId, HeaderValue::from_str(&id).ok());
        }
        if sends(ForwardedField::Forwarded)
            && let Ok(element) = HeaderValue::from_str(&self.element())
        {
            headers.append(HeaderName::from_static(ForwardedField::Forwarded.name()), element);
        }
    }

    /// Returns the value of `X-Forwarded-For`, which ends with the peer's address.
    fn addresses(&self) -> Option<HeaderValue> {
        let peer = self.hook.rule_state.peer();
        let mut value = Vec::new();
        if self.is_trusted && self.is_shared {
            for hop in hops_from_client(self.fields, &self.hook.config.server.trusted_proxies) {
                value.extend_from_slice(format!("{hop}, ").as_bytes());
            }
        } else if self.is_trusted {
            for line in self.fields.all(FieldId::XForwardedFor).filter(|line| !line.is_empty()) {
                value.extend_from_slice(line);
                value.extend_from_slice(b", ");
            }
        }
        value.extend_from_slice(peer.to_string().as_bytes());
        HeaderValue::from_bytes(&value).ok()
    }

    /// Returns an element of `Forwarded` (RFC 7239 §4).
    fn element(&self) -> String {
        let mut element = String::new();
        // The origin may copy the address into a response that is then stored for all clients.
        if !self.is_shared {
            // A write to a string does not fail.
            let _ = match self.hook.rule_state.peer() {
                IpAddr::V4(peer) => write!(element, "for={peer};"),
                IpAddr::V6(peer) => write!(element, "for=\"[{peer}]\";"),
            };
        }
        if let Some(host) = self.host.and_then(|host| host.to_str().ok()) {
            let _ = write!(element, "host=\"{host}\";");
        }
        let _ = write!(element, "proto={}", self.hook.rule_state.scheme().as_str());
        element
    }
}

/// Whether each quoted string of a line ends in it. An origin may join the lines of a field, and
/// would then read the next line as a part of the string.
fn has_closed_quotes(line: &[u8]) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
    !is_quoted
}

/// Returns the addresses from the client to the last proxy before the peer; none if one of them is
/// malformed.
fn hops_from_client(fields: Fields<'_>, trusted: &AddressList) -> Vec<IpAddr> {
    let hops: Result<Vec<IpAddr>, _> = trusted_hops(fields, trusted).collect();
    let mut hops = hops.unwrap_or_default();
    hops.reverse();
    hops
}

#[cfg(test)]
mod tests {
    use super::has_closed_quotes;

    #[test]
    fn a_quote_that_is_escaped_ends_no_quoted_string() {
        for line in [r"", r"for=a", r#"for="[::1]""#, r#"for="a\"b""#, r#"for="a\\""#, r"for=a\"] {
            assert!(has_closed_quotes(line.as_bytes()), "{line}");
        }
        for line in [r#"for="a"#, r#"for="a\""#, r#"for="a", for=""#, r#"for=a\""#] {
            assert!(!has_closed_quotes(line.as_bytes()), "{line}");
        }
    }
}
