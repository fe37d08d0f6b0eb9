//! Operators on the response: its status, redirect and body.

use crate::{
    ast::{Hook, Operator},
    check::{
        number::{number, number_in},
        template,
    },
    diagnostic::Diagnostic,
};

use super::{CheckResult, arguments::Arguments, fields::texts};

pub(crate) fn status(arguments: &Arguments<'_, '_>) -> CheckResult<Operator> {
    let word = arguments.only("a status")?;
    let status = number(word)?;
    if (100..200).contains(&status) {
        let message = format!("{status} is an interim status and cannot be the final answer");
        return Err(Diagnostic::error(word.at, message));
    }
    let status = number_in(word, 200..=599, "a status")?;
    let response = matches!(arguments.hook, Hook::ReadResponse | Hook::SendResponse);
    let refusal = match status {
        206 => Some("206 means that only a part of the body follows"),
        204 | 205 | 304 if response => {
            Some("this status allows no body, but the response may have one")
        }
        _ => None,
    };
    match refusal {
        Some(why) => Err(Diagnostic::error(word.at, format!("{status}: {why}"))
            .hint("at REMAP_PSEUDO_HOOK, 204 answers without contacting the origin")),
        None => Ok(Operator::SetStatus(u16::try_from(status).unwrap_or(u16::MAX))),
    }
}

pub(crate) fn reason(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    Ok(arguments.only_value("a text")?.map(Operator::SetReason))
}

pub(crate) fn body(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    Ok(arguments.only_value("a text")?.map(Operator::SetBody))
}

pub(crate) fn redirect(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    let word = arguments.first("a status and a URL")?;
    let status = number_in(word, 300..=399, "the status of a redirect");
    let words = arguments.words.get(1..).unwrap_or_default();
    let Some(url) = template::joined(words, arguments.findings) else {
        return Err(Diagnostic::error(arguments.name.at, "set-redirect needs a URL")
            .hint("such as set-redirect 302 http://example.org/%{CLIENT-URL:PATH}"));
    };
    let location = arguments.template(&url);
    let status = status?;
    if status == 304 {
        return Err(
            Diagnostic::error(word.at, "304 is not a redirect").hint("use 301, 302, 307 or 308")
        );
    }
    let Some(location) = location else {
        return Ok(None);
    };
    if location.parts.is_empty() {
        return Err(Diagnostic::error(url.at, "the URL is empty"));
    }
    if texts(&location).any(|text| text.contains(&b' ')) {
        // The warning about a dropped `=` already says what to write.
        let is_torn = words.iter().skip(1).any(|word| word.glued);
        let hint = if is_torn { "put the whole URL in quotes" } else { "write a space as %20" };
        return Err(Diagnostic::error(url.at, "a URL cannot contain a space").hint(hint));
    }
    let status = u16::try_from(status).unwrap_or(u16::MAX);
    let append_query = arguments.flags.append_query.is_some();
    Ok(Some(Operator::SetRedirect { status, location, append_query }))
}
