//! Finds variables that lack their braces.

use std::ops::Range;

use crate::check::variable::NAMES;

/// Finds `%HEADER:Host` in a text; returns the corrected variable and its range in the text.
pub(crate) fn missing_braces(text: &str) -> Option<(String, Range<usize>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices('%').find_map(|(place, _)| {
        let rest = text.get(place + 1..)?;
        let name_len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let name = rest.get(..name_len).filter(|name| NAMES.contains(name))?;
        let after = rest.get(name_len..).and_then(|rest| rest.strip_prefix(':'));
        let qualifier = after.map_or("", |after| {
            let len = after.find(|c| !is_name(c) && c != '_').unwrap_or(after.len());
            after.get(..len).unwrap_or_default()
        });
        let whole = if qualifier.is_empty() { name.into() } else { format!("{name}:{qualifier}") };
        let end = place + 1 + whole.len();
        Some((format!("%{{{whole}}}"), place..end))
    })
}
