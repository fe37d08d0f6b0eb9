//! Expressions that a VCL compares with `req.url`, which is the path with its query.

use super::regex::{is_linear, literal};

/// Endings that stand for the end of the path, with any query or without one.
const PATH_ENDS: &[&str] = &[
    "(\\?.*)?$",
    "(\\?.*|)$",
    "(\\?.+)?$",
    "(?:\\?.*)?$",
    "(\\?|$)",
    "($|\\?)",
    "(?:\\?|$)",
    "(\\?.*$|$)",
    "(|\\?.*)$",
    "($|\\?.*)",
    "(?:$|\\?)",
];

/// Endings that stand for the end of a segment.
const SLASH_ENDS: &[&str] =
    &["(/|\\?|$)", "(/|$|\\?)", "($|/|\\?)", "(\\?|/|$)", "(?:/|\\?|$)", "(/.*)?(\\?.*)?$"];

/// Endings that match any text.
const OPEN_ENDS: &[&str] = &[".*$", ".*", "(.*)$", "(.*)", "(\\?.*)?", "(?:\\?.*)?"];

/// A test of the path that decides between routes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PathTest {
    pub(super) regex: String,
    /// The effect of a query.
    pub(super) query: QueryEffect,
}

/// The effect of a query on a comparison with `req.url`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum QueryEffect {
    None,
    /// A URL with a query never matches.
    Never,
    /// If there is a query, this expression for the whole URL decides; `None` if none can.
    Decides {
        /// Whether a URL with a query may fail to match although its path matches.
        unless: bool,
        /// Whether such a URL may match although its path does not.
        also: bool,
        whole: Option<String>,
        /// Whether the expression names a question mark.
        is_named: bool,
    },
}

/// The test of the path that a comparison with `req.url` is.
pub(super) fn path_test(text: &str, is_regex: bool) -> Option<PathTest> {
    if !is_regex {
        let is_path = text.starts_with('/') && !text.contains('?');
        let regex = format!("^{}$", literal(text));
        return is_path.then_some(PathTest { regex, query: QueryEffect::Never });
    }
    let (flag, bare) = flagged(text);
    if !is_linear(text) {
        return None;
    }
    let bare = without_open_end(bare);
    let whole = whole_url(text, true);
    let is_anchored = alternatives(bare).iter().all(|one| one.starts_with('^'));
    let slash = SLASH_ENDS.iter().find_map(|end| bare.strip_suffix(end)).map(|it| (it, "(/|$)"));
    let end = PATH_ENDS.iter().find_map(|end| bare.strip_suffix(end)).map(|it| (it, "$"));
    if let Some((start, end)) = slash.or(end) {
        if has_question(start) || alternatives(start).len() > 1 {
            return None;
        }
        let also = !is_anchored || may_span(start);
        let query = match also || has_end(start) {
            true => QueryEffect::Decides { unless: has_end(start), also, whole, is_named: true },
            false => QueryEffect::None,
        };
        return Some(PathTest { regex: format!("{flag}{start}{end}"), query });
    }
    // A query of certain characters may follow.
    if let Some(start) = optional_query(bare) {
        let is_other = has_question(start) || alternatives(start).len() > 1;
        let query = QueryEffect::Decides { unless: true, also: true, whole, is_named: true };
        return (!is_other).then(|| PathTest { regex: format!("{flag}{start}$"), query });
    }
    let is_of_query = has_question(bare) || bare.contains(['=', '&']) && !bare.contains('/');
    if is_of_query || bare.is_empty() {
        return None;
    }
    let unless = has_end(bare);
    let also = !is_anchored || may_span(bare);
    let is_exact = alternatives(bare).len() == 1
        && bare.strip_suffix('$').is_some_and(|start| !has_end(start) && !start.ends_with('\\'));
    let query = match (unless, also) {
        (false, false) => QueryEffect::None,
        (true, false) if is_exact => QueryEffect::Never,
        _ => QueryEffect::Decides { unless, also, whole, is_named: false },
    };
    Some(PathTest { regex: format!("{flag}{bare}"), query })
}

