//! Request fields that are not forwarded to the origin as the client sent them, and the statements
//! of trusted proxies about a request.
//!
//! A proxy in front of this server says in `X-Forwarded-For` and `X-Forwarded-Proto` which client
//! sent a request and by which scheme. Any client can send these fields, so only the addresses of
//! `trusted_proxies` are believed.

use std::net::{IpAddr, SocketAddr};

use forebay_http::fields::{FieldId, FieldSet, Fields};
use forebay_http::target::Scheme;

use crate::config::{AddressList, ForwardedField};
use crate::limits::FORWARDED_HOPS_MAX;

/// Fields that are never forwarded: the server writes its own, or sends none.
pub(crate) const REWRITTEN: FieldSet = FieldSet::of(&[
    FieldId::ContentLength,
    FieldId::XForwardedFor,
    FieldId::XForwardedProto,
    FieldId::Via,
]);

/// Fields that only a pass-through forwards. In a fetch for the store they could make the origin
/// send something other than a whole response.
pub(crate) const CONDITIONS: FieldSet = FieldSet::of(&[
    FieldId::IfNoneMatch,
    FieldId::IfModifiedSince,
    FieldId::IfRange,
    FieldId::Range,
    FieldId::Expect,
]);

/// The statements of a trusted proxy about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyStatements {
    /// The address of the client, or of the proxy if the client is not known.
    pub(crate) client: IpAddr,
    /// Whether the statement about the client is well-formed.
    pub(crate) is_client_known: bool,
    /// The scheme of the URL that the client requested.
    pub(crate) scheme: Scheme,
}

/// `X-Forwarded-For` has an element that is not an address, or too many addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedHops;

/// Returns the addresses of `X-Forwarded-For` from the client to the last proxy before the peer,
/// the last one first. The client is the last address that is not trusted, because only trusted
/// proxies have written the addresses after it. If all addresses are trusted, the client is the
/// first address of the field.
pub(crate) fn trusted_hops(
    fields: Fields<'_>,
    trusted: &AddressList,
) -> impl Iterator<Item = Result<IpAddr, MalformedHops>> {
    let lines = fields.all(FieldId::XForwardedFor).rev();
    let elements = lines.flat_map(|line| line.rsplit(|byte| *byte == b','));
    let elements = elements.map(<[u8]>::trim_ascii).filter(|element| !element.is_empty());
    let (mut hop_count, mut is_over) = (0, false);
    elements.map_while(move |element| {
        if is_over {
            return None;
        }
        hop_count += 1;
        let address = parse_hop(element).filter(|_| hop_count <= FORWARDED_HOPS_MAX);
        is_over = !address.is_some_and(|address| trusted.contains(address));
        Some(address.ok_or(MalformedHops))
    })
}

/// Returns the address of the client, as trusted proxies state it; `None` if they state none.
///
/// # Errors
/// An address that a trusted proxy would have written is malformed, or there are too many.
pub(crate) fn stated_client(
    fields: Fields<'_>,
    trusted: &AddressList,
) -> Result<Option<IpAddr>, MalformedHops> {
    trusted_hops(fields, trusted).try_fold(None, |_, hop| hop.map(Some))
}

/// Returns the scheme in the last element of `X-Forwarded-Proto`, which the nearest proxy has
/// written.
pub(crate) fn stated_scheme(fields: Fields<'_>) -> Option<Scheme> {
    let line = fields.all(FieldId::XForwardedProto).next_back()?;
    let last = line.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    [Scheme::Http, Scheme::Https]
        .into_iter()
        .find(|scheme| scheme.as_str().as_bytes().eq_ignore_ascii_case(last))
}

/// Reads an address, which may have a port, and brackets if it is IPv6.
fn parse_hop(element: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(element).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bare {
        Some(bare) => IpAddr::V6(bare.parse().ok()?),
        None => match text.parse::<IpAddr>() {
            Ok(address) => address,
            Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
        },
    };
    Some(address.to_canonical())
}

/// Returns the ID in `X-Request-Id`, if there is one.
pub(crate) fn request_id(fields: Fields<'_>) -> Option<&str> {
    let name = ForwardedField::RequestId.name().as_bytes();
    let mut found = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let id = usable_request_id(found.next()?.value);
    id.filter(|_| found.next().is_none())
}

