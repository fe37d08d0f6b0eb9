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
        return Err(Diagnostic::error(part_word.at, "a single parameter cannot be set").hint(
            "set-destination QUERY sets the whole query, rm-destination QUERY a,b removes some",
        ));
    }
    check_value(&part, &value, arguments)?;
    if part == UrlPart::Scheme {
        return Ok(Some(Operator::NoOp));
    }
    let append_query = arguments.flags.append_query.is_some();
    Ok(Some(Operator::SetDestination { part, value, append_query }))
}

/// Checks that a value is valid for its part of the URL, as far as its constant text shows.
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
        // The warning about a dropped `=` already says what to write.
        let is_torn = arguments.words.iter().skip(2).any(|word| word.glued);
        if is_torn {
            return error("a URL cannot contain a space", "put the whole value in quotes");
        }
        return error("a URL cannot contain a space or #", "write a space as %20 and # as %23");
    }
    let constant = value.constant();
    if constant == Some(b"") {
        let problem = Diagnostic::warning(at, "an empty value changes nothing");
        arguments.findings.push(problem.hint("to remove PATH, PORT or QUERY, use rm-destination"));
        return Ok(());
    }
    match part {
        UrlPart::Scheme if constant == Some(b"http") => Ok(()),
        UrlPart::Scheme => error(
            "http is the only scheme that a rule can set",
            "remove the line; the setting `origin` of the site chooses http or https",
        ),
        UrlPart::Host if has(&|byte| b"/?@\\".contains(&byte)) => {
            error("a host name cannot contain /, ?, @ or \\", "HOST is only the name of the host")
        }
        UrlPart::Host if constant.is_some_and(has_port) => {
            error("HOST does not include a port", "set the port with set-destination PORT")
        }
        UrlPart::Port if constant.is_some() => {
            let word = arguments.second("a port")?;
            number_in(word, 1..=65535, "a port").map(|_| ())
        }
        UrlPart::Path if has(&|byte| byte == b'?') => {
            error("a path cannot contain a ?", "set the query with set-destination QUERY")
        }
        UrlPart::Path if constant.is_some_and(|path| path.starts_with(b"/")) => {
            let problem = Diagnostic::warning(at, "the path would begin with two slashes");
            arguments.findings.push(problem.hint("remove the first slash: Forebay adds it"));
            Ok(())
        }
        UrlPart::Whole if constant.is_some_and(|url| !url.starts_with(b"http://")) => error(
            "a whole URL begins with http://",
            "write http://; the setting `origin` of the site chooses http or https",
        ),
        _ => Ok(()),
    }
}

/// Whether a host includes a port. `[::1]` contains colons but no port.
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
            .hint("only PATH, PORT and QUERY can be removed")),
    }
}

fn parameter_names(word: &SourceWord) -> CheckResult<Vec<Box<[u8]>>> {
    let names: Vec<Box<[u8]>> =
        word.as_str().split(',').map(|name| name.trim().as_bytes().into()).collect();
    if names.iter().any(|name| name.is_empty()) {
        return Err(Diagnostic::error(word.at, "a parameter name is empty")
            .hint("separate names by commas: a,b"));
    }
    Ok(names)
}