/// Whether an expression for the query is about one parameter, wherever it is.
pub(super) fn is_of_one_parameter(text: &str) -> bool {
    const STARTS: &[&str] = &["[?&]", "[&?]", "[\\?&]", "(\\?|&)", "(?:\\?|&)", "(&|\\?)"];
    let rest = STARTS.iter().find_map(|start| text.strip_prefix(start)).unwrap_or(text);
    !rest.replace("[^&]", "").contains(['&', '?', '$', '^', '.'])
}

/// The expression for the whole URL that is equivalent to a comparison with `req.url`.
pub(super) fn whole_url(text: &str, is_regex: bool) -> Option<String> {
    const START: &str = "^[a-z]+://[^/]*";
    if !is_regex {
        return text.starts_with('/').then(|| format!("{START}{}$", literal(text)));
    }
    let (flag, bare) = flagged(text);
    if !is_linear(text) {
        return None;
    }
    let each: Option<Vec<_>> = alternatives(bare).into_iter().map(behind_host).collect();
    let each = each?;
    let joined = match each.as_slice() {
        [one] => one.clone(),
        _ => format!("(?:{})", each.join("|")),
    };
    Some(format!("{flag}{START}{joined}"))
}

/// One alternative behind the host; none of its matches may begin in the host.
fn behind_host(pattern: &str) -> Option<String> {
    if let Some(rest) = pattern.strip_prefix('^') {
        let is_path = rest.starts_with('/') || rest.starts_with("\\/");
        return (is_path && !has_start(rest)).then(|| rest.to_owned());
    }
    if has_start(pattern) {
        return None;
    }
    if pattern.starts_with('/') || pattern.starts_with("\\/") {
        return Some(format!("(?:/.*)?{pattern}"));
    }
    let mut chars = pattern.chars();
    let first = chars.next()?;
    let begins_behind_slash = match first {
        '\\' => chars.next().is_some_and(|next| !next.is_ascii_alphanumeric()),
        '[' => {
            let (class, _) = chars.as_str().split_once(']')?;
            !class.is_empty() && !class.contains(['^', '/', '[', '\\']) && !class.contains('-')
                || matches!(class, "\\?&" | "&\\?")
        }
        '(' => {
            let (group, _) = chars.as_str().split_once(')')?;
            let plain = group.strip_prefix("?:").unwrap_or(group);
            plain.split('|').all(|one| {
                let mut of = one.chars();
                match of.next() {
                    Some('\\') => of.next().is_some_and(|c| !c.is_ascii_alphanumeric() && c != '/'),
                    Some(c) => c.is_ascii_alphanumeric() || "_&=-~".contains(c),
                    None => false,
                }
            })
        }
        c => c.is_ascii_alphanumeric() || "_&=-~;,:@!%".contains(c),
    };
    // A repetition that may be empty would leave the next part as the beginning.
    let is_optional = match first {
        '(' | '[' => {
            let close = if first == '(' { ')' } else { ']' };
            let behind = pattern.split_once(close).map_or("", |(_, behind)| behind);
            behind.starts_with(['?', '*', '{'])
        }
        '\\' => pattern[1..].chars().nth(1).is_some_and(|c| "?*{".contains(c)),
        _ => pattern.chars().nth(1).is_some_and(|c| "?*{".contains(c)),
    };
    (begins_behind_slash && !is_optional).then(|| format!("/.*{pattern}"))
}

/// The flag for case, and the rest.
fn flagged(pattern: &str) -> (&'static str, &str) {
    match pattern.strip_prefix("(?i)") {
        Some(rest) => ("(?i)", rest),
        None => ("", pattern),
    }
}

