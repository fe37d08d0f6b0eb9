//! `(a,b,"c,d")`: members of a set.

use crate::{diagnostic::Diagnostic, lex::SourceWord};

/// The members, without blanks and quotes around them. `operand` has the parentheses, `inside` has
/// not.
pub(crate) fn members(
    operand: &SourceWord,
    inside: &SourceWord,
) -> Result<Vec<SourceWord>, Diagnostic> {
    let text = inside.as_str();
    if text.trim().is_empty() {
        return Err(Diagnostic::error(operand.at, "an empty set, which nothing is in"));
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
        return Err(Diagnostic::error(operand.at, "a quote in this set has no end"));
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
        "" => Err(Diagnostic::error(operand.at, "an empty member of a set")
            .hint("leave the comma out, or write \"\" for the empty text")),
        _ if trimmed.contains('"') => {
            Err(Diagnostic::error(word.at, "a quote in the middle of a member"))
        }
        _ => Ok(word),
    }
}
