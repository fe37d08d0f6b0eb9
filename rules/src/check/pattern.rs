//! Regexes. The language means those of PCRE, over bytes; these are those of the `regex` crate,
//! which match in linear time. A pattern that the two read differently, or that one of them cannot
//! read, is refused: no pattern silently changes its meaning.

use regex::bytes::{Regex, RegexBuilder};

use crate::{
    diagnostic::Diagnostic,
    lex::SourceWord,
    limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX, REGEX_SIZES, REGEXES_BYTES_MAX},
    parse::ConditionFlags,
};

/// Compiles the regexes of a file, until they take too much together.
#[derive(Debug, Default)]
pub(crate) struct RegexCompiler {
    /// What they count as so far, those that were refused for their size included.
    bytes: usize,
}

impl RegexCompiler {
    /// Compiles what stands between the slashes. `None`: that there are too many was reported
    /// before.
    pub(crate) fn compile(
        &mut self,
        word: &SourceWord,
        flags: &ConditionFlags,
    ) -> Result<Option<Regex>, Diagnostic> {
        check_features(word, flags.not.is_some())?;
        // As a part of the pattern, so that two regexes with the same text are the same.
        let flags = if flags.nocase.is_some() { "(?i)" } else { "" };
        let pattern = format!("{flags}{}", word.as_str());
        // The crate does not say how large a regex is, but stops where it would become too large.
        for size in REGEX_SIZES {
            if self.bytes > REGEXES_BYTES_MAX {
                return Ok(None);
            }
            self.bytes += size;
            if self.bytes > REGEXES_BYTES_MAX {
                return Err(too_many(word));
            }
            match build(&pattern, size) {
                Ok(regex) => return Ok(Some(regex)),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(not_a_regex(word, &error)),
            }
        }
        let message = format!("this regex takes more than {REGEX_BYTES_MAX} bytes");
        Err(Diagnostic::error(word.at, message).hint("smaller counts in {}; several conditions"))
    }
}

fn build(pattern: &str, bytes_max: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(bytes_max)
        .dfa_size_limit(REGEX_CACHE_BYTES_MAX)
        .build()
}

fn too_many(word: &SourceWord) -> Diagnostic {
    let message = format!("up to here the file's regexes take more than {REGEXES_BYTES_MAX} bytes");
    Diagnostic::error(word.at, message).hint(
        "make two files of it; smaller counts in {}; a set, or a text with [PRE], [SUF] or [MID]",
    )
}

fn not_a_regex(word: &SourceWord, error: &regex::Error) -> Diagnostic {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    Diagnostic::error(word.at, format!("not a regex: {reason}"))
}

/// Walks the pattern as PCRE would, on the look-out for what is different.
fn check_features(word: &SourceWord, negated: bool) -> Result<(), Diagnostic> {
    let text = word.as_str();
    let mut place = 0;
    let mut class_from = None;
    while let Some(rest) = text.get(place..) {
        let Some(character) = rest.chars().next() else {
            return Ok(());
        };
        let (problem, step) = match class_from {
            Some(from) => in_class(rest, place == from),
            None => outside_class(rest),
        };
        if let Some((len, message, hint)) = problem {
            let part = place..(place + len).min(text.len());
            let hint = without_look_ahead(text, negated).unwrap_or_else(|| hint.to_owned());
            return Err(Diagnostic::error(word.at_part(part), message).hint(hint));
        }
        match character {
            '[' if class_from.is_none() => {
                let negated = usize::from(rest.starts_with("[^"));
                place += 1 + negated;
                class_from = Some(place);
            }
            ']' if class_from.is_some_and(|from| place > from) => {
                class_from = None;
                place += 1;
            }
            _ => place += step.max(character.len_utf8()),
        }
    }
    Ok(())
}

/// The usual ways to say that something must not be there.
fn without_look_ahead(pattern: &str, negated: bool) -> Option<String> {
    let between = |begin: &str, end: &str| pattern.strip_prefix(begin)?.strip_suffix(end);
    let inside = match between("^((?!", ").)*$").or_else(|| between("^(?:(?!", ").)*$")) {
        Some(inside) => inside.to_owned(),
        None => {
            // Not with `.+`, which an empty text has no match of.
            let inside = [").*$", ").*", ")"].into_iter().find_map(|end| between("^(?!", end))?;
            // `^` and `.*` would be those of the first alternative alone.
            anywhere_or_first(inside).filter(|inside| !inside.contains('|'))?
        }
    };
    // What has parentheses may end elsewhere; what is found in an empty text is found at the end,
    // where the pattern does not look.
    let is_plain = !inside.contains(['(', ')']);
    let needs_text = |regex: Regex| !regex.is_match(b"");
    let is_same = is_plain && build(&inside, REGEX_BYTES_MAX).is_ok_and(needs_text);
    let flag = if negated { "without [NOT]" } else { "[NOT]" };
    is_same.then(|| format!("/{inside}/ {flag} says the same"))
}

