//! Warns of values whose meaning is probably not the one that the author intended.

use crate::{
    check::missing_braces::missing_braces,
    diagnostic::{Diagnostic, RuleSpan},
    lex::SourceWord,
};

/// Length of the longest value that a hint repeats.
const SHOWN_BYTES_MAX: usize = 80;

/// Returns the warnings for a value. `words` are its words, and `value` is these words joined.
pub(crate) fn findings(words: &[SourceWord], value: &SourceWord) -> Vec<Diagnostic> {
    odd_words(words, value).into_iter().chain(never_filled_in(value)).collect()
}

/// Warns of a value that was split into words by mistake, or that contains a comment.
fn odd_words(words: &[SourceWord], value: &SourceWord) -> Option<Diagnostic> {
    if let Some(problem) = single_quotes(words, value) {
        return Some(problem);
    }
    let becomes = |at: RuleSpan| {
        let message = format!("the value is read as {:?}", value.as_str());
        Diagnostic::warning(at, message)
    };
    let rest = words.get(1..).unwrap_or_default();
    if let Some((index, split)) = (1..).zip(rest).find(|(_, word)| word.glued) {
        let before = words.get(index - 1)?;
        let why = match is_equals_sign_between(before, split) {
            true => "outside of quotes `=` ends a word and is dropped",
            false => "a quote and the closing slash of /…/ end a word",
        };
        return Some(becomes(split.at).hint(format!("{why}: write {}", in_quotes(words))));
    }
    if let Some(comment) = rest.iter().find(|word| word.is_comment()) {
        return Some(becomes(comment.at).hint("put the comment on a line of its own"));
    }
    let last = rest.last().filter(|word| word.as_str() == "always" && !word.quoted)?;
    Some(becomes(last.at).hint("remove `always`: a rule runs for every status"))
}

/// Warns of single quotes, which the language does not know.
pub(crate) fn single_quotes(words: &[SourceWord], value: &SourceWord) -> Option<Diagnostic> {
    let text = value.as_str();
    let is_quoted = words.first().is_some_and(|word| word.quoted);
    if is_quoted || text.len() < 2 || !text.starts_with('\'') || !text.ends_with('\'') {
        return None;
    }
    let problem = Diagnostic::warning(value.at, "single quotes are part of the value");
    let meant = in_quotes(words).replacen("\"'", "\"", 1).replacen("'\"", "\"", 1);
    Some(problem.hint(format!("use double quotes: {meant}")))
}

fn is_equals_sign_between(before: &SourceWord, after: &SourceWord) -> bool {
    after.glued && after.at.column > before.at.column + before.at.len
}

/// Returns the source text of the words, in one pair of quotes.
fn in_quotes(words: &[SourceWord]) -> String {
    let mut text = String::new();
    for (index, word) in words.iter().enumerate() {
        match index.checked_sub(1).and_then(|before| words.get(before)) {
            Some(before) if is_equals_sign_between(before, word) => text.push('='),
            Some(_) if !word.glued => text.push(' '),
            _ => {}
        }
        text.push_str(word.as_str());
    }
    if text.len() > SHOWN_BYTES_MAX {
        return "the whole value in quotes".to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Warns of the variable syntax of other languages, and of variables without braces.
fn never_filled_in(value: &SourceWord) -> Option<Diagnostic> {
    let text = value.as_str();
    if let Some((variable, part)) = missing_braces(text) {
        let message = "a variable needs braces to be filled in";
        return Some(Diagnostic::warning(value.at_part(part), message).hint(variable));
    }
    let place = text.find("${")?;
    let at = value.at_part(place..place + 2);
    let problem = Diagnostic::warning(at, "${ is plain text, not the beginning of a variable");
    Some(problem.hint("write variables as %{NAME}"))
}
