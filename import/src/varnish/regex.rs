//! Regular expressions: the texts that they name, and their form for paths and rules.

use super::url::alternatives;

/// Texts that one expression may stand for.
const TEXTS_MAX: usize = 128;
const DEPTH_MAX: usize = 16;

/// A text that an expression stands for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct PatternText {
    pub(super) text: String,
    /// Whether the text is at the beginning of the value, or at its end.
    pub(super) starts: bool,
    pub(super) ends: bool,
    /// Whether any text follows, or comes before; an anchor beyond it does not count.
    any_after: bool,
    any_before: bool,
}

impl PatternText {
    /// The text as the whole value.
    pub(super) fn whole(text: &str) -> PatternText {
        PatternText { text: text.to_owned(), starts: true, ends: true, ..PatternText::default() }
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match (self.starts, self.ends) {
            (true, true) => value == self.text,
            (true, false) => value.starts_with(&self.text),
            (false, true) => value.ends_with(&self.text),
            (false, false) => value.contains(&self.text),
        }
    }

    fn with(&self, next: &PatternText) -> Option<PatternText> {
        let mut joined = self.clone();
        if self.ends || self.any_after && !next.text.is_empty() {
            return None;
        }
        if next.starts {
            if !self.text.is_empty() || self.any_before {
                return None;
            }
            joined.starts = true;
        }
        if next.any_before && !self.text.is_empty() && !next.text.is_empty() {
            return None;
        }
        joined.text.push_str(&next.text);
        joined.any_before |= next.any_before && self.text.is_empty();
        joined.any_after |= next.any_after;
        joined.ends = next.ends;
        Some(joined)
    }
}

struct Expander<'p> {
    rest: &'p str,
    /// Whether a dot without a backslash stands for a dot, as in names of hosts.
    dots: bool,
}

/// The texts of an expression that consists of alternatives, and whether it ignores case. `dots`
/// takes dots for dots.
pub(super) fn expand(pattern: &str, dots: bool) -> Option<(Vec<PatternText>, bool)> {
    let (pattern, no_case) = match pattern.strip_prefix("(?i)") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut expander = Expander { rest: pattern, dots };
    let mut literals = expander.alternatives(0)?;
    if !expander.rest.is_empty() {
        return None;
    }
    for literal in &mut literals {
        literal.starts &= !literal.any_before;
        literal.ends &= !literal.any_after;
        if no_case {
            literal.text.make_ascii_lowercase();
        }
    }
    Some((literals, no_case))
}

impl Expander<'_> {
    fn alternatives(&mut self, depth: usize) -> Option<Vec<PatternText>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut all = self.sequence(depth)?;
        while let Some(rest) = self.rest.strip_prefix('|') {
            self.rest = rest;
            all.extend(self.sequence(depth)?);
        }
        (all.len() <= TEXTS_MAX).then_some(all)
    }

    fn sequence(&mut self, depth: usize) -> Option<Vec<PatternText>> {
        let mut sofar = vec![PatternText::default()];
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let mut atoms = self.atom(depth)?;
            if let Some(rest) = self.rest.strip_prefix('?') {
                self.rest = rest;
                atoms.push(PatternText::default());
            }
            if self.rest.starts_with(['*', '+', '{', '?']) {
                return None;
            }
            let mut next = Vec::new();
            for left in &sofar {
                for right in &atoms {
                    next.push(left.with(right)?);
                }
            }
            if next.len() > TEXTS_MAX {
                return None;
            }
            sofar = next;
        }
        Some(sofar)
    }

    fn atom(&mut self, depth: usize) -> Option<Vec<PatternText>> {
        let rest = self.rest;
        if let Some(behind) = rest.strip_prefix(".*") {
            self.rest = behind.strip_prefix('?').unwrap_or(behind);
            let any = PatternText { any_before: true, any_after: true, ..PatternText::default() };
            return Some(vec![any]);
        }
        let mut chars = rest.chars();
        let first = chars.next()?;
        self.rest = chars.as_str();
        let one =
            |c: char| Some(vec![PatternText { text: c.to_string(), ..PatternText::default() }]);
        match first {
            '^' => Some(vec![PatternText { starts: true, ..PatternText::default() }]),
            '$' => Some(vec![PatternText { ends: true, ..PatternText::default() }]),
            '(' => {
                self.rest = self.rest.strip_prefix("?:").unwrap_or(self.rest);
                let inner = self.alternatives(depth + 1)?;
                self.rest = self.rest.strip_prefix(')')?;
                Some(inner)
            }
            '\\' => {
                let next = chars.next()?;
                self.rest = chars.as_str();
                if next.is_ascii_alphanumeric() { None } else { one(next) }
            }
            '[' => self.class(),
            '.' if self.dots => one('.'),
            '.' | '*' | '+' | '?' | '{' => None,
            _ => one(first),
        }
    }

    /// A class of single characters, such as `[js]`.
    fn class(&mut self) -> Option<Vec<PatternText>> {
        let (inner, rest) = self.rest.split_once(']')?;
        self.rest = rest;
        let inner = inner.replace("\\.", ".").replace("\\-", "\u{0}");
        if inner.is_empty() || inner.len() > 16 || inner.contains(['^', '-', '[', '\\']) {
            return None;
        }
        let text = |c: char| if c == '\u{0}' { "-".to_owned() } else { c.to_string() };
        Some(
            inner
                .chars()
                .map(|c| PatternText { text: text(c), ..PatternText::default() })
                .collect(),
        )
    }
}