fn without_open_end(pattern: &str) -> &str {
    let mut rest = pattern;
    while alternatives(rest).len() == 1
        && let Some(start) = OPEN_ENDS.iter().find_map(|end| rest.strip_suffix(end))
        && start.len() - start.trim_end_matches('\\').len() == 0
    {
        rest = start;
    }
    rest
}

/// The beginning of an expression that allows only certain queries, such as `\.css(\?[0-9]+)?$`.
fn optional_query(pattern: &str) -> Option<&str> {
    let start = pattern.strip_suffix("\\??$");
    start.or_else(|| {
        let inner = pattern.strip_suffix(")?$")?;
        let at = ["(\\?", "(?:\\?"].iter().filter_map(|open| inner.rfind(open)).max()?;
        (!inner[at + 1..].contains(['(', ')'])).then(|| &inner[..at])
    })
}

/// Each character with whether it is outside of classes and not escaped.
fn marked(pattern: &str) -> Vec<(char, bool)> {
    let (mut is_escaped, mut in_class) = (false, false);
    let mut all = Vec::new();
    for c in pattern.chars() {
        all.push((c, !is_escaped && !in_class));
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match c {
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    all
}

/// The alternatives outside of parentheses.
pub(super) fn alternatives(pattern: &str) -> Vec<&str> {
    let (mut depth, mut at, mut start) = (0_i32, 0, 0);
    let mut parts = Vec::new();
    for (c, is_plain) in marked(pattern) {
        match c {
            '(' if is_plain => depth += 1,
            ')' if is_plain => depth -= 1,
            '|' if is_plain && depth == 0 => {
                parts.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    parts.push(&pattern[start..]);
    parts
}

/// Whether it has an anchor for the end; `\b` and its like count.
fn has_end(pattern: &str) -> bool {
    let is_anchor = ["\\z", "\\Z", "\\b", "\\B"].iter().any(|part| pattern.contains(part));
    is_anchor || marked(pattern).contains(&('$', true))
}

fn has_start(pattern: &str) -> bool {
    pattern.contains("\\A") || marked(pattern).contains(&('^', true))
}

/// Whether the expression names a question mark.
fn has_question(pattern: &str) -> bool {
    let is_class = marked(pattern)
        .windows(2)
        .any(|pair| matches!(pair, [(before, false), ('?', false)] if *before != '\\'));
    is_class || pattern.contains("\\?") || pattern.contains("[?")
}

/// Whether a part of the expression may match the question mark before the query.
fn may_span(pattern: &str) -> bool {
    let marks = marked(pattern);
    let mut in_class = String::new();
    for (index, (c, is_plain)) in marks.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| marks.get(index));
        match c {
            '.' if *is_plain => return true,
            c if before == Some(&('\\', true)) && !is_plain => {
                let is_class = c.is_ascii_alphabetic() && !"dwsbAzZ".contains(*c);
                if is_class || *c == '?' {
                    return true;
                }
            }
            ']' if !in_class.is_empty() => {
                let inner = &in_class[1..];
                let is_range =
                    inner.char_indices().any(|(at, c)| c == '-' && !is_usual_range(inner, at));
                if inner.starts_with('^') && !inner.contains('?')
                    || !inner.starts_with('^') && (inner.contains('?') || is_range)
                    || inner.contains(['[', '\\'])
                {
                    return true;
                }
                in_class.clear();
            }
            c if !in_class.is_empty() || *c == '[' && *is_plain => in_class.push(*c),
            _ => {}
        }
    }
    false
}

/// Whether the hyphen is one of `a-z`, `A-Z`, `0-9`, or stands for itself.
fn is_usual_range(class: &str, at: usize) -> bool {
    let before = class[..at].chars().next_back();
    let after = class[at + 1..].chars().next();
    match (before, after) {
        (Some(before), Some(after)) => {
            before.is_ascii_alphanumeric()
                && after.is_ascii_alphanumeric()
                && (before.is_ascii_digit() == after.is_ascii_digit())
                && (before.is_ascii_uppercase() == after.is_ascii_uppercase())
        }
        _ => true,
    }
}
