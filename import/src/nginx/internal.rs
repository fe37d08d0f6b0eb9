//! Requests that nginx answers by the location of another path: that of the index of a directory,
//! or of the last file of `try_files`.
//!
//! In Forebay, the route of the directory answers them, which must not be more open.

use super::cover::{PLACE_OF_INDEX, cover};
use super::files;
use super::location::{LocationKind, NginxLocation};
use super::pattern;
use super::source::NginxSource;
use crate::toml::TomlTable;

/// Restricts the routes of `tables`, which belong to the locations.
pub(super) fn write(
    source: &NginxSource<'_>,
    locations: &[NginxLocation<'_>],
    tables: &mut [TomlTable],
) {
    for (location, table) in locations.iter().zip(tables) {
        if !table.has("files") {
            continue;
        }
        let mut targets = Vec::new();
        for name in files::index_names(&location.scope) {
            targets.extend(locations.iter().filter(|one| is_index(one, location, name, locations)));
        }
        if let Some(path) = files::fallback(&location.scope) {
            targets.extend(applied(path, locations));
        }
        for target in targets.into_iter().filter(|one| !is_same(one, location)) {
            if target.scope.own().iter().any(|one| matches!(&*one.name, "add_header" | "expires")) {
                let message = "its fields are not in responses to other paths that nginx answers \
                               with its file";
                source.note(target.directive, message);
            }
            cover(source, target.directive, &target.scope, table, &PLACE_OF_INDEX);
        }
    }
}

fn is_same(one: &NginxLocation<'_>, other: &NginxLocation<'_>) -> bool {
    std::ptr::eq(one.directive, other.directive)
}

/// Whether nginx may apply `one` to the index with this name of a directory whose route is that of
/// `location`.
fn is_index(
    one: &NginxLocation<'_>,
    location: &NginxLocation<'_>,
    name: &str,
    all: &[NginxLocation<'_>],
) -> bool {
    let has_directories = match location.kind {
        LocationKind::Exact => location.path.ends_with('/'),
        LocationKind::Regex => pattern::may_match_directory(&location.path),
        _ => true,
    };
    if !has_directories {
        return false;
    }
    if one.kind == LocationKind::Regex {
        // Names beyond the end of a prefix are those of the prefix, which is tried too.
        let is_final = location.is_prefix() && location.is_before_regex();
        return !is_final && !one.has_beyond && pattern::may_match_file(&one.path, name);
    }
    let (folder, begin) = one.path.split_at(one.path.rfind('/').map_or(0, |at| at + 1));
    let is_target = match one.kind {
        LocationKind::Exact => begin == name,
        _ => !begin.is_empty() && name.starts_with(begin),
    };
    let has = |one: &NginxLocation<'_>| one.path == folder || one.is_above(folder);
    let route = all.iter().filter(|one| has(one)).max_by_key(|one| one.path.len());
    let is_of_route =
        location.kind == LocationKind::Regex || route.is_none_or(|route| is_same(route, location));
    is_target && is_of_route
}

/// The location that nginx applies to a path.
fn applied<'a, 's>(path: &str, all: &'a [NginxLocation<'s>]) -> Option<&'a NginxLocation<'s>> {
    let exact = all.iter().find(|one| one.kind == LocationKind::Exact && one.path == path);
    let prefixes = all.iter().filter(|one| {
        let is_prefix = matches!(one.kind, LocationKind::Prefix | LocationKind::Final);
        is_prefix && path.starts_with(&one.path)
    });
    let prefix = prefixes.max_by_key(|one| one.path.len());
    let is_regex = |one: &&NginxLocation<'_>| {
        one.kind == LocationKind::Regex && pattern::matches(&one.path, path)
    };
    let is_final = prefix.is_some_and(|prefix| prefix.is_before_regex());
    exact.or_else(|| all.iter().find(is_regex).filter(|_| !is_final)).or(prefix)
}