/// The expression for a path without its first slash.
pub(super) fn without_slash(pattern: &str) -> Option<String> {
    let (flag, bare) = match pattern.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", pattern),
    };
    if alternatives(bare).len() > 1 {
        return None;
    }
    if let Some(rest) = bare.strip_prefix("^/") {
        return Some(format!("{flag}^{rest}"));
    }
    if let Some(rest) = bare.strip_prefix('/') {
        return Some(format!("{flag}(^|/){rest}"));
    }
    let begins = bare.starts_with(['^', '(', '[', '.']);
    (!begins).then(|| pattern.to_owned())
}

/// Whether Forebay's language has it: no look-around, no back-references.
pub(super) fn is_linear(pattern: &str) -> bool {
    let has_reference = (1..10).any(|digit| pattern.contains(&format!("\\{digit}")));
    let is_hard = ["(?=", "(?!", "(?<", "(?>", "++", "*+", "?+", "\\K", "\\G", "[[", "(*"];
    !has_reference && !is_hard.iter().any(|part| pattern.contains(part))
}

/// The expression as the operand of a condition in rules.
pub(super) fn in_rules(pattern: &str) -> String {
    let mut out = String::from("/");
    let mut is_escaped = false;
    for c in pattern.chars() {
        match c {
            ' ' | '"' | '%' | '=' | '\'' | '\t' => {
                if is_escaped {
                    out.pop();
                }
                out.push_str(&format!("\\x{:02X}", u32::from(c)));
            }
            '/' if !is_escaped => out.push_str("\\/"),
            c => out.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    out.push('/');
    out
}

/// An expression that matches exactly this text.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() && c.is_ascii() && !"/_-".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The names of cookies of an expression for the field `Cookie` that is anchored at both ends of a
/// name, such as `(^|;\s*)(a|b)=`. Names may end in `*`.
pub(super) fn cookie_names(pattern: &str) -> Option<Vec<String>> {
    const STARTS: &[&str] = &[
        "(^|;\\s*)",
        "(^|; ?)",
        "(^|; *)",
        "(^|;)",
        "(^|; )",
        "(?:^|;\\s*)",
        "(^|\\s)",
        ";",
        "; ?",
    ];
    let mut rest = STARTS.iter().find_map(|start| pattern.strip_prefix(start))?;
    rest = rest.strip_suffix("=.*").or_else(|| rest.strip_suffix('=')).unwrap_or(rest);
    let is_open = !pattern.contains('=');
    let mut names = names_of(rest)?;
    if is_open {
        names.iter_mut().filter(|name| !name.ends_with('*')).for_each(|name| name.push('*'));
    }
    Some(names)
}

/// The names in `(a|b[a-z0-9]+|c)`.
pub(super) fn names_of(pattern: &str) -> Option<Vec<String>> {
    const ANY: &[&str] = &[
        "[a-z0-9]+",
        "[a-zA-Z0-9]+",
        "[A-Za-z0-9]+",
        "[^=]*",
        "[^=]+",
        "[a-f0-9]+",
        "[0-9a-f]+",
        "[a-z]+",
        ".*",
        ".+",
        "\\w+",
        "\\w*",
        "[a-zA-Z0-9_]+",
        "[A-Za-z0-9_]+",
        "[0-9]+",
        "\\d+",
        "[^=;]*",
        "[^;=]*",
        "[a-zA-Z0-9-_]+",
        "[a-z_]+",
    ];
    let inner = pattern.strip_prefix("(?:").or_else(|| pattern.strip_prefix('('));
    let inner = match inner {
        Some(inner) => inner.strip_suffix(')')?,
        None => pattern,
    };
    let mut names = Vec::new();
    for part in inner.split('|') {
        let (start, star) = match ANY.iter().find_map(|any| part.strip_suffix(any)) {
            Some(start) => (start, "*"),
            None => match part.strip_suffix('.') {
                Some(start) if !start.ends_with('\\') => (start, "*"),
                _ => (part, ""),
            },
        };
        let name = start.replace("\\-", "-").replace("\\.", ".");
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        names.push(format!("{name}{star}"));
    }
    (names.len() <= 64).then_some(names)
}
