//! Checks and compiles regexes, of rules and of other text. A regex is a PCRE pattern over bytes.
//! Forebay compiles it with the `regex` crate, which matches in linear time. A pattern that PCRE
//! and the crate read differently, or that one of them cannot read, is refused, so that no pattern
//! silently changes its meaning.

use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};

use crate::limits::{REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX, REGEX_SIZES, REGEXES_BYTES_MAX};

/// Compiles regexes, up to a limit of [`REGEXES_BYTES_MAX`] for all of them together.
#[derive(Debug)]
pub struct PatternCompiler {
    /// Number of bytes charged for the regexes, including regexes that were refused for their size.
    bytes: usize,
    /// Largest size in bytes of the lazily built automaton of a regex.
    cache_bytes_max: usize,
}

/// The reason why a pattern was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// PCRE and the `regex` crate read a part of the pattern differently.
    Unsupported(UnsupportedPart),
    /// The pattern is malformed, for this reason.
    Malformed(String),
    /// The compiled pattern takes more than [`REGEX_BYTES_MAX`].
    TooLarge,
    /// With this pattern, all patterns together take more than [`REGEXES_BYTES_MAX`].
    TooMany,
}

/// A part of a pattern that PCRE and the `regex` crate read differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedPart {
    /// The part, as a range of bytes of the pattern.
    pub part: Range<usize>,
    /// The problem, as a sentence.
    pub message: &'static str,
    /// A replacement; `None` for look-around, whose replacement depends on the pattern's place.
    pub hint: Option<&'static str>,
}

impl Default for PatternCompiler {
    fn default() -> PatternCompiler {
        PatternCompiler::with_cache(REGEX_CACHE_BYTES_MAX)
    }
}

impl PatternCompiler {
    /// Creates a compiler for regexes whose lazily built automatons take up to `cache_bytes_max`
    /// each. Every clone of a regex has an automaton of its own.
    pub fn with_cache(cache_bytes_max: usize) -> PatternCompiler {
        PatternCompiler { bytes: 0, cache_bytes_max }
    }

    /// Compiles a pattern, which ignores the case of letters if `nocase` is set. Returns `None` if
    /// an earlier pattern has exceeded the limit for all patterns, which is reported only once.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn compile(&mut self, pattern: &str, nocase: bool) -> Result<Option<Regex>, PatternError> {
        check_features(pattern)?;
        // The flag is part of the pattern, so that equal patterns are equal regexes.
        let pattern = format!("{}{pattern}", if nocase { "(?i)" } else { "" });
        // The crate does not tell the size of a regex; it only fails if a limit is exceeded. So one
        // limit after the other is tried.
        for size in REGEX_SIZES {
            if self.bytes > REGEXES_BYTES_MAX {
                return Ok(None);
            }
            self.bytes += size;
            if self.bytes > REGEXES_BYTES_MAX {
                return Err(PatternError::TooMany);
            }
            match build(&pattern, size, self.cache_bytes_max) {
                Ok(regex) => return Ok(Some(regex)),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(PatternError::Malformed(reason_of(&error))),
            }
        }
        Err(PatternError::TooLarge)
    }
}

/// Whether a pattern is a regex that does not match the empty text.
pub(crate) fn needs_text(pattern: &str) -> bool {
    let built = build(pattern, REGEX_BYTES_MAX, REGEX_CACHE_BYTES_MAX);
    built.is_ok_and(|regex| !regex.is_match(b""))
}

fn build(pattern: &str, bytes_max: usize, cache_bytes_max: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(bytes_max)
        .dfa_size_limit(cache_bytes_max)
        .build()
}

fn reason_of(error: &regex::Error) -> String {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim();
    reason.strip_prefix("error: ").unwrap_or(reason).to_owned()
}

/// Scans the pattern as PCRE does, for constructs that PCRE and the `regex` crate read differently.
fn check_features(text: &str) -> Result<(), PatternError> {
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
            let hint = (!hint.is_empty()).then_some(hint);
            return Err(PatternError::Unsupported(UnsupportedPart { part, message, hint }));
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

/// The result of a scan step: a problem (its length, message and hint, which may be empty), if any,
/// and the number of bytes to advance.
type ScanStep = (Option<(usize, &'static str, &'static str)>, usize);

const PASS: Option<(usize, &str, &str)> = None;

fn outside_class(rest: &str) -> ScanStep {
    if let Some(escaped) = rest.strip_prefix('\\') {
        return (escape(escaped), 1 + escaped.chars().next().map_or(0, char::len_utf8));
    }
    const AHEAD: &str = "look-around is not supported: it takes more than linear time";
    for (begins, message, hint) in [
        ("(?=", AHEAD, ""),
        ("(?!", AHEAD, ""),
        ("(?<=", AHEAD, ""),
        ("(?<!", AHEAD, ""),
        ("(?>", "atomic groups are not supported", "write (?: instead"),
        ("(?(", "conditions in a regex are not supported", "write two regexes"),
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
