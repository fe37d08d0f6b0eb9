//! Regexes of conditions: compiles them, and reports the reason at the part of the line that is
//! refused.

use regex::bytes::Regex;

use crate::{
    diagnostic::Diagnostic,
    lex::SourceWord,
    limits::{REGEX_BYTES_MAX, REGEXES_BYTES_MAX},
    parse::ConditionFlags,
    pattern::{PatternCompiler, PatternError, UnsupportedPart, needs_text},
};

/// Compiles the text between the slashes. Returns `None` if an earlier regex has exceeded the
/// limit, which is reported only once.
pub(super) fn compile_regex(
    compiler: &mut PatternCompiler,
    word: &SourceWord,
    flags: &ConditionFlags,
) -> Result<Option<Regex>, Diagnostic> {
    let compiled = compiler.compile(word.as_str(), flags.nocase.is_some());
    compiled.map_err(|error| diagnostic(word, flags.not.is_some(), error))
}

fn diagnostic(word: &SourceWord, negated: bool, error: PatternError) -> Diagnostic {
    const CONDITIONS: &str =
        "write a separate condition for this, with the flag [NOT] if it must not match";
    match error {
        PatternError::Unsupported(UnsupportedPart { part, message, hint }) => {
            let plain = without_look_ahead(word.as_str(), negated);
            let hint = plain.unwrap_or_else(|| hint.unwrap_or(CONDITIONS).to_owned());
            Diagnostic::error(word.at_part(part), message).hint(hint)
        }
        PatternError::Malformed(reason) => {
            Diagnostic::error(word.at, format!("this is not a valid regex: {reason}"))
        }
        PatternError::TooLarge => {
            let message =
                format!("this regex takes more than {REGEX_BYTES_MAX} bytes when compiled");
            Diagnostic::error(word.at, message)
                .hint("use smaller repetition counts in {}, or several conditions")
        }
        PatternError::TooMany => {
            let message = format!(
                "from here on, the file's compiled regexes exceed {REGEXES_BYTES_MAX} bytes"
            );
            Diagnostic::error(word.at, message).hint(
                "split the file, use smaller repetition counts in {}, or replace regexes by sets \
                 or by texts with [PRE], [SUF] or [MID]",
            )
        }
    }
}

/// Suggests a plain regex in place of the usual look-ahead patterns for "this text must not occur".
fn without_look_ahead(pattern: &str, negated: bool) -> Option<String> {
    let between = |begin: &str, end: &str| pattern.strip_prefix(begin)?.strip_suffix(end);
    let inside = match between("^((?!", ").)*$").or_else(|| between("^(?:(?!", ").)*$")) {
        Some(inside) => inside.to_owned(),
        None => {
            // `.+` is not accepted here: an empty text does not match it.
            let inside = [").*$", ").*", ")"].into_iter().find_map(|end| between("^(?!", end))?;
            // With alternatives, `^` and `.*` would apply to the first one only.
            anywhere_or_first(inside).filter(|inside| !inside.contains('|'))?
        }
    };
    // With parentheses inside, the group of the look-ahead may end elsewhere. A regex that matches
    // the empty text would also match at the very end, where the original pattern does not look.
    let is_plain = !inside.contains(['(', ')']);
    let is_same = is_plain && needs_text(&inside);
    let flag = if negated { "without [NOT]" } else { "[NOT]" };
    is_same.then(|| format!("write /{inside}/ {flag} instead"))
}

/// Converts the inside of a look-ahead `^(?!inside)` to a plain regex: `.*a` becomes `a`, which
/// matches anywhere, and `a` becomes `^a`, which matches only at the beginning.
fn anywhere_or_first(inside: &str) -> Option<String> {
    let anywhere = inside.strip_prefix(".*?").or_else(|| inside.strip_prefix(".*"));
    Some(anywhere.map_or_else(|| format!("^{inside}"), str::to_owned))
}
