//! Shortens names that are too long for a line of a table.

use std::collections::BTreeMap;

/// Number of characters up to which a name is not abbreviated.
const CHARS_MAX: usize = 60;

/// Shortens a long name: omits the parameters and type arguments that C++ and Rust put in brackets.
/// The line number still tells functions apart.
pub(super) fn abbreviate(name: &str) -> String {
    if name.chars().count() <= CHARS_MAX {
        return name.to_owned();
    }
    let mut short = String::with_capacity(name.len());
    let brackets = brackets(name);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        // A bracket after a blank is kept: it encloses the kind of the lock or separates callers,
        // as in `f x.c:1 (mutex) < g x.c:2`.
        let may_open = matches!(first, '<' | '(') && !short.ends_with(' ');
        let at = name.len() - rest.len();
        let end = brackets.get(&at).filter(|_| may_open);
        let inner = end.and_then(|end| name.get(at..*end));
        let length = match (operator(rest), inner) {
            (Some(operator), _) => {
                short += operator;
                operator.len()
            }
            (None, Some(inner)) if inner.len() > 2 => {
                short += if first == '<' { "<…>" } else { "(…)" };
                inner.len()
            }
            _ => {
                short.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    short
}

/// Shortens a name to at most `chars_max` characters. First omits the kind of the lock, then cuts
/// off the end of a function with its line, or the beginning of a path.
pub(super) fn truncate(name: &str, chars_max: usize) -> String {
    if name.chars().count() <= chars_max {
        return name.to_owned();
    }
    let bare = without_kind(name);
    let place = bare.as_str();
    let count = place.chars().count();
    if (1..=chars_max).contains(&count) {
        return place.to_owned();
    }
    let place = if count == 0 { name } else { place };
    let kept = chars_max.saturating_sub(1);
    match place.contains(' ') {
        true => place.chars().take(kept).chain(['…']).collect(),
        false => {
            let skipped = place.chars().count().saturating_sub(kept);
            std::iter::once('…').chain(place.chars().skip(skipped)).collect()
        }
    }
}

/// Returns the name without the kind of the lock: `f x.c:1 (mutex) < g x.c:2` becomes `f x.c:1 < g
/// x.c:2`.
fn without_kind(name: &str) -> String {
    let Some((place, rest)) = name.split_once(" (") else {
        return name.to_owned();
    };
    let way = rest.find(") < ").and_then(|at| rest.get(at + 1..));
    format!("{place}{}", way.unwrap_or_default())
}

/// If the text starts with a C++ operator that has brackets in its name, returns the operator.
fn operator(text: &str) -> Option<&str> {
    let names = ["operator<=>", "operator<<", "operator<=", "operator<", "operator()"];
    let names = names.into_iter().chain(["operator->", "operator>>", "operator>=", "operator>"]);
    names.into_iter().find(|name| text.starts_with(name))
}

/// Returns the start of each bracket that is closed, with the offset after its closing bracket. A
/// single pass finds all pairs, because a name may open many brackets and close none of them.
fn brackets(text: &str) -> BTreeMap<usize, usize> {
    let (mut open, mut closed) = (Vec::new(), BTreeMap::new());
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' => open.push(at),
            // The `>` of the arrow before a function's result closes no bracket.
            '>' if before == '-' => {}
            '>' | ')' => closed.extend(open.pop().map(|start| (start, at + 1))),
            _ => {}
        }
        before = c;
    }
    closed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_the_content_of_its_brackets() {
        let long = "x".repeat(60);
        for (name, expected) in [
            ("f<int>(long) x.cc:1 (mutex)".to_owned(), "f<int>(long) x.cc:1 (mutex)".to_owned()),
            (
                format!("a::B<c<{long}>, d>::e(f const&, g (*)(h)) x.cc:1 (mutex)"),
                "a::B<…>::e(…) x.cc:1 (mutex)".to_owned(),
            ),
            (format!("a::operator<<({long})"), "a::operator<<(…)".to_owned()),
            (format!("a::operator()({long}) const"), "a::operator()(…) const".to_owned()),
            (format!("{long}::f() y.cc:2 (rwlock, reading)"), {
                format!("{long}::f() y.cc:2 (rwlock, reading)")
            }),
            (format!("<{long} as a::Fn<()> -> b>::c"), "<…>::c".to_owned()),
            (format!("f {long} (mutex) < g > h"), format!("f {long} (mutex) < g > h")),
            (format!("a<{long}"), format!("a<{long}")),
            (format!("{long}>>))"), format!("{long}>>))")),
        ] {
            assert_eq!(abbreviate(&name), expected, "{name}");
        }
    }

    #[test]
    fn the_lock_kind_is_cut_first() {
        for (name, chars_max, expected) in [
            ("f x.c:1 (mutex)", 15, "f x.c:1 (mutex)"),
            ("f x.c:1 (mutex)", 14, "f x.c:1"),
            ("f x.c:1 (mutex)", 6, "f x.c…"),
            ("cache/src/maps.rs:1 (map)", 20, "cache/src/maps.rs:1"),
            ("cache/src/maps.rs:1 (map)", 9, "…aps.rs:1"),
            ("f x.c:1 (mutex) < g x.c:2 < main", 20, "f x.c:1 < g x.c:2 <…"),
            (" (unknown)", 5, " (un…"),
        ] {
            assert_eq!(truncate(name, chars_max), expected);
        }
    }
}
