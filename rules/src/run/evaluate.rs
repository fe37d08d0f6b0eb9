//! Evaluates variables.

use std::{io::Write, net::IpAddr};

use forebay_http::{edit::FieldName, fields::FieldId, target::Scheme};

use super::{
    RuleEnvironment, RunContext, Url,
    buffers::{CaptureGroups, LookupBuffers},
    cookie, time,
};
use crate::ast::{
    AddressKind, ConnectionPart, HttpControl, IdKind, Lifetime, MessageKind, UrlKind, UrlPart,
    Variable,
};

/// The value of a variable, typed for comparison.
#[derive(Clone, Copy, Debug)]
pub(super) enum SubjectValue<'v> {
    Text(&'v [u8]),
    Number(i64),
    Flag(bool),
    /// An address; `None` if it is not known.
    Address(Option<IpAddr>),
}

impl SubjectValue<'_> {
    /// Appends the value as text.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = match self {
            SubjectValue::Text(text) => return out.extend_from_slice(text),
            SubjectValue::Flag(flag) => {
                return out.extend_from_slice(if flag { b"TRUE" } else { b"FALSE" });
            }
            SubjectValue::Number(number) => write!(out, "{number}"),
            SubjectValue::Address(Some(address)) => write!(out, "{address}"),
            SubjectValue::Address(None) => Ok(()),
        };
    }
}

/// Evaluates a variable.
pub(super) fn evaluate<'v, S: RuleEnvironment>(
    variable: &Variable,
    context: &'v mut RunContext<'_, '_, S>,
    lookup: &'v mut LookupBuffers,
    captured: &'v CaptureGroups,
) -> SubjectValue<'v> {
    let environment = context.environment;
    match variable {
        Variable::Constant(flag) => SubjectValue::Flag(*flag),
        Variable::Header(message, name) => {
            SubjectValue::Text(header(*message, name, context, lookup))
        }
        Variable::Cookie(name) => SubjectValue::Text(client_cookie(name, context)),
        Variable::Url(of, part) => url_part(*of, part, context, lookup),
        Variable::Method => SubjectValue::Text(context.method),
        Variable::Status => SubjectValue::Number(i64::from(context.status.unwrap_or_default())),
        Variable::Cache => SubjectValue::Text(environment.cache().as_str().as_bytes()),
        Variable::Now(part) => SubjectValue::Number(time::part_of(environment.now(), *part)),
        Variable::Random(below) => {
            SubjectValue::Number((environment.random() % u64::from((*below).max(1))) as i64)
        }
        Variable::Id(which) => id(*which, environment, &mut lookup.joined),
        Variable::Address(which) => SubjectValue::Address(environment.address(*which)),
        Variable::Port(which) => SubjectValue::Number(i64::from(environment.port(*which))),
        Variable::Cidr { v4_bits, v6_bits } => {
            let address = environment.address(AddressKind::Client);
            SubjectValue::Address(address.map(|address| cidr(address, *v4_bits, *v6_bits)))
        }
        Variable::Connection(part) => SubjectValue::Text(connection(*part, environment)),
        Variable::ClientCertificate(part) => {
            SubjectValue::Text(environment.client_certificate(*part).as_bytes())
        }
        Variable::LastCapture(number) => SubjectValue::Text(captured.group(*number)),
        Variable::NextHopHost => SubjectValue::Text(environment.next_hop_host().as_bytes()),
        Variable::NextHopPort => SubjectValue::Number(i64::from(environment.next_hop_port())),
        Variable::TransactionCount => {
            SubjectValue::Number(i64::try_from(environment.transaction_count()).unwrap_or(i64::MAX))
        }
        state => of_state(state, context),
    }
}

