//! Operators on fields and cookies.

use forebay_http::fields::FieldId;

use crate::{
    ast::{Hook, Operator, Template, TemplatePart},
    check::field,
    diagnostic::Diagnostic,
};

use super::{CheckResult, arguments::Arguments};

pub(crate) fn header(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    let word = arguments.first("the name of a field")?;
    let name = field::changeable_field(word);
    let replaces = arguments.name.as_str() != "add-header";
    if arguments.hook == Hook::SendRequest
        && replaces
        && name.as_ref().is_ok_and(|name| name.id() == FieldId::Via)
    {
        let message = "Via cannot be replaced: it detects requests that loop back to this server";
        return Err(
            Diagnostic::error(word.at, message).hint("use add-header, or leave Via unchanged")
        );
    }
    if arguments.name.as_str() == "rm-header" {
        arguments.no_more_than(1)?;
        return Ok(Some(Operator::RemoveHeader(name?)));
    }
    // The name and the value are both checked, even if one of them has an error.
    let value = arguments.value("a value")?;
    let name = name?;
    let Some(value) = value else {
        return Ok(None);
    };
    let set = arguments.name.as_str() == "set-header";
    if value.parts.is_empty() {
        let problem = Diagnostic::warning(arguments.value_at(), "the value is empty");
        let hint = match set {
            true => "to remove the field, use rm-header",
            false => "remove the line, or give the field a value",
        };
        arguments.findings.push(problem.hint(hint));
    }
    Ok(Some(if set { Operator::SetHeader(name, value) } else { Operator::AddHeader(name, value) }))
}

pub(crate) fn cookie(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    let name = field::cookie(arguments.first("the name of a cookie")?);
    if arguments.name.as_str() == "rm-cookie" {
        arguments.no_more_than(1)?;
        return Ok(Some(Operator::RemoveCookie(name?)));
    }
    let value = arguments.value("a value")?;
    let name = name?;
    let Some(value) = value else {
        return Ok(None);
    };
    if texts(&value).any(|text| text.contains(&b';')) {
        return Err(Diagnostic::error(arguments.value_at(), "a `;` would start another cookie")
            .hint("set one cookie at a time, without attributes"));
    }
    let set = arguments.name.as_str() == "set-cookie";
    Ok(Some(if set { Operator::SetCookie(name, value) } else { Operator::AddCookie(name, value) }))
}

/// Iterates over the constant texts of a value.
pub(crate) fn texts(value: &Template) -> impl Iterator<Item = &[u8]> {
    value.parts.iter().filter_map(|part| match part {
        TemplatePart::Text(text) => Some(&text[..]),
        TemplatePart::Variable(_) => None,
    })
}
