//! Checks sets: `(a,b,"c,d")`.

use crate::{diagnostic::Diagnostic, lex::SourceWord};

/// Returns the members without surrounding spaces and quotes. `operand` includes the parentheses,
/// `inside` does not.
pub(crate) fn members(
    operand: &SourceWord,
    inside: &SourceWord,
) -> Result<Vec<SourceWord>, Diagnostic> {
    let text = inside.as_str();
    if text.trim().is_empty() {
        return Err(Diagnostic::error(operand.at, "this set is empty, so nothing matches it"));
    }
    let mut members = Vec::new();
    let mut begin = 0;
    let mut quoted = false;
    for (place, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                members.push(member(operand, inside, begin, place)?);
                begin = place + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(Diagnostic::error(operand.at, "a quote in this set is not closed"));
    }
    members.push(member(operand, inside, begin, text.len())?);
    Ok(members)
}

fn member(
    operand: &SourceWord,
    inside: &SourceWord,
    begin: usize,
    end: usize,
) -> Result<SourceWord, Diagnostic> {
    let text = inside.as_str().get(begin..end).unwrap_or_default();
    let trimmed = text.trim();
    let begin = begin + (text.len() - text.trim_start().len());
    let end = begin + trimmed.len();
    let in_quotes = trimmed.len() >= 2 && trimmed.starts_with('"') && trimmed.ends_with('"');
    if in_quotes {
        return Ok(inside.part(begin + 1..end - 1));
    }
    let word = inside.part(begin..end);
    match trimmed {
        "" => Err(Diagnostic::error(operand.at, "this set has an empty member")
            .hint("remove the comma, or write \"\" for the empty text")),
        _ if trimmed.contains('"') => {
            Err(Diagnostic::error(word.at, "a quote cannot stand in the middle of a member"))
        }
        _ => Ok(word),
    }
}