/// Evaluates variables that rules set.
fn of_state<'v, S>(variable: &Variable, context: &RunContext<'_, '_, S>) -> SubjectValue<'v> {
    let state = |lifetime: &Lifetime| match lifetime {
        Lifetime::Transaction => context.transaction.state,
        Lifetime::Session => *context.session,
    };
    match variable {
        Variable::Flag(lifetime, number) => {
            SubjectValue::Flag(u32::from(state(lifetime).flags) >> (number & 15) & 1 != 0)
        }
        Variable::Int8(lifetime, number) => {
            SubjectValue::Number(i64::from(state(lifetime).int8[usize::from(number & 3)]))
        }
        Variable::Int16(lifetime) => SubjectValue::Number(i64::from(state(lifetime).int16)),
        Variable::Control(control) => {
            // Requests are logged unless a rule says otherwise.
            let unless_set = *control == HttpControl::Logging;
            SubjectValue::Flag(context.transaction.controls.of(*control).unwrap_or(unless_set))
        }
        _ => SubjectValue::Text(b""),
    }
}

/// Returns the values of all lines of a name, joined by commas (RFC 9110 §5.3).
fn header<'v, S>(
    message: MessageKind,
    name: &FieldName,
    context: &'v mut RunContext<'_, '_, S>,
    lookup: &'v mut LookupBuffers,
) -> &'v [u8] {
    let client = match message {
        MessageKind::AtHand => None,
        MessageKind::ClientRequest | MessageKind::ServerRequest => context.client,
    };
    if let Some(client) = client {
        if name.id() != FieldId::Other && !client.contains(name.id()) {
            return b"";
        }
        let values = lookup.client.all(client, name);
        return joined(values, &mut lookup.joined);
    }
    let Some(first) = context.fields.find(name) else {
        return b"";
    };
    let fields = &*context.fields;
    let places = std::iter::successors(Some(first), |at| fields.next_duplicate(*at));
    joined(places.map(|at| fields.value(at)), &mut lookup.joined)
}

/// Returns a single value unchanged, or several values joined by commas.
fn joined<'v>(mut values: impl Iterator<Item = &'v [u8]>, out: &'v mut Vec<u8>) -> &'v [u8] {
    let Some(first) = values.next() else {
        return b"";
    };
    let Some(second) = values.next() else {
        return first;
    };
    out.clear();
    out.extend_from_slice(first);
    for value in std::iter::once(second).chain(values) {
        out.push(b',');
        out.extend_from_slice(value);
    }
    out
}

/// Returns the first cookie of this name in the client's request.
fn client_cookie<'v, S>(name: &[u8], context: &'v mut RunContext<'_, '_, S>) -> &'v [u8] {
    if let Some(client) = context.client {
        let found = client.all(FieldId::Cookie).find_map(|line| cookie::find(line, name));
        return found.unwrap_or_default();
    }
    let Some(first) = context.fields.find(cookie::field_name()) else {
        return b"";
    };
    let fields = &*context.fields;
    let mut places = std::iter::successors(Some(first), |at| fields.next_duplicate(*at));
    places.find_map(|at| cookie::find(fields.value(at), name)).unwrap_or_default()
}

/// Resolves a kind of URL. The URL for the origin is the request's URL with the origin's host and
/// port.
pub(super) fn url_of<'v, S: RuleEnvironment>(
    of: UrlKind,
    context: &RunContext<'v, '_, S>,
    changed: Option<Url<'v>>,
) -> Url<'v> {
    let now = changed.unwrap_or(context.url);
    match of {
        UrlKind::Client => now,
        UrlKind::Original => context.original,
        UrlKind::Server => Url {
            host: context.environment.next_hop_host().as_bytes(),
            port: Some(context.environment.next_hop_port()),
            ..now
        },
    }
}

fn url_part<'v, S: RuleEnvironment>(
    of: UrlKind,
    part: &UrlPart,
    context: &'v RunContext<'_, '_, S>,
    lookup: &'v mut LookupBuffers,
) -> SubjectValue<'v> {
    let LookupBuffers { url: made, joined, .. } = lookup;
    let url = url_of(of, context, made.changed());
    let scheme = match of {
        UrlKind::Server => context.environment.next_hop_scheme(),
        UrlKind::Client | UrlKind::Original => context.environment.scheme(),
    };
    match part {
        UrlPart::Scheme => SubjectValue::Text(scheme.as_str().as_bytes()),
        UrlPart::Host => SubjectValue::Text(url.host),
        UrlPart::Port => SubjectValue::Number(i64::from(url.port.unwrap_or(scheme.default_port()))),
        UrlPart::Path => SubjectValue::Text(url.path.strip_prefix(b"/").unwrap_or(url.path)),
        UrlPart::Query => SubjectValue::Text(url.query.unwrap_or_default()),
        UrlPart::QueryParameter(name) => {
            SubjectValue::Text(parameter(url.query.unwrap_or_default(), name))
        }
        UrlPart::Whole => {
            joined.clear();
            write_url(scheme, url, joined);
            SubjectValue::Text(joined)
        }
    }
}

