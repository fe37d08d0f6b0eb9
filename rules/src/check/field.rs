//! Names of fields and cookies.

use forebay_http::{edit::FieldName, fields::FieldId};

use crate::{diagnostic::Diagnostic, lex::SourceWord};

/// A field to be looked at.
pub(crate) fn field(word: &SourceWord) -> Result<FieldName, Diagnostic> {
    let name = word.as_str();
    if let Some(inner) = name.strip_prefix('@') {
        let message = format!("@{inner}: fields that stay inside the proxy are not kept here");
        return Err(Diagnostic::error(word.at, message).hint(
            "set-state-flag, set-state-int8 and set-state-int16 carry a value from hook to hook",
        ));
    }
    FieldName::parse(name.as_bytes()).ok_or_else(|| {
        let shown = if name.is_empty() { "an empty name" } else { name };
        let problem = Diagnostic::error(word.at, format!("{shown} cannot be the name of a field"));
        match name.strip_suffix(':') {
            Some(name) => problem.hint(format!("without the colon: {name}")),
            None => problem.hint("letters, digits and !#$%&'*+-.^_`|~"),
        }
    })
}

/// A field to be changed: not one that belongs to the connection or says where a message ends.
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

/// Why rules cannot change a field, and what to do instead.
pub(crate) fn unchangeable(id: FieldId) -> Option<(&'static str, &'static str)> {
    Some(match id {
        FieldId::Host => (
            "names the site: it is part of the key of what is stored",
            "set-destination HOST, in REMAP_PSEUDO_HOOK or READ_REQUEST_HDR_HOOK",
        ),
        FieldId::ContentLength | FieldId::TransferEncoding | FieldId::Trailer => (
            "says where a message ends: with a wrong one, one message ends in another",
            "leave it out: it is made for each message",
        ),
        FieldId::Connection
        | FieldId::KeepAlive
        | FieldId::ProxyConnection
        | FieldId::Te
        | FieldId::Upgrade => (
            "belongs to one connection, which is not the rules' to steer",
            "leave it out; idle connections are closed after the setting idle_ms_max",
        ),
        _ => return None,
    })
}

/// A cookie's name.
pub(crate) fn cookie(word: &SourceWord) -> Result<Box<[u8]>, Diagnostic> {
    let name = word.as_str().as_bytes();
    // RFC 6265 §4.1.1: a token, as field names are.
    match FieldName::parse(name) {
        Some(_) => Ok(name.into()),
        None => Err(Diagnostic::error(
            word.at,
            format!("{:?} cannot be the name of a cookie", word.as_str()),
        )),
    }
}
