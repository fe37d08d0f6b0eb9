//! Names of fields and cookies.

use forebay_http::{edit::FieldName, fields::FieldId};

use crate::{diagnostic::Diagnostic, lex::SourceWord};

/// Checks the name of a field that a rule reads.
pub(crate) fn field(word: &SourceWord) -> Result<FieldName, Diagnostic> {
    let name = word.as_str();
    if let Some(inner) = name.strip_prefix('@') {
        let message = format!("@{inner}: internal fields are not supported");
        return Err(Diagnostic::error(word.at, message).hint(
            "set-state-flag, set-state-int8 and set-state-int16 keep a value from hook to hook",
        ));
    }
    FieldName::parse(name.as_bytes()).ok_or_else(|| {
        let shown = if name.is_empty() { "an empty text" } else { name };
        let problem = Diagnostic::error(word.at, format!("{shown} is not a valid field name"));
        match name.strip_suffix(':') {
            Some(name) => problem.hint(format!("write the name without the colon: {name}")),
            None => problem.hint("use letters, digits and !#$%&'*+-.^_`|~"),
        }
    })
}

/// Checks the name of a field that a rule changes. Fields that belong to the connection, frame the
/// message or name the site cannot be changed.
pub(crate) fn changeable_field(word: &SourceWord) -> Result<FieldName, Diagnostic> {
    let name = field(word)?;
    match unchangeable(name.id()) {
        None => Ok(name),
        Some((why, hint)) => {
            let shown = word.as_str();
            Err(Diagnostic::error(word.at, format!("{shown} {why}")).hint(hint))
        }
    }
}

/// Returns the reason why rules cannot change a field, and a hint; `None` if they can.
pub(crate) fn unchangeable(id: FieldId) -> Option<(&'static str, &'static str)> {
    Some(match id {
        FieldId::Host => (
            "names the site and is part of the cache key",
            "use set-destination HOST, in REMAP_PSEUDO_HOOK or READ_REQUEST_HDR_HOOK",
        ),
        FieldId::ContentLength | FieldId::TransferEncoding => (
            "says where a message ends; a wrong value would join two messages",
            "leave the field out; Forebay writes it for each message",
        ),
        FieldId::Trailer => {
            ("announces fields after the body, which rules cannot change", "leave the field out")
        }
        FieldId::Connection
        | FieldId::KeepAlive
        | FieldId::ProxyConnection
        | FieldId::Te
        | FieldId::Upgrade => (
            "belongs to one connection, which rules cannot control",
            "leave the field out; the setting idle_ms_max limits idle connections",
        ),
        _ => return None,
    })
}

/// Checks a cookie's name.
pub(crate) fn cookie(word: &SourceWord) -> Result<Box<[u8]>, Diagnostic> {
    let name = word.as_str().as_bytes();
    // RFC 6265 §4.1.1: a token, as field names are.
    match FieldName::parse(name) {
        Some(_) => Ok(name.into()),
        None => Err(Diagnostic::error(
            word.at,
            format!("{:?} is not a valid cookie name", word.as_str()),
        )),
    }
}
