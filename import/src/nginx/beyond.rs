//! Names beyond the end of a prefix: `location /admin` of nginx also has `/admin.php`, and the
//! route of `/admin` does not. If the route above would answer such names in another way, they get
//! a route with a regular expression.

use super::cover::{PLACE_OF_PREFIX, cover};
use super::files;
use super::location::{LocationKind, NginxLocation};
use super::pattern;
use super::redirect::unavailable;
use super::source::NginxSource;
use crate::toml::TomlTable;

/// Adds these routes to the locations and their tables.
pub(super) fn write<'s>(
    source: &NginxSource<'_>,
    locations: &mut Vec<NginxLocation<'s>>,
    tables: &mut Vec<TomlTable>,
) {
    let is_regex = |one: &NginxLocation<'_>| one.kind == LocationKind::Regex;
    let mut count = locations.iter().filter(|one| is_regex(one)).count();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for at in 0..locations.len() {
        let wanted = count < pattern::REGEXES_MAX && is_wanted(source, at, locations, tables);
        if !wanted {
            continue;
        }
        let pair = route(source, &locations[at], &tables[at]);
        if locations.iter().any(|one| one.path == pair.0.path) {
            continue;
        }
        count += 1;
        if locations[at].is_before_regex() {
            first.push(pair)
        } else {
            last.push(pair)
        }
        locations[at].has_beyond = true;
    }
    let begin = locations.iter().position(is_regex).unwrap_or(locations.len());
    for (at, (location, table)) in first.into_iter().enumerate() {
        locations.insert(begin + at, location);
        tables.insert(begin + at, table);
    }
    for (location, table) in last {
        locations.push(location);
        tables.push(table);
    }
}

/// Settings that say how a route answers.
const ANSWERS: &[&str] = &[
    "origin",
    "balance",
    "origin_host",
    "origin_strip_prefix",
    "origin_add_prefix",
    "files",
    "files_strip_prefix",
    "files_fallback",
    "redirect",
    "respond",
];

/// Whether the route above would be restricted or answers in another way, and a regular expression
/// has exactly the names.
fn is_wanted(
    source: &NginxSource<'_>,
    at: usize,
    locations: &[NginxLocation<'_>],
    tables: &[TomlTable],
) -> bool {
    let location = &locations[at];
    let above = location.above(locations);
    let Some(above) = above.filter(|above| !locations[*above].is_before_regex()) else {
        return false;
    };
    let path = location.path.as_str();
    let is_longer = |one: &NginxLocation<'_>| {
        let rest = one.path.strip_prefix(path).filter(|_| one.is_prefix());
        rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    };
    if !location.has_open_end() || locations.iter().any(is_longer) {
        return false;
    }
    if ANSWERS.iter().any(|name| tables[at].value(name) != tables[above].value(name)) {
        return true;
    }
    let regexes = (0..locations.len())
        .filter(|at| location.is_before_regex() && locations[*at].kind == LocationKind::Regex);
    let notes = source.notes.borrow().clone();
    let is_changed = [above].into_iter().chain(regexes).any(|at| {
        let mut covered = tables[at].clone();
        cover(source, location.directive, &location.scope, &mut covered, &PLACE_OF_PREFIX);
        covered != tables[at]
    });
    *source.notes.borrow_mut() = notes;
    is_changed
}

/// The route of the names, with the settings of the location.
fn route<'s>(
    source: &NginxSource<'_>,
    location: &NginxLocation<'s>,
    table: &TomlTable,
) -> (NginxLocation<'s>, TomlTable) {
    let pattern = format!("^{}[^/]", pattern::escape(&location.path));
    let mut table = table.clone();
    table.comment(format!("names that begin with {}", location.path));
    table.remove("path_prefix");
    table.verbatim("path_regex", &pattern);
    table.move_to_front("path_regex");
    if table.has("origin_strip_prefix") || table.has("files_strip_prefix") {
        let reason = format!(
            "in {}x, the prefix is a part of a name, which routes do not replace",
            location.path
        );
        files::clear(&mut table);
        unavailable(source, location.directive, &mut table, &reason);
    }
    let mut location = location.clone();
    (location.kind, location.path, location.has_beyond) = (LocationKind::Regex, pattern, true);
    (location, table)
}
