//! The setting `forwarded_fields`.

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
