//! Makes every cookie that an origin sets `Secure`, and gives it a SameSite if it has none: what
//! rules cannot say, since they see all lines of a name as one value.

use forebay_http::edit::{EditError, FieldName, FieldValue};
use forebay_rules::filter::{Filter, FilterMessage};

/// One rule's filter: what is known before the first message is made once.
pub(crate) struct SecureCookies {
    changes: [FieldName; 1],
    same_site: Option<String>,
}

impl SecureCookies {
    /// What stands behind its name in the rule: nothing, or a value for SameSite.
    ///
    /// # Errors
    /// A sentence for whoever wrote the rule.
    pub(crate) fn new(arguments: &[&str]) -> Result<SecureCookies, String> {
        let same_site = match arguments {
            [] => None,
            [value @ ("Strict" | "Lax" | "None")] => Some((*value).to_owned()),
            [value] => return Err(format!("{value} is no SameSite: Strict, Lax or None")),
            _ => return Err("one value for SameSite is all that it takes".to_owned()),
        };
        let name = FieldName::parse(b"Set-Cookie").ok_or("Set-Cookie is no field name")?;
        Ok(SecureCookies { changes: [name], same_site })
    }
}

/// Has a cookie this attribute (RFC 6265 §5.2)?
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
            // What was a value before is one with this behind it.
            if let Some(value) = FieldValue::parse(new).filter(|_| is_changed) {
                message.fields.set_value(at, value)?;
                // STATE-FLAG:0 says so to the rules that follow.
                message.state.flags |= 1;
            }
        }
        Ok(())
    }
}
