//! Checks an operand piece by piece, according to the kind of comparison.

use regex::bytes::Regex;

use super::{Mismatch, TextComparison, address, few, number, url, without_it};
use crate::{
    ast::{Comparison, Matcher, Variable},
    check::{set::members, variable::ValueKind},
    diagnostic::Diagnostic,
    lex::SourceWord,
};

/// Returns warnings for a valid operand; `name` is the text in the condition's braces, `negated`
/// whether the condition has `[NOT]`.
pub(crate) fn impossible_operands(
    name: &SourceWord,
    subject: &Variable,
    matcher: &Matcher,
    operand: &SourceWord,
    negated: bool,
) -> Vec<Diagnostic> {
    let warn = |(word, (message, hint)): (SourceWord, Mismatch)| {
        let problem = Diagnostic::warning(word.at, message);
        if hint.is_empty() { problem } else { problem.hint(hint) }
    };
    let problem_of = |word: SourceWord| {
        let problem = match matcher {
            Matcher::Number { how, with } => number::never(subject, *how, *with),
            Matcher::NumberSet(_) => {
                let member = word.as_str().parse().ok();
                member.and_then(|member| number::never(subject, Comparison::Equal, member))
            }
            Matcher::Regex(regex) => of_regex(name, subject, regex, negated),
            Matcher::Text { how, nocase, .. } | Matcher::TextSet { how, nocase, .. } => {
                let how = TextComparison { compare: *how, nocase: *nocase, negated };
                of_text(name, subject, how, word.as_str())
            }
            Matcher::Is | Matcher::Ranges(_) => None,
        };
        Some((word, problem?))
    };
    words(matcher, operand).into_iter().filter_map(problem_of).map(warn).collect()
}

/// Returns the pieces of the operand with which the value is compared.
fn words(matcher: &Matcher, operand: &SourceWord) -> Vec<SourceWord> {
    let text = operand.as_str();
    match matcher {
        Matcher::NumberSet(_) | Matcher::TextSet { .. } => {
            let inside = operand.part(1..text.len().saturating_sub(1).max(1));
            members(operand, &inside).unwrap_or_default()
        }
        Matcher::Text { .. } => {
            let begin = usize::from(text.starts_with(['=', '<', '>']));
            let mut word = operand.part(begin..text.len());
            // The span includes the sign and the quotes, because an empty text has no span of its
            // own.
            word.at = operand.at;
            vec![word]
        }
        _ => vec![operand.clone()],
    }
}

fn of_text(
    name: &SourceWord,
    subject: &Variable,
    how: TextComparison,
    text: &str,
) -> Option<Mismatch> {
    if text.len() > 1 && text.starts_with('\'') && text.ends_with('\'') {
        let inside = text.trim_matches('\'');
        return Some(("single quotes are part of the text".into(), format!("\"{inside}\"")));
    }
    if matches!(how.compare, Comparison::Less | Comparison::Greater) {
        return of_order(subject, text);
    }
    // Every text begins with the empty text.
    if text.is_empty() && how.compare != Comparison::Equal {
        return None;
    }
    if let Some(values) = few::values_of(subject) {
        return few::never(name, values, how, text);
    }
    match subject {
        Variable::Method => method(how, text),
        Variable::Address(which) => address::never(*which, how, text),
        Variable::Cidr { v4_bits, v6_bits } => address::never_cidr((*v4_bits, *v6_bits), how, text),
        Variable::Url(of, part) => url::never(*of, part, how, text),
        Variable::NextHopHost => {
            url::never_host(how, text, "the origin's name is written in lower case")
        }
        _ => None,
    }
}

/// Warns of `<` and `>` for addresses and for numbers in a text, because they compare texts byte by
/// byte.
fn of_order(subject: &Variable, text: &str) -> Option<Mismatch> {
    if ValueKind::of(subject) == ValueKind::Address || matches!(subject, Variable::Cidr { .. }) {
        let message = "< and > compare addresses as texts, byte by byte";
        return Some((message.into(), "use a range: %{IP:CLIENT} {10.0.0.1-10.0.0.9}".into()));
    }
    let begins = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    (begins && text.parse::<f64>().is_ok()).then(|| {
        (
            "texts are compared byte by byte: \"10\" is less than \"9\"".into(),
            "use a regex for the number of digits: /^[0-9]{4,}$/".into(),
        )
    })
}

fn of_regex(
    name: &SourceWord,
    subject: &Variable,
    regex: &Regex,
    negated: bool,
) -> Option<Mismatch> {
    if let Some(values) = few::values_of(subject) {
        let holds = values.iter().any(|value| regex.is_match(value.as_bytes()));
        let message = || format!("{} never matches this regex", name.as_str());
        return (!holds).then(|| (message(), few::instead(values, "", negated)));
    }
    match subject {
        Variable::Url(_, part) => url::never_regex(part, regex.as_str()),
        _ => None,
    }
}

/// Returns a warning if no method matches the text. Methods are case-sensitive, and all registered
/// methods are in upper case (RFC 9110 §9.1).
fn method(how: TextComparison, text: &str) -> Option<Mismatch> {
    if text.is_empty() {
        return Some(("a method is never empty".into(), without_it(how.negated).into()));
    }
    let upper = text.to_ascii_uppercase();
    if let Some(separator) = [',', '|', ' '].into_iter().find(|byte| text.contains(*byte)) {
        let names: Vec<&str> = upper.split(separator).map(str::trim).collect();
        let message = format!("{text:?} is not a method");
        return Some((message, format!("to match one of several, write ({})", names.join(","))));
    }
    (!how.nocase && upper != text).then(|| {
        let message = "methods are written in upper case".into();
        (message, format!("write {upper}, or use the flag [NOCASE]"))
    })
}