/// Returns the value of the first query parameter of this name.
fn parameter<'q>(query: &'q [u8], name: &[u8]) -> &'q [u8] {
    let found = query.split(|byte| *byte == b'&').find_map(|parameter| {
        let rest = parameter.strip_prefix(name)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"=") }
    });
    found.unwrap_or_default()
}

/// Writes `scheme://host:port/path?query`.
fn write_url(scheme: Scheme, url: Url<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(scheme.as_str().as_bytes());
    out.extend_from_slice(b"://");
    out.extend_from_slice(url.host);
    if let Some(port) = url.port {
        out.push(b':');
        SubjectValue::Number(i64::from(port)).write(out);
    }
    out.extend_from_slice(url.path);
    if let Some(query) = url.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
}

fn id<'v, S: RuleEnvironment>(
    which: IdKind,
    environment: &'v S,
    out: &'v mut Vec<u8>,
) -> SubjectValue<'v> {
    match which {
        IdKind::Request => {
            SubjectValue::Number(i64::try_from(environment.request_number()).unwrap_or(i64::MAX))
        }
        IdKind::Process => SubjectValue::Text(environment.process_id().as_bytes()),
        IdKind::Unique => {
            out.clear();
            // Writing to a vector cannot fail.
            let _ = write!(out, "{}-{}", environment.process_id(), environment.request_number());
            SubjectValue::Text(out)
        }
    }
}

/// Reduces an address to its first bits.
fn cidr(address: IpAddr, v4_bits: u8, v6_bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(v4_bits.min(32))).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6_bits.min(128))).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

fn connection<S: RuleEnvironment>(part: ConnectionPart, environment: &S) -> &'static [u8] {
    let is_v6 = match environment.address(AddressKind::Client) {
        // A dual-stack socket shows IPv4 addresses in mapped form.
        Some(IpAddr::V6(address)) => address.to_ipv4_mapped().is_none(),
        _ => false,
    };
    match (part, is_v6) {
        (ConnectionPart::IpFamily | ConnectionPart::Ipv4, false) => b"ipv4",
        (ConnectionPart::IpFamily | ConnectionPart::Ipv6, true) => b"ipv6",
        (ConnectionPart::Tls, _) => environment.tls_version().as_bytes(),
        (ConnectionPart::H2, _) if environment.is_http2() => b"h2",
        (ConnectionPart::Stack, is_v6) if environment.is_http2() => {
            match (environment.tls_version(), is_v6) {
                ("", false) => b"h2,tcp,ipv4",
                ("", true) => b"h2,tcp,ipv6",
                ("tls/1.2", false) => b"h2,tls/1.2,tcp,ipv4",
                ("tls/1.2", true) => b"h2,tls/1.2,tcp,ipv6",
                (_, false) => b"h2,tls/1.3,tcp,ipv4",
                (_, true) => b"h2,tls/1.3,tcp,ipv6",
            }
        }
        (ConnectionPart::Stack, is_v6) => match (environment.tls_version(), is_v6) {
            ("", false) => b"http/1.1,tcp,ipv4",
            ("", true) => b"http/1.1,tcp,ipv6",
            ("tls/1.2", false) => b"http/1.1,tls/1.2,tcp,ipv4",
            ("tls/1.2", true) => b"http/1.1,tls/1.2,tcp,ipv6",
            (_, false) => b"http/1.1,tls/1.3,tcp,ipv4",
            (_, true) => b"http/1.1,tls/1.3,tcp,ipv6",
        },
        _ => b"",
    }
}
