//! Regular expressions of `location`, as `path_regex` has them.

use forebay_rules::pattern::{PatternCompiler, PatternError};

use super::syntax::NginxDirective;

/// Regular expressions that a site may have.
pub(super) const REGEXES_MAX: usize = 32;

/// The beginning of a path, or a slash.
const START_OR_SLASH: &[&str] = &["(^|/)", "(?:^|/)", "(^|\\/)", "(?:^|\\/)"];

/// Beginning of a look-ahead that is written out.
const WRITTEN_OUT: &str = "(?:(?:$|[^";

/// Bytes of a literal in a negative look-ahead that is written out.
const AHEAD_BYTES_MAX: usize = 32;

/// Translates the regular expression of `location ~` or `location ~*`.
///
/// # Errors
/// The reason for which Forebay does not have it.
pub(super) fn translate(location: &NginxDirective) -> Result<String, String> {
    let text = without_look_ahead(location.arg(1));
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a route's expression has only visible ASCII characters".to_owned());
    }
    let nocase = if location.arg(0) == "~*" { "(?i)" } else { "" };
    let pattern = format!("{nocase}{text}");
    match PatternCompiler::default().compile(&pattern, false) {
        Ok(Some(_)) => Ok(pattern),
        Ok(None) | Err(PatternError::TooLarge | PatternError::TooMany) => {
            Err("the expression is too large".to_owned())
        }
        Err(PatternError::Unsupported(part)) => Err(part.message.to_owned()),
        Err(PatternError::Malformed(reason)) => Err(reason),
    }
}

/// An expression that matches this path.
pub(super) fn escape(path: &str) -> String {
    let mut out = String::new();
    for character in path.chars() {
        if ".$()*+?[]{}|^\\".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// Whether a translated expression matches a path.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let compiled = PatternCompiler::default().compile(pattern, false);
    // An expression that cannot be compiled might match anything.
    compiled.ok().flatten().is_none_or(|regex| regex.is_match(path.as_bytes()))
}

/// Writes out `(?!literal)` at the end of an expression, or before `.*` at its end, such as in
/// `/\.(?!well-known)`: the text differs from the literal in its first, second, … character.
fn without_look_ahead(text: &str) -> String {
    let written = text.split_once("(?!").and_then(|(before, rest)| {
        let (literal, after) = rest.split_once(')')?;
        let is_end = matches!(after, "" | ".*" | ".*$");
        let literal = literal.replace("\\-", "-").replace("\\/", "/").replace("\\.", ".");
        let is_literal = literal.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_/".contains(&b));
        let is_usable = is_end && is_literal && (1..=AHEAD_BYTES_MAX).contains(&literal.len());
        // In a class or behind a backslash, the parenthesis would be a character.
        if !is_usable || before.ends_with(['\\', '[', '|', '(']) || before.contains("(?!") {
            return None;
        }
        let mut others = Vec::new();
        for (at, character) in literal.char_indices() {
            let begin = literal.get(..at)?;
            others.push(format!("{begin}(?:$|[^{}])", escaped(character)));
        }
        Some(format!("{before}(?:{})", others.join("|")))
    });
    written.unwrap_or_else(|| text.to_owned())
}

/// A character in a class.
fn escaped(character: char) -> String {
    if character == '-' { "\\-".to_owned() } else { character.to_string() }
}

/// Whether an expression may match a path that ends with a slash and this name. It is certain that
/// it does not if the expression is a literal that does not fit, or ends with other extensions.
pub(super) fn may_match_file(pattern: &str, name: &str) -> bool {
    let pattern = pattern.strip_prefix("(?i)").unwrap_or(pattern).to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    // A path begins with a slash.
    let begin = START_OR_SLASH.iter().find_map(|start| pattern.strip_prefix(start));
    let pattern =
        match begin.filter(|rest| !rest.starts_with(['/', '\\']) || rest.starts_with("\\.")) {
            Some(rest) => format!("/{rest}"),
            None => pattern.strip_prefix('^').unwrap_or(&pattern).to_owned(),
        };
    // A look-ahead that was written out has no slash, so it decides before the name begins.
    let written_out = pattern.split_once(WRITTEN_OUT).filter(|(_, rest)| !rest.contains('/'));
    let any = pattern.strip_suffix(".*").or(pattern.strip_suffix(".*$"));
    let text = written_out.map(|(before, _)| before).or(any.filter(|text| !text.ends_with('\\')));
    let text = text.unwrap_or(&pattern);
    if let Some(rest) = text.strip_suffix('$') {
        let path = format!("/{name}");
        let fits = |end: &String| path.ends_with(end.as_str()) || end.ends_with(path.as_str());
        return ends_of(rest).is_none_or(|ends| ends.iter().any(fits));
    }
    // A match that ends before the name is one of the path of the directory, too.
    let ends = literal_of(text).map(|literal| vec![literal]).or_else(|| ends_of(text));
    ends.is_none_or(|ends| ends.iter().any(|end| overlaps(end, &name)))
}

/// Whether an expression may match a path that ends with a slash.
pub(super) fn may_match_directory(pattern: &str) -> bool {
    let ends = pattern.strip_suffix('$').and_then(ends_of);
    ends.is_none_or(|ends| ends.iter().any(|end| end.ends_with('/')))
}

/// The text that an expression without signs matches.
fn literal_of(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.push(characters.next().filter(|next| !next.is_ascii_alphanumeric())?),
            plain if plain.is_ascii_alphanumeric() || "/-_~!@,".contains(plain) => out.push(plain),
            _ => return None,
        }
    }
    Some(out)
}

/// Whether a literal can end inside the name at the end of a path, and begin there or before.
fn overlaps(literal: &str, name: &str) -> bool {
    let splits = (1..literal.len()).filter_map(|at| literal.split_at_checked(at));
    let mut behind_slash = splits.filter(|(before, _)| before.ends_with('/'));
    name.contains(literal) || behind_slash.any(|(_, rest)| name.starts_with(rest))
}

/// The literals with which all matches end: those of a group at the end of an expression, with the
/// literal before it.
fn ends_of(pattern: &str) -> Option<Vec<String>> {
    // An alternative outside the group would have another end.
    let (before, group) = match pattern.strip_suffix(')') {
        Some(rest) => rest.rsplit_once('(')?,
        None => (pattern, ""),
    };
    if has_alternatives(before) || before.ends_with('\\') {
        return None;
    }
    let group = group.strip_prefix("?:").unwrap_or(group);
    let words: Option<Vec<_>> = group.split('|').map(literal_of).collect();
    let tail = tail_of(before);
    let ends: Vec<_> = words?.into_iter().map(|word| format!("{tail}{word}")).collect();
    ends.iter().all(|end| !end.is_empty()).then_some(ends)
}

/// Whether an expression has alternatives outside its groups, or groups that are not closed.
fn has_alternatives(pattern: &str) -> bool {
    let (mut depth, mut is_class) = (0_i32, false);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '[' => is_class = true,
            ']' => is_class = false,
            _ if is_class => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth == 0 => return true,
            _ => {}
        }
    }
    depth != 0 || is_class
}

/// The longest literal at the end of an expression, as far as it is plain to see.
fn tail_of(pattern: &str) -> String {
    let tail = (0..=pattern.len()).filter(|at| {
        let begins = pattern.get(..*at).is_some_and(|before| !before.ends_with('\\'));
        begins && pattern.is_char_boundary(*at)
    });
    let mut tails = tail.filter_map(|at| literal_of(pattern.get(at..)?));
    tails.next().unwrap_or_default()
}
