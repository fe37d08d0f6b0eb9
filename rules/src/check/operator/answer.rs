//! Operators on the answer: its status, where it points, its body.

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
        let message = format!("{status} announces another answer, it is none");
        return Err(Diagnostic::error(word.at, message));
    }
    let status = number_in(word, 200..=599, "a status")?;
    let response = matches!(arguments.hook, Hook::ReadResponse | Hook::SendResponse);
    let refusal = match status {
        206 => Some("206 says that only a part of the body follows"),
        204 | 205 | 304 if response => {
            Some("this status has no body, and the response may have one")
        }
        _ => None,
    };
    match refusal {
        Some(why) => Err(Diagnostic::error(word.at, format!("{status}: {why}"))
            .hint("in REMAP_PSEUDO_HOOK 204 answers without asking the origin")),
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
            .hint("set-redirect 302 http://example.org/%{CLIENT-URL:PATH}"));
    };
    let location = arguments.template(&url);
    let status = status?;
    if status == 304 {
        return Err(Diagnostic::error(word.at, "304 is no redirect").hint("301, 302, 307 or 308"));
    }
    let Some(location) = location else {
        return Ok(None);
    };
    if location.parts.is_empty() {
        return Err(Diagnostic::error(url.at, "an empty URL"));
    }
    if texts(&location).any(|text| text.contains(&b' ')) {
        // The warning of a lost `=` says what to write.
        let is_torn = words.iter().skip(1).any(|word| word.glued);
        let hint = if is_torn { "put the whole URL in quotes" } else { "%20 is a blank" };
        return Err(Diagnostic::error(url.at, "a blank cannot be in a URL").hint(hint));
    }
    let status = u16::try_from(status).unwrap_or(u16::MAX);
    let append_query = arguments.flags.append_query.is_some();
    Ok(Some(Operator::SetRedirect { status, location, append_query }))
}
