//! Connection-specific fields, which are not forwarded (RFC 9110 §7.6.1).
//!
//! Connection-specific fields are those of a fixed list, [`HOP_BY_HOP`], and those that the
//! message's own Connection field names. Attackers abuse Connection: a client names a field that a
//! proxy in front of us has added, or on which the origin bases its response, so that we remove
//! that field.
//! Therefore a Connection field cannot remove the well-known end-to-end fields, which RFC 9110
//! forbids it to name anyway. All other fields that it names are removed.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::{
    bytes::list,
    fields::{Field, FieldId, FieldSet, Fields},
};

/// Fields that are never forwarded, whether Connection names them or not. `Proxy-Authenticate` and
/// `Proxy-Authorization` are meant for the next proxy only (RFC 9110 §11.7), `TE` and
/// `Transfer-Encoding` for the next recipient. `Proxy-Authentication-Info`, which has no
/// [`FieldId`], is not forwarded either.
pub const HOP_BY_HOP: FieldSet = FieldSet::of(&[
    FieldId::Connection,
    FieldId::KeepAlive,
    FieldId::ProxyAuthenticate,
    FieldId::ProxyAuthorization,
    FieldId::ProxyConnection,
    FieldId::Te,
    FieldId::TransferEncoding,
    FieldId::Upgrade,
]);

/// Largest number of names that the Connection fields of a message may add to [`HOP_BY_HOP`]. Each
/// name is compared with each field of the message, so the limit keeps the cost linear. Real
/// messages name one or two fields.
pub const NAMED_MAX: usize = 16;

/// The error for Connection fields that name more than [`NAMED_MAX`] fields, not counting
/// well-known fields and `close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyOptions;

/// The connection-specific fields of one message.
#[derive(Clone, Copy, Debug, Default)]
pub struct HopFields<'a> {
    named: [&'a [u8]; NAMED_MAX],
    named_count: usize,
}

impl<'a> HopFields<'a> {
    /// Collects the connection-specific fields of this message.
    pub fn of(fields: Fields<'a>) -> Result<HopFields<'a>, TooManyOptions> {
        let mut hop = HopFields::default();
        for value in fields.all(FieldId::Connection) {
            hop.add(value)?;
        }
        Ok(hop)
    }

    /// Adds the names in one Connection line, except well-known fields and `close`.
    pub(crate) fn add(&mut self, connection: &'a [u8]) -> Result<(), TooManyOptions> {
        for option in list(connection) {
            if FieldId::of(option) != FieldId::Other || option.eq_ignore_ascii_case(b"close") {
                continue;
            }
            *self.named.get_mut(self.named_count).ok_or(TooManyOptions)? = option;
            self.named_count += 1;
        }
        Ok(())
    }

    /// Whether Connection names any field that is not well known.
    pub fn names_any(&self) -> bool {
        self.named_count > 0
    }

    /// Whether this field must not be forwarded.
    // RFC: 9111-3.1-2
    pub fn contains(&self, field: Field<'_>) -> bool {
        let is_named = |name: &[u8]| name.eq_ignore_ascii_case(field.name);
        let named = self.named.get(..self.named_count).unwrap_or_default();
        HOP_BY_HOP.contains(field.id)
            || (field.id == FieldId::Other
                && (is_named(b"proxy-authentication-info") || named.iter().any(|n| is_named(n))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::FieldBlock;

    fn left(lines: &[(&str, &str)]) -> Result<String, TooManyOptions> {
        let mut block = FieldBlock::new();
        for (name, value) in lines {
            block.push(name.as_bytes(), value.as_bytes());
        }
        let hop = HopFields::of(block.fields())?;
        let end_to_end = block.fields().iter().filter(|field| !hop.contains(*field));
        let names = end_to_end.map(|field| String::from_utf8_lossy(field.name));
        Ok(names.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn connection_removes_only_the_fields_that_it_may_name() {
        for (connection, expected) in [
            ("", "Host X-A Cookie Trailer"),
            ("close", "Host X-A Cookie Trailer"),
            ("x-a", "Host Cookie Trailer"),
            ("close, X-A ,, x-b", "Host Cookie Trailer"),
            ("Host, cookie, x-forwarded-for, trailer, cache-control", "Host X-A Cookie Trailer"),
            ("x-, \"x-a\", x a", "Host X-A Cookie Trailer"),
        ] {
            let lines = [
                ("Host", "h"),
                ("X-A", "1"),
                ("Connection", connection),
                ("Keep-Alive", "1"),
                ("Cookie", "c"),
                ("TE", "trailers"),
                ("Upgrade", "h2c"),
                ("Proxy-Authorization", "x"),
                ("proxy-connection", "close"),
                ("Proxy-Authentication-Info", "a=b"),
                ("Trailer", "t"),
            ];
            assert_eq!(left(&lines).as_deref(), Ok(expected), "{connection:?}");
        }
    }

    #[test]
    fn connection_names_a_bounded_number_of_fields() {
        let options = |count: usize| {
            (0..count).map(|number| format!("x-{number}")).collect::<Vec<_>>().join(",")
        };
        let most = options(NAMED_MAX);
        assert_eq!(left(&[("Connection", &most), ("X-15", ""), ("b", "")]).as_deref(), Ok("b"));
        assert_eq!(left(&[("Connection", &most), ("Connection", "x-last")]), Err(TooManyOptions));
        assert!(left(&[("Connection", &most), ("Connection", "close, host")]).is_ok());
    }
}
