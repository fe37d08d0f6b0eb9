//! The change of a connection to another protocol: the request for it, and the 101 of an origin
//! (RFC 9110 §7.8, §15.2.2).

use super::{HeadFacts, OriginLimits, body_framing};
use crate::{
    bytes::{list, trim_space},
    error::OriginError,
    fields::{Field, FieldBlock, FieldId, Fields},
    framing::BodyFraming,
    request::{Method, Version},
};

/// The head of a 101 that was asked for.
#[derive(Clone, Debug)]
pub struct SwitchHead {
    /// The protocol of the connection after the head.
    pub protocol: Vec<u8>,
    /// The end-to-end fields in order.
    pub block: FieldBlock,
}

/// Returns the protocols that a request asks for, in the order of its preference. It asks for none
/// without the connection option `upgrade`, or with HTTP/1.0.
pub fn wanted_protocols<'a>(
    version: Version,
    fields: Fields<'a>,
) -> impl Iterator<Item = &'a [u8]> + 'a {
    let is_wanted = version == Version::Http11
        && fields.contains(FieldId::Upgrade)
        && fields.all(FieldId::Connection).any(has_upgrade_option);
    fields.all(FieldId::Upgrade).filter(move |_| is_wanted).flat_map(list)
}

fn has_upgrade_option(connection: &[u8]) -> bool {
    list(connection).any(|option| option.eq_ignore_ascii_case(b"upgrade"))
}

/// Validates the 101 of an origin that was asked for one of the protocols in `wanted`, a value of
/// Upgrade. `lines` yields names and values in order, and is walked twice.
///
/// # Errors
/// The lines are invalid, the head announces content, or the origin has not switched to exactly one
/// of these protocols.
pub fn switch_head<'a>(
    wanted: &[u8],
    limits: &OriginLimits,
    lines: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> Result<SwitchHead, OriginError> {
    let facts = HeadFacts::collect(limits, lines.clone())?;
    let declared = facts.framing.declared(Version::Http11)?;
    match body_framing(101, Method::Get, declared)? {
        BodyFraming::None => {}
        _ => return Err(OriginError::ForbiddenBody),
    }
    let mut block = FieldBlock::with_capacity(facts.wire_bytes, facts.field_count);
    let (mut protocols, mut is_switched) = (Vec::new(), false);
    for (name, value) in lines {
        let field = Field::new(name, trim_space(value));
        match field.id {
            FieldId::Upgrade => protocols.extend(list(field.value)),
            FieldId::Connection => is_switched |= has_upgrade_option(field.value),
            FieldId::ContentLength => {}
            _ if facts.hop.contains(field) => {}
            _ => block.push_field(field),
        }
    }
    let [protocol] = protocols[..] else { return Err(OriginError::UnaskedUpgrade) };
    let is_wanted = list(wanted).any(|one| one.eq_ignore_ascii_case(protocol));
    match is_wanted && is_switched {
        true => Ok(SwitchHead { protocol: protocol.to_vec(), block }),
        false => Err(OriginError::UnaskedUpgrade),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(lines: &[(&str, &str)]) -> FieldBlock {
        let mut block = FieldBlock::new();
        lines.iter().for_each(|(name, value)| block.push(name.as_bytes(), value.as_bytes()));
        block
    }

    #[test]
    fn a_request_asks_by_both_fields() {
        type Lines = &'static [(&'static str, &'static str)];
        let cases: &[(Version, Lines, &[&str])] = &[
            (Version::Http11, &[("Connection", "Upgrade"), ("Upgrade", "a")], &["a"]),
            (Version::Http10, &[("Connection", "Upgrade"), ("Upgrade", "a")], &[]),
            (Version::Http11, &[("Connection", "close"), ("Upgrade", "a")], &[]),
            (Version::Http11, &[("Connection", "x-upgrade"), ("Upgrade", "a")], &[]),
            (Version::Http11, &[("Connection", "Upgrade")], &[]),
            (
                Version::Http11,
                &[
                    ("Connection", "keep-alive"),
                    ("connection", "TE, UPGRADE"),
                    ("Upgrade", "a/1, b"),
                    ("Upgrade", "c"),
                ],
                &["a/1", "b", "c"],
            ),
        ];
        for (version, lines, expected) in cases {
            let block = block(lines);
            let found: Vec<_> = wanted_protocols(*version, block.fields())
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect();
            assert_eq!(found, *expected, "{version:?} {lines:?}");
        }
    }

    // RFC: 9110-15.2.2-1
    #[test]
    fn an_origin_switches_to_one_protocol_that_was_asked_for() {
        let cases: &[(&[(&str, &str)], bool)] = &[
            (&[("Upgrade", "WebSocket"), ("Connection", "upgrade"), ("X-A", "1")], true),
            (&[("Upgrade", "websocket"), ("Connection", "upgrade, x-b"), ("X-B", "1")], true),
            (&[("Upgrade", "websocket")], false),
            (&[("Connection", "upgrade")], false),
            (&[("Upgrade", "h2c"), ("Connection", "upgrade")], false),
            (&[("Upgrade", "h2c, websocket"), ("Connection", "upgrade")], false),
            (&[("Upgrade", "websocket"), ("Upgrade", "x"), ("Connection", "upgrade")], false),
            (
                &[("Upgrade", "websocket"), ("Connection", "upgrade"), ("Content-Length", "5")],
                false,
            ),
            (
                &[
                    ("Upgrade", "websocket"),
                    ("Connection", "upgrade"),
                    ("Transfer-Encoding", "chunked"),
                ],
                false,
            ),
            (&[("Upgrade", "websocket"), ("Connection", "upgrade"), ("X A", "1")], false),
        ];
        let limits = OriginLimits { head_bytes_max: 1000, field_count_max: 10 };
        for (lines, expected) in cases {
            let pairs = lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            let head = switch_head(b"chat, websocket", &limits, pairs);
            assert_eq!(head.is_ok(), *expected, "{lines:?} {head:?}");
            let Ok(head) = head else { continue };
            assert!(head.protocol.eq_ignore_ascii_case(b"websocket"));
            let names = head.block.fields().iter().map(|field| field.name.to_vec());
            let names: Vec<_> = names.collect();
            assert!(!names.iter().any(|name| name != b"X-A"), "{lines:?} {names:?}");
        }
    }
}
