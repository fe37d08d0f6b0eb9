//! Checks and compiles regexes. A regex of the language is a PCRE pattern over bytes. Forebay
//! compiles it with the `regex` crate, which matches in linear time. A pattern that PCRE and the
//! crate read differently, or that one of them cannot read, is refused, so that no pattern silently
//! changes its meaning.

use regex::bytes::{Regex, RegexBuilder};

use crate::{
    diagnostic::Diagnostic,
    lex::SourceWord,
    limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX, REGEX_SIZES, REGEXES_BYTES_MAX},
    parse::ConditionFlags,
};

/// Compiles the regexes of a file, up to a limit for all of them together.
#[derive(Debug, Default)]
pub(crate) struct RegexCompiler {
    /// Number of bytes charged for the regexes of the file, including regexes that were refused for
    /// their size.
    bytes: usize,
}

impl RegexCompiler {
    /// Compiles the text between the slashes. Returns `None` if an earlier regex has exceeded the
    /// limit, which is reported only once.
    pub(crate) fn compile(
        &mut self,
        word: &SourceWord,
        flags: &ConditionFlags,
    ) -> Result<Option<Regex>, Diagnostic> {
        check_features(word, flags.not.is_some())?;
        // The flag is part of the pattern, so that equal patterns are equal regexes.
        let flags = if flags.nocase.is_some() { "(?i)" } else { "" };
        let pattern = format!("{flags}{}", word.as_str());
        // The crate does not tell the size of a regex; it only fails if a limit is exceeded. So one
        // limit after the other is tried.
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
        let message = format!("this regex takes more than {REGEX_BYTES_MAX} bytes when compiled");
        Err(Diagnostic::error(word.at, message)
            .hint("use smaller repetition counts in {}, or several conditions"))
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
    let message =
        format!("from here on, the file's compiled regexes exceed {REGEXES_BYTES_MAX} bytes");
    Diagnostic::error(word.at, message).hint(
        "split the file, use smaller repetition counts in {}, or replace regexes by sets or by \
         texts with [PRE], [SUF] or [MID]",
    )
}

fn not_a_regex(word: &SourceWord, error: &regex::Error) -> Diagnostic {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    Diagnostic::error(word.at, format!("this is not a valid regex: {reason}"))
}

/// Scans the pattern as PCRE does, for constructs that PCRE and the `regex` crate read differently.
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
    let needs_text = |regex: Regex| !regex.is_match(b"");
    let is_same = is_plain && build(&inside, REGEX_BYTES_MAX).is_ok_and(needs_text);
    let flag = if negated { "without [NOT]" } else { "[NOT]" };
    is_same.then(|| format!("write /{inside}/ {flag} instead"))
}

/// Converts the inside of a look-ahead `^(?!inside)` to a plain regex: `.*a` becomes `a`, which
/// matches anywhere, and `a` becomes `^a`, which matches only at the beginning.
fn anywhere_or_first(inside: &str) -> Option<String> {
    let anywhere = inside.strip_prefix(".*?").or_else(|| inside.strip_prefix(".*"));
    Some(anywhere.map_or_else(|| format!("^{inside}"), str::to_owned))
}

/// The result of a scan step: a problem (its length, message and hint), if any, and the number of
/// bytes to advance.
type ScanStep = (Option<(usize, &'static str, &'static str)>, usize);

const PASS: Option<(usize, &str, &str)> = None;

fn outside_class(rest: &str) -> ScanStep {
    if let Some(escaped) = rest.strip_prefix('\\') {
        return (escape(escaped), 1 + escaped.chars().next().map_or(0, char::len_utf8));
    }
    const AHEAD: &str = "look-around is not supported: it takes more than linear time";
    const CONDITIONS: &str =
        "write a separate condition for this, with the flag [NOT] if it must not match";
    for (begins, message, hint) in [
        ("(?=", AHEAD, CONDITIONS),
        ("(?!", AHEAD, CONDITIONS),
        ("(?<=", AHEAD, CONDITIONS),
        ("(?<!", AHEAD, CONDITIONS),
        ("(?>", "atomic groups are not supported", "write (?: instead"),
        ("(?(", "conditions in a regex are not supported", "write two rules with one regex each"),
        (
            "(?R",
            "recursive patterns are not supported",
            "write the nesting out as deep as you need it",
        ),
        (
            "(?&",
            "recursive patterns are not supported",
            "write the nesting out as deep as you need it",
        ),
        ("(?P=", BACK, BACK_HINT),
        (
            "(?P>",
            "recursive patterns are not supported",
            "write the nesting out as deep as you need it",
        ),
        (
            "(?|",
            "branch-reset groups are not supported",
            "write (?: in its place and renumber the groups",
        ),
        ("(?#", "comments in a regex are not supported", "write a comment line that begins with #"),
        ("(*", "PCRE verbs are not supported", "leave the verb out"),
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
        return (
            Some((
                3,
                "recursive patterns are not supported",
                "write the nesting out as deep as you need it",
            )),
            1,
        );
    }
    (PASS, 1)
}

const POSSESSIVE: &str = "possessive quantifiers are not supported";
const GREEDY: &str = "leave out the + after the quantifier";
const BACK: &str = "back-references are not supported: they take more than linear time";
const BACK_HINT: &str = "write the repetitions out: (aa|bb) for (a|b)\\1";

fn escape(escaped: &str) -> Option<(usize, &'static str, &'static str)> {
    let character = escaped.chars().next()?;
    match character {
        '1'..='9' | 'g' | 'k' => Some((2, BACK, BACK_HINT)),
        'Z' => Some((2, "\\Z is not supported", "write $ or \\z")),
        '<' | '>' => Some((
            2,
            "this escape has another meaning in Forebay's regexes",
            "leave out the backslash",
        )),
        'Q' | 'E' => Some((2, "\\Q and \\E are not supported", "escape each character")),
        'h' => Some((2, "\\h is not supported", "write [ \\t]")),
        'K' | 'G' | 'R' | 'X' | 'C' | 'N' => {
            Some((2, "this escape is not supported", "leave the escape out"))
        }
        _ => None,
    }
}

/// Scans one step inside a class. The `regex` crate has nested classes and set operations in
/// classes; PCRE does not.
fn in_class(rest: &str, first: bool) -> ScanStep {
    if let Some(escaped) = rest.strip_prefix('\\') {
        return (None, 1 + escaped.chars().next().map_or(0, char::len_utf8));
    }
    if rest.starts_with("[:") {
        let len = rest.find(":]").map_or(2, |place| place + 2);
        return (None, len);
    }
    const ESCAPE: &str = "write \\[";
    if rest.starts_with('[') {
        return (Some((1, "a bracket in a class is ambiguous", ESCAPE)), 1);
    }
    for twice in ["&&", "--", "~~"] {
        if rest.starts_with(twice) {
            let hint = "write one of the two characters, or escape both";
            return (Some((2, "two of these characters in a class are ambiguous", hint)), 1);
        }
    }
    // In `[]a]` the first bracket is a member of the class.
    (None, usize::from(first))
}
