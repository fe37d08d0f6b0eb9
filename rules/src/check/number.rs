//! Numbers in a file.

use std::ops::RangeInclusive;

use crate::{diagnostic::Diagnostic, lex::SourceWord};

/// A decimal number, perhaps with a minus sign.
pub(crate) fn number(word: &SourceWord) -> Result<i64, Diagnostic> {
    let text = word.as_str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let shown = if text.is_empty() { "nothing" } else { text };
        return Err(Diagnostic::error(word.at, format!("a number is needed, not {shown}")));
    }
    let too_large = |_| Diagnostic::error(word.at, format!("{text} is too large a number"));
    text.parse().map_err(too_large)
}

/// A number of a range; `what` says what it is.
pub(crate) fn number_in(
    word: &SourceWord,
    range: RangeInclusive<i64>,
    what: &str,
) -> Result<i64, Diagnostic> {
    let found = number(word)?;
    if range.contains(&found) {
        return Ok(found);
    }
    let message = format!("{what} is {} to {}, not {found}", range.start(), range.end());
    Err(Diagnostic::error(word.at, message))
}

/// `on`, `off` and their kin.
pub(crate) fn switch(word: &SourceWord) -> Result<bool, Diagnostic> {
    match word.as_str().to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "enable" => Ok(true),
        "off" | "false" | "0" | "disable" => Ok(false),
        text => Err(Diagnostic::error(word.at, format!("on or off is needed, not {text}"))),
    }
}
