//! Finds comparisons of a part of a URL with text that belongs to another part.

use super::{Mismatch, TextComparison};
use crate::ast::{Comparison, UrlKind, UrlPart};

pub(super) fn never(
    of: UrlKind,
    part: &UrlPart,
    how: TextComparison,
    text: &str,
) -> Option<Mismatch> {
    let is_beginning = matches!(how.compare, Comparison::Equal | Comparison::Prefix);
    match part {
        UrlPart::Path if is_beginning && text.starts_with('/') => Some(path_with_slash()),
        UrlPart::Path if text.contains('?') => Some((
            "PATH ends before the question mark".into(),
            "compare the rest with QUERY".into(),
        )),
        UrlPart::Query if is_beginning && text.starts_with('?') => Some(query_with_mark()),
        UrlPart::Host if of == UrlKind::Server => {
            never_host(how, text, "the origin's name is written in lower case")
        }
        UrlPart::Host => never_host(how, text, "hosts of requests are compared in lower case"),
        UrlPart::Whole if is_beginning => whole(how, text),
        _ => None,
    }
}

fn path_with_slash() -> Mismatch {
    let message = "PATH excludes the first slash, so it begins with a slash only if the URL's path \
                   begins with two, as in http://example.org//a";
    (message.into(), "remove the first slash, unless you mean such URLs".into())
}

fn query_with_mark() -> Mismatch {
    let message = "QUERY excludes the first question mark, so it begins with a question mark only \
                   if the URL has two in a row, as in http://example.org/a??b";
    (message.into(), "remove the question mark, unless you mean such URLs".into())
}

/// Returns a warning if no host matches the text. `lower_case` is the message about upper-case
/// letters.
pub(super) fn never_host(how: TextComparison, text: &str, lower_case: &str) -> Option<Mismatch> {
    let name = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    if let Some(name) = name.or_else(|| text.contains('/').then_some(text)) {
        let name = name.split('/').next().unwrap_or_default();
        let hint = if name.is_empty() { "example.org".into() } else { name.to_owned() };
        return Some(("HOST is only the name of the host".into(), hint));
    }
    let after_brackets = text.rsplit(']').next().unwrap_or_default();
    if let Some((name, _)) = after_brackets.split_once(':')
        && !name.is_empty()
        && !name.contains(|c: char| c.is_ascii_whitespace())
        && after_brackets.matches(':').count() == 1
    {
        let hint = "compare PORT separately, as a number".into();
        return Some(("HOST does not include the port".into(), hint));
    }
    let lower = text.to_ascii_lowercase();
    (!how.nocase && lower != text)
        .then(|| (lower_case.to_owned(), format!("write {lower}, or use the flag [NOCASE]")))
}

fn whole(how: TextComparison, text: &str) -> Option<Mismatch> {
    let folded = if how.nocase { text.to_ascii_lowercase() } else { text.to_owned() };
    let begins = ["http://", "https://"].iter().any(|begin| {
        folded.starts_with(begin)
            || (how.compare == Comparison::Prefix && begin.starts_with(&folded))
    });
    let hint = "to compare a part, use HOST, PORT, PATH or QUERY";
    (!begins).then(|| ("a whole URL begins with http:// or https://".into(), hint.into()))
}

/// Detects a regex anchored to a beginning that never or hardly ever occurs.
pub(super) fn never_regex(part: &UrlPart, pattern: &str) -> Option<Mismatch> {
    let pattern = pattern.strip_prefix("(?i)").unwrap_or(pattern);
    if has_alternatives(pattern) {
        return None;
    }
    let begins = |with: &str| {
        let rest = pattern.strip_prefix('^').and_then(|rest| rest.strip_prefix(with));
        // A pattern such as `^\/?a` also matches without the slash.
        rest.is_some_and(|rest| !rest.starts_with(['?', '*', '{']))
    };
    match part {
        UrlPart::Path if begins("\\/") => Some(path_with_slash()),
        UrlPart::Query if begins("\\?") => Some(query_with_mark()),
        UrlPart::Whole if begins("\\/") => whole(
            TextComparison { compare: Comparison::Equal, nocase: false, negated: false },
            pattern.trim_start_matches(['^', '\\']),
        ),
        _ => None,
    }
}

/// Whether the pattern has a `|` outside of groups and classes, as in `^a|b`.
fn has_alternatives(pattern: &str) -> bool {
    let bytes = pattern.as_bytes();
    let (mut place, mut depth) = (0, 0_u32);
    while let Some(byte) = bytes.get(place) {
        match byte {
            b'|' if depth == 0 => return true,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'\\' => place += 1,
            b'[' => place = class_end(bytes, place + 1),
            _ => {}
        }
        place += 1;
    }
    false
}

/// Returns the position of the bracket that closes a class. A bracket at the beginning of the class
/// is a member.
fn class_end(bytes: &[u8], begin: usize) -> usize {
    let first = begin + usize::from(bytes.get(begin) == Some(&b'^'));
    let mut place = first;
    while let Some(byte) = bytes.get(place) {
        match byte {
            b']' if place > first => return place,
            b'\\' => place += 1,
            b'[' => {
                let rest = bytes.get(place..).unwrap_or_default();
                place += rest.windows(2).position(|two| two == b":]").map_or(0, |end| end + 1);
            }
            _ => {}
        }
        place += 1;
    }
    place
}
