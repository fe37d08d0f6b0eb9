//! Requests to which nginx applies another location than Forebay: regular expressions, which take
//! precedence over prefixes, and prefixes without a final slash, which end anywhere in a name.
//!
//! The route that gets such requests must not be more open than the location of nginx, must not
//! store what nginx does not, and must not serve files in place of a handler.

use super::access::{self, AccessRefusal};
use super::caching;
use super::condition::turns_away;
use super::files;
use super::known::{HANDLERS, may_refuse};
use super::location::{LocationKind, NginxLocation, forbid};
use super::redirect::write_unavailable;
use super::scope::{BlockScope, PASSES};
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Settings of a route that refuse requests.
const LISTS: &[&str] = &["allow_from", "deny_from", "basic_auth"];

/// A location that is no route, although nginx prefers it to others: a regular expression, or a
/// prefix that routes cannot have.
pub(super) struct OmittedLocation<'s> {
    pub(super) directive: &'s NginxDirective,
    pub(super) scope: BlockScope<'s>,
    /// The location around it.
    pub(super) parent: Option<&'s NginxDirective>,
    /// The number of routes with regular expressions to which nginx does not prefer it.
    pub(super) before: usize,
}

impl OmittedLocation<'_> {
    /// Whether nginx prefers it to this location. Below a `^~`, it does not look for regular
    /// expressions of the blocks around that.
    fn precedes(&self, location: &NginxLocation<'_>) -> bool {
        if matches!(location.kind, LocationKind::Exact | LocationKind::Regex) {
            return false;
        }
        let chain: Vec<_> =
            location.around.iter().copied().chain([(location.directive, location.kind)]).collect();
        let child = match self.parent {
            None => chain.first(),
            Some(parent) if std::ptr::eq(parent, location.directive) => return true,
            Some(parent) => {
                let at = chain.iter().position(|(one, _)| std::ptr::eq(*one, parent));
                at.and_then(|at| chain.get(at + 1))
            }
        };
        child.is_some_and(|(_, kind)| *kind != LocationKind::Final)
    }
}

