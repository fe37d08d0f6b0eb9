//! Checks numbers and switches.

use std::ops::RangeInclusive;

use crate::{diagnostic::Diagnostic, lex::SourceWord};

/// Reads a decimal number, which may have a minus sign.
pub(crate) fn number(word: &SourceWord) -> Result<i64, Diagnostic> {
    let text = word.as_str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let shown = if text.is_empty() { "nothing" } else { text };
        return Err(Diagnostic::error(word.at, format!("expected a number, found {shown}")));
    }
    let too_large = |_| Diagnostic::error(word.at, format!("the number {text} is too large"));
    text.parse().map_err(too_large)
}

/// Reads a number that must be within a range. `what` names the number in messages.
pub(crate) fn number_in(
    word: &SourceWord,
    range: RangeInclusive<i64>,
    what: &str,
) -> Result<i64, Diagnostic> {
    let found = number(word)?;
    if range.contains(&found) {
        return Ok(found);
    }
    let message = match (range.start(), range.end()) {
        (only, last) if only == last => format!("{what} must be {only}, not {found}"),
        (first, last) => format!("{what} must be from {first} to {last}, not {found}"),
    };
    Err(Diagnostic::error(word.at, message))
}

/// Reads `on`, `off` and their synonyms.
pub(crate) fn switch(word: &SourceWord) -> Result<bool, Diagnostic> {
    match word.as_str().to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "enable" => Ok(true),
        "off" | "false" | "0" | "disable" => Ok(false),
        text => Err(Diagnostic::error(word.at, format!("expected on or off, found {text}"))),
    }
}
