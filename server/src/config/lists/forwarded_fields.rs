//! The setting `forwarded_fields`.

use forebay_http::fields::is_respelled;

use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};
use crate::config::suggest::nearest;

/// A field that tells the origin about the request that this server received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedField {
    For,
    Proto,
    Host,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    RequestId,
}

/// A field from which many origins read the client's address. This server does not add it.
pub(crate) const REAL_IP: &str = "x-real-ip";

impl ForwardedField {
    const ALL: [ForwardedField; 5] = [
        ForwardedField::For,
        ForwardedField::Proto,
        ForwardedField::Host,
        ForwardedField::Forwarded,
        ForwardedField::RequestId,
    ];

    /// Returns the field of this name, compared without case.
    pub(crate) fn of(name: &[u8]) -> Option<ForwardedField> {
        let mut all = Self::ALL.into_iter();
        all.find(|field| field.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether this is the name of a field about a request in another spelling: with `_` for `-`,
    /// which origins with CGI variables read as the same field.
    pub(crate) fn is_respelled(name: &[u8]) -> bool {
        let mut names = Self::ALL.map(ForwardedField::name).into_iter().chain([REAL_IP]);
        names.any(|of| is_respelled(name, of))
    }

    /// Returns the name of the field in lower case.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ForwardedField::For => "x-forwarded-for",
            ForwardedField::Proto => "x-forwarded-proto",
            ForwardedField::Host => "x-forwarded-host",
            ForwardedField::Forwarded => "forwarded",
            ForwardedField::RequestId => "x-request-id",
        }
    }
}

/// The fields about a request that this server sends to origins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedFields(u8);

impl ForwardedFields {
    /// Whether the list has the field.
    pub(crate) fn has(self, field: ForwardedField) -> bool {
        self.0 & 1 << field as u8 != 0
    }
}

impl Readable for ForwardedFields {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let mut fields = ForwardedFields::default();
        for text in setting.texts(raw)? {
            let Some(field) = ForwardedField::of(text.as_bytes()) else {
                let problem = setting.problem(format_args!("cannot contain {text:?}"));
                let names = ForwardedField::ALL.map(ForwardedField::name);
                return Err(match nearest(&text.to_ascii_lowercase(), names) {
                    Some(near) => problem.hint(format!("did you mean {near:?}?")),
                    None => problem,
                });
            };
            fields.0 |= 1 << field as u8;
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_underscore_makes_another_spelling_of_the_same_field() {
        for name in ["x_forwarded_for", "X_Forwarded-Proto", "X-REQUEST_ID", "X_Real_IP"] {
            assert!(ForwardedField::is_respelled(name.as_bytes()), "{name}");
            assert_eq!(ForwardedField::of(name.as_bytes()), None, "{name}");
        }
        for name in ["x-forwarded-for", "forwarded", "x-real-ip", "x_device", "_forwarded", "_"] {
            assert!(!ForwardedField::is_respelled(name.as_bytes()), "{name}");
        }
    }
}