/// Restricts the routes of `tables`, which belong to the locations.
pub(super) fn write(
    source: &NginxSource<'_>,
    locations: &[NginxLocation<'_>],
    uncarried: &[OmittedLocation<'_>],
    tables: &mut [TomlTable],
) {
    let mut regex_count = 0;
    for (location, table) in locations.iter().zip(tables.iter_mut()) {
        let is_regex = location.kind == LocationKind::Regex;
        regex_count += usize::from(is_regex);
        let precedes = |one: &&OmittedLocation<'_>| {
            one.precedes(location) || is_regex && one.before < regex_count
        };
        for one in uncarried.iter().filter(precedes) {
            cover(source, one.directive, &one.scope, table, &PLACE_OF_REGEX);
            keep_origins(source, one, location, table);
        }
    }
    open_ends(source, locations, uncarried, tables);
}

/// Closes a route whose origin would get requests that nginx sends to another one.
fn keep_origins(
    source: &NginxSource<'_>,
    omitted: &OmittedLocation<'_>,
    location: &NginxLocation<'_>,
    table: &mut TomlTable,
) {
    let own = program_of(&location.scope);
    if own.is_none() || ["respond", "redirect", "files"].iter().any(|name| table.has(name)) {
        return;
    }
    let mut scopes = vec![omitted.scope.clone()];
    while let Some(scope) = scopes.pop() {
        let inner = scope.own().iter().filter(|one| one.name == "location");
        scopes.extend(inner.map(|one| scope.inside(one.inner())));
        let other = program_of(&scope);
        if other.is_some() && other != own {
            source.note(
                omitted.directive,
                "nginx sends its requests to another origin, so the routes whose requests it may \
                 match must answer 503; write routes for its paths",
            );
            files::clear(table);
            return write_unavailable(table);
        }
    }
}

/// Restricts the routes that get names beyond the end of a prefix.
fn open_ends(
    source: &NginxSource<'_>,
    locations: &[NginxLocation<'_>],
    uncarried: &[OmittedLocation<'_>],
    tables: &mut [TomlTable],
) {
    let regexes: Vec<_> =
        (0..locations.len()).filter(|at| locations[*at].kind == LocationKind::Regex).collect();
    for location in locations.iter().filter(|one| one.has_open_end()) {
        let above = location.above(locations);
        let is_above_regexes = above.is_some_and(|above| locations[above].is_before_regex());
        // For names beyond its end, nginx does not look for regular expressions, but Forebay does.
        let beyond = regexes.iter().copied().filter(|_| location.is_before_regex());
        for at in above.into_iter().chain(beyond) {
            let Some(table) = tables.get_mut(at) else { continue };
            cover(source, location.directive, &location.scope, table, &PLACE_OF_PREFIX);
            for one in uncarried.iter().filter(|one| {
                one.parent.is_some_and(|parent| std::ptr::eq(parent, location.directive))
            }) {
                cover(source, one.directive, &one.scope, table, &PLACE_OF_REGEX);
            }
        }
        // And the reverse.
        if is_above_regexes && !location.is_before_regex() {
            let Some(table) = above.and_then(|above| tables.get_mut(above)) else { continue };
            for regex in regexes.iter().filter_map(|at| locations.get(*at)) {
                cover(source, regex.directive, &regex.scope, table, &PLACE_OF_REGEX);
            }
        }
    }
}

/// The texts about the routes that get the requests of a location.
pub(super) struct Wording {
    routes: &'static str,
    advice: &'static str,
}

const PLACE_OF_REGEX: Wording = Wording {
    routes: "the routes whose requests it may match",
    advice: "write routes for its paths",
};
pub(super) const PLACE_OF_PREFIX: Wording = Wording {
    routes: "the route above it, which gets the names that only begin so,",
    advice: "end the path with a slash, add `location =` for other paths, and import again",
};

pub(super) const PLACE_OF_INDEX: Wording = Wording {
    routes: "the route of a directory or file that it answers",
    advice: "write a route for each directory",
};

/// Makes a route at least as closed as a location with everything inside.
pub(super) fn cover(
    source: &NginxSource<'_>,
    directive: &NginxDirective,
    scope: &BlockScope<'_>,
    table: &mut TomlTable,
    wording: &Wording,
) {
    let Wording { routes, advice } = wording;
    let is_error = |text: &str| text.starts_with("\"4") || text.starts_with("\"5");
    if table.has("redirect") || table.value("respond").is_some_and(is_error) {
        return;
    }
    let note = |text: String| source.note(directive, text);
    let mut scopes = vec![scope.clone()];
    while let Some(scope) = scopes.pop() {
        let inner = scope.own().iter().filter(|one| one.name == "location");
        scopes.extend(inner.map(|one| scope.inside(one.inner())));
        if !source.drop_access_rules && !is_covered(source, &scope, table) {
            note(format!(
                "it restricts requests, so {routes} must answer 403; {advice}, or use \
                 --drop-access-rules"
            ));
            return forbid(table);
        }
        let is_by_program = is_by_program(&scope);
        if is_by_program && !caching::is_cached(&scope) && table.value("cache") == Some("true") {
            note(format!("nginx does not store its responses, so {routes} must not be cached"));
            table.raw("cache", "false");
        }
        if table.has("files") && (is_by_program || !files::are_the_same(source, &scope, table)) {
            note(format!(
                "nginx does not answer its requests with the same files, so {routes} must answer \
                 503; {advice}"
            ));
            files::clear(table);
            return write_unavailable(table);
        }
    }
}

fn is_covered(source: &NginxSource<'_>, scope: &BlockScope<'_>, table: &TomlTable) -> bool {
    let own = scope.own();
    if own.iter().any(|one| one.name == "internal" || turns_away(one) || may_refuse(one)) {
        return false;
    }
    let mut wanted = TomlTable::default();
    if let Err(AccessRefusal) = access::write(source, scope, &mut wanted) {
        return false;
    }
    LISTS.iter().all(|name| {
        let wanted = wanted.value(name);
        wanted.is_none() || wanted == table.value(name)
    })
}

/// Whether a program answers, and not a file.
fn is_by_program(scope: &BlockScope<'_>) -> bool {
    program_of(scope).is_some()
}

/// The directive by which a program answers, and its argument.
fn program_of<'s>(scope: &BlockScope<'s>) -> Option<(&'s str, &'s str)> {
    let is_program = |name: &str| PASSES.contains(&name) || HANDLERS.contains(&name);
    let found = scope.own().iter().find(|one| is_program(&one.name))?;
    Some((&found.name, found.arg(0)))
}
