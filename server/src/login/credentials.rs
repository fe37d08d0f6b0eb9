//! The credentials in the field Authorization (RFC 7617 §2).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use forebay_http::fields::{FieldId, Fields};

use crate::limits::CREDENTIALS_BYTES_MAX;

/// A user name and a password, decoded.
pub(super) struct Credentials<'b> {
    pair: &'b [u8],
    user: &'b str,
    password: &'b [u8],
}

impl<'b> Credentials<'b> {
    /// Reads the credentials of a request into `buffer`; returns `None` if there are none, several,
    /// or malformed ones. Neither part has control characters.
    pub(super) fn read(
        fields: Fields<'_>,
        buffer: &'b mut [u8; CREDENTIALS_BYTES_MAX],
    ) -> Option<Credentials<'b>> {
        let value = fields.only(FieldId::Authorization)?;
        let (scheme, rest) = value.split_at_checked(5)?;
        if !scheme.eq_ignore_ascii_case(b"basic") || rest.first() != Some(&b' ') {
            return None;
        }
        let length = STANDARD.decode_slice(rest.trim_ascii(), buffer).ok()?;
        let pair: &'b [u8] = buffer.get(..length)?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        if pair.iter().any(u8::is_ascii_control) {
            return None;
        }
        let user = std::str::from_utf8(pair.get(..colon)?).ok()?;
        Some(Credentials { pair, user, password: pair.get(colon + 1..)? })
    }

    /// Returns user name and password, with a colon between them.
    pub(super) fn pair(&self) -> &'b [u8] {
        self.pair
    }

    pub(super) fn user(&self) -> &'b str {
        self.user
    }

    pub(super) fn password(&self) -> &'b [u8] {
        self.password
    }
}
