//! Operators on the request's URL.

use crate::{
    ast::{Operator, Template, UrlPart},
    check::{number::number_in, qualifier::url_part},
    diagnostic::Diagnostic,
    lex::SourceWord,
};

use super::{CheckResult, arguments::Arguments, fields::texts};

pub(crate) fn set(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    let part_word = arguments.first("a part of the URL: HOST, PORT, PATH, QUERY or URL")?;
    let part = url_part(part_word);
    let value = arguments.value("a value")?;
    let part = part?;
    let Some(value) = value else {
        return Ok(None);
    };
    if let UrlPart::QueryParameter(_) = part {
        return Err(Diagnostic::error(part_word.at, "single parameters cannot be set")
            .hint("set-destination QUERY sets all, rm-destination QUERY a,b removes some"));
    }
    check_value(&part, &value, arguments)?;
    if part == UrlPart::Scheme {
        return Ok(Some(Operator::NoOp));
    }
    let append_query = arguments.flags.append_query.is_some();
    Ok(Some(Operator::SetDestination { part, value, append_query }))
}

/// Constant texts have to be what they are for.
fn check_value(
    part: &UrlPart,
    value: &Template,
    arguments: &mut Arguments<'_, '_>,
) -> CheckResult<()> {
    let at = arguments.value_at();
    let error = |message: &str, hint: &str| Err(Diagnostic::error(at, message).hint(hint));
    let bad = |byte: u8| byte <= b' ' || byte == 0x7f || byte == b'#';
    let has = |wanted: &dyn Fn(u8) -> bool| texts(value).flatten().any(|byte| wanted(*byte));
    if has(&bad) {
        // The warning of the lost `=` says what to write.
        let is_torn = arguments.words.iter().skip(2).any(|word| word.glued);
        if is_torn {
            return error("a blank cannot be in a URL", "put the whole value in quotes");
        }
        return error("a blank or # cannot be in a URL", "%20 is a blank, %23 is a #");
    }
    let constant = value.constant();
    if constant == Some(b"") {
        let problem = Diagnostic::warning(at, "an empty value changes nothing");
        arguments.findings.push(problem.hint("rm-destination removes PATH, PORT or QUERY"));
        return Ok(());
    }
    match part {
        UrlPart::Scheme if constant == Some(b"http") => Ok(()),
        UrlPart::Scheme => error(
            "http is the only scheme that origins are asked by",
            "TLS to origins is not there yet; leave it out",
        ),
        UrlPart::Host if has(&|byte| b"/?@\\".contains(&byte)) => {
            error("this cannot be in the name of a host", "HOST is the name alone")
        }
        UrlPart::Host if constant.is_some_and(has_port) => {
            error("a name of a host has no port", "set-destination PORT sets it")
        }
        UrlPart::Port if constant.is_some() => {
            let word = arguments.second("a port")?;
            number_in(word, 1..=65535, "a port").map(|_| ())
        }
        UrlPart::Path if has(&|byte| byte == b'?') => {
            error("a ? ends the path", "set-destination QUERY sets what follows it")
        }
        UrlPart::Path if constant.is_some_and(|path| path.starts_with(b"/")) => {
            let problem = Diagnostic::warning(at, "the path would begin with two slashes");
            arguments.findings.push(problem.hint("leave the first out: it is put there anyway"));
            Ok(())
        }
        UrlPart::Whole if constant.is_some_and(|url| !url.starts_with(b"http://")) => {
            error("a whole URL begins with http://", "TLS to origins is not there yet")
        }
        _ => Ok(()),
    }
}

/// `[::1]` has colons and no port.
fn has_port(host: &[u8]) -> bool {
    let after_brackets = host.rsplit(|byte| *byte == b']').next().unwrap_or_default();
    after_brackets.contains(&b':')
}

pub(crate) fn remove(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    let word = arguments.first("PATH, PORT or QUERY")?;
    let part = url_part(word)?;
    match part {
        UrlPart::Query if arguments.words.len() > 1 => {
            let names = parameter_names(arguments.second("names")?)?;
            let keep = arguments.flags.keep.is_some();
            Ok(Some(Operator::FilterQuery { names, keep }))
        }
        UrlPart::Query => Ok(Some(Operator::FilterQuery { names: Vec::new(), keep: false })),
        UrlPart::Path | UrlPart::Port => {
            arguments.no_more_than(1)?;
            Ok(Some(Operator::RemoveDestination(part)))
        }
        _ => Err(Diagnostic::error(word.at, format!("{} cannot be removed", word.as_str()))
            .hint("PATH, PORT or QUERY can")),
    }
}

fn parameter_names(word: &SourceWord) -> CheckResult<Vec<Box<[u8]>>> {
    let names: Vec<Box<[u8]>> =
        word.as_str().split(',').map(|name| name.trim().as_bytes().into()).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(Diagnostic::error(word.at, "an empty name of a parameter")
            .hint("names with commas between them: a,b"));
    }
    Ok(names)
}