/// Returns the value of `X-Request-Id` if it may be used as the ID of a request: text without
/// spaces, quotes and separators.
fn usable_request_id(value: &[u8]) -> Option<&str> {
    let is_usable = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:@".contains(byte);
    let has_length = (1..=REQUEST_ID_BYTES_MAX).contains(&value.len());
    str::from_utf8(value).ok().filter(|_| has_length && value.iter().all(is_usable))
}

/// Longest `X-Request-Id` of a client. Usual IDs are UUIDs with 36 characters, or traces with 55.
const REQUEST_ID_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use forebay_http::fields::FieldBlock;

    use super::*;
    use crate::config::lists::trusted_for_tests;

    fn block(lines: &[(&str, &str)]) -> FieldBlock {
        let mut block = FieldBlock::new();
        lines.iter().for_each(|(name, value)| block.push(name.as_bytes(), value.as_bytes()));
        block
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_trusted() {
        let trusted = trusted_for_tests("10.0.0.0/8,2001:db8:1::/48");
        let many = vec!["10.0.0.1"; FORWARDED_HOPS_MAX].join(",");
        let too_many = format!("192.0.2.1,{many}");
        type Case<'a> = (&'a [&'a str], Result<Option<&'a str>, MalformedHops>);
        let cases: &[Case<'_>] = &[
            (&[], Ok(None)),
            (&[""], Ok(None)),
            (&[" , ,"], Ok(None)),
            (&["192.0.2.1"], Ok(Some("192.0.2.1"))),
            (&["192.0.2.1, 10.0.0.1"], Ok(Some("192.0.2.1"))),
            (&["198.51.100.1, 192.0.2.1, 10.0.0.1"], Ok(Some("192.0.2.1"))),
            (&["198.51.100.1", "192.0.2.1", "10.0.0.1, 10.0.0.2"], Ok(Some("192.0.2.1"))),
            (&["evil\u{1f}, 192.0.2.1"], Ok(Some("192.0.2.1"))),
            (&["10.0.0.3, 10.0.0.1"], Ok(Some("10.0.0.3"))),
            (&["192.0.2.1:4711, 10.0.0.1:80"], Ok(Some("192.0.2.1"))),
            (&["2001:db8::5, [2001:db8:1::1]:80"], Ok(Some("2001:db8::5"))),
            (&["[2001:db8::5], [2001:db8:1::1]"], Ok(Some("2001:db8::5"))),
            (&["::ffff:192.0.2.1, ::ffff:10.0.0.1"], Ok(Some("192.0.2.1"))),
            (&["192.0.2.1, unknown"], Err(MalformedHops)),
            (&["192.0.2.1, unknown, 10.0.0.1"], Err(MalformedHops)),
            (&["192.0.2.1.5"], Err(MalformedHops)),
            (&["[192.0.2.1]"], Err(MalformedHops)),
            (&[&many], Ok(Some("10.0.0.1"))),
            (&[&too_many], Err(MalformedHops)),
        ];
        for (lines, expected) in cases {
            let lines: Vec<_> = lines.iter().map(|line| ("X-Forwarded-For", *line)).collect();
            let found = stated_client(block(&lines).fields(), &trusted);
            let expected = expected.map(|text| text.map(|text| text.parse().expect("an address")));
            assert_eq!(found, expected, "{lines:?}");
        }
    }

    #[test]
    fn the_scheme_is_the_one_of_the_nearest_proxy() {
        for (lines, expected) in [
            (&["https"][..], Some(Scheme::Https)),
            (&["HTTP"], Some(Scheme::Http)),
            (&["http, https"], Some(Scheme::Https)),
            (&["https", "http"], Some(Scheme::Http)),
            (&["https, wss"], None),
            (&[""], None),
            (&[], None),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| ("X-Forwarded-Proto", *line)).collect();
            assert_eq!(stated_scheme(block(&lines).fields()), expected, "{lines:?}");
        }
    }

    #[test]
    fn an_id_has_no_separators_and_is_bounded() {
        let (long, too_long) = ("a".repeat(128), "a".repeat(129));
        for id in ["a", "7d3c-4711", "00-4bf9:01", &long] {
            assert_eq!(usable_request_id(id.as_bytes()), Some(id));
        }
        for id in ["", "a b", "a,b", "a\"", "a;b", "\u{e9}", "<b>", &too_long] {
            assert_eq!(usable_request_id(id.as_bytes()), None, "{id}");
        }
    }
}
