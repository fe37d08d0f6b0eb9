//! Adds `Secure` to every cookie that an origin sets and, if the rule names a value, SameSite to
//! every such cookie without it. Rules alone cannot do this, because they see all Set-Cookie lines
//! as one value.

use forebay_http::edit::{EditError, FieldName, FieldValue};
use forebay_rules::filter::{Filter, FilterMessage};

/// The filter of one rule. The parts that do not depend on a message are made once.
pub(crate) struct SecureCookies {
    changes: [FieldName; 1],
    same_site: Option<String>,
}

impl SecureCookies {
    /// Makes the filter from the words after its name in the rule: none, or a value for SameSite.
    ///
    /// # Errors
    /// The words are not valid. The error is a sentence for the author of the rule.
    pub(crate) fn new(arguments: &[&str]) -> Result<SecureCookies, String> {
        let same_site = match arguments {
            [] => None,
            [value @ ("Strict" | "Lax" | "None")] => Some((*value).to_owned()),
            [value] => {
                return Err(format!("{value} is not a SameSite value: use Strict, Lax or None"));
            }
            _ => return Err("too many arguments: give one value for SameSite".to_owned()),
        };
        let name = FieldName::parse(b"Set-Cookie").ok_or("Set-Cookie is not a field name")?;
        Ok(SecureCookies { changes: [name], same_site })
    }
}

/// Whether a cookie has this attribute (RFC 6265 §5.2).
fn has(cookie: &[u8], attribute: &[u8]) -> bool {
    let attributes = cookie.split(|byte| *byte == b';').skip(1);
    let mut names = attributes.filter_map(|part| part.split(|byte| *byte == b'=').next());
    names.any(|name| name.trim_ascii().eq_ignore_ascii_case(attribute))
}

impl Filter for SecureCookies {
    fn changes(&self) -> &[FieldName] {
        &self.changes
    }

    fn run(&self, message: &mut FilterMessage<'_, '_>) -> Result<(), EditError> {
        let [set_cookie] = &self.changes;
        let mut next = message.fields.find(set_cookie);
        while let Some(at) = next {
            next = message.fields.next_duplicate(at);
            let cookie = message.fields.value(at);
            let new = &mut *message.scratch;
            new.clear();
            new.extend_from_slice(cookie);
            if !has(cookie, b"Secure") {
                new.extend_from_slice(b"; Secure");
            }
            if let Some(same_site) = &self.same_site
                && !has(cookie, b"SameSite")
            {
                new.extend_from_slice(b"; SameSite=");
                new.extend_from_slice(same_site.as_bytes());
            }
            let is_changed = new.len() > cookie.len();
            // A valid value stays valid with these attributes appended.
            if let Some(value) = FieldValue::parse(new).filter(|_| is_changed) {
                message.fields.set_value(at, value)?;
                // STATE-FLAG:0 tells later rules about the change.
                message.state.flags |= 1;
            }
        }
        Ok(())
    }
}