/// `.*a` is found anywhere, `a` at the beginning.
fn anywhere_or_first(inside: &str) -> Option<String> {
    let anywhere = inside.strip_prefix(".*?").or_else(|| inside.strip_prefix(".*"));
    Some(anywhere.map_or_else(|| format!("^{inside}"), str::to_owned))
}

/// How long it is, what is wrong and what to do instead; and how far to go on.
type ScanStep = (Option<(usize, &'static str, &'static str)>, usize);

const PASS: Option<(usize, &str, &str)> = None;

fn outside_class(rest: &str) -> ScanStep {
    if let Some(escaped) = rest.strip_prefix('\\') {
        return (escape(escaped), 1 + escaped.chars().next().map_or(0, char::len_utf8));
    }
    const AHEAD: &str = "look-around, which takes more than linear time";
    const CONDITIONS: &str =
        "a condition of its own for it: with the flag [NOT] if it must not be there";
    for (begins, message, hint) in [
        ("(?=", AHEAD, CONDITIONS),
        ("(?!", AHEAD, CONDITIONS),
        ("(?<=", AHEAD, CONDITIONS),
        ("(?<!", AHEAD, CONDITIONS),
        ("(?>", "an atomic group, which is of no use in linear time", "write (?: instead"),
        ("(?(", "a condition in a regex", "two rules with a regex each"),
        ("(?R", "a regex that calls itself", "write it out as deep as is needed"),
        ("(?&", "a regex that calls itself", "write it out as deep as is needed"),
        ("(?P=", BACK, BACK_HINT),
        ("(?P>", "a regex that calls itself", "write it out as deep as is needed"),
        ("(?|", "a group that counts anew", "write (?: and other numbers"),
        ("(?#", "a comment in a regex", "a line that begins with #"),
        ("(*", "a verb of PCRE", "leave it out"),
        ("++", POSSESSIVE, GREEDY),
        ("*+", POSSESSIVE, GREEDY),
        ("?+", POSSESSIVE, GREEDY),
        ("}+", POSSESSIVE, GREEDY),
    ] {
        if rest.starts_with(begins) {
            return (Some((begins.len(), message, hint)), 1);
        }
    }
    let calls = rest.strip_prefix("(?").and_then(|rest| rest.chars().next());
    if calls.is_some_and(|character| character.is_ascii_digit()) {
        return (Some((3, "a regex that calls itself", "write it out as deep as is needed")), 1);
    }
    (PASS, 1)
}

const POSSESSIVE: &str = "a possessive count, which is of no use in linear time";
const GREEDY: &str = "without the second +";
const BACK: &str = "a back-reference, which takes more than linear time";
const BACK_HINT: &str = "write out what may be repeated: (aa|bb) for (a|b)\\1";

fn escape(escaped: &str) -> Option<(usize, &'static str, &'static str)> {
    let character = escaped.chars().next()?;
    match character {
        '1'..='9' | 'g' | 'k' => Some((2, BACK, BACK_HINT)),
        'Z' => Some((2, "\\Z, of which there is none", "$, or \\z")),
        '<' | '>' => Some((2, "an escape that means something else here", "without the backslash")),
        'Q' | 'E' => Some((2, "\\Q and \\E, of which there are none", "a backslash for each")),
        'h' => Some((2, "\\h, of which there is none", "[ \\t]")),
        'K' | 'G' | 'R' | 'X' | 'C' | 'N' => {
            Some((2, "an escape that there is none of", "leave it out"))
        }
        _ => None,
    }
}

/// In a class the `regex` crate knows classes in classes and sets of them, PCRE does not.
fn in_class(rest: &str, first: bool) -> ScanStep {
    if let Some(escaped) = rest.strip_prefix('\\') {
        return (None, 1 + escaped.chars().next().map_or(0, char::len_utf8));
    }
    if rest.starts_with("[:") {
        let len = rest.find(":]").map_or(2, |place| place + 2);
        return (None, len);
    }
    const ESCAPE: &str = "a backslash before it: \\[";
    if rest.starts_with('[') {
        return (Some((1, "a bracket in a class that is read in two ways", ESCAPE)), 1);
    }
    for twice in ["&&", "--", "~~"] {
        if rest.starts_with(twice) {
            let hint = "one of them is enough, or a backslash before each";
            return (Some((2, "two of these in a class are read in two ways", hint)), 1);
        }
    }
    // `[]a]`: the first bracket belongs to the class.
    (None, usize::from(first))
}
