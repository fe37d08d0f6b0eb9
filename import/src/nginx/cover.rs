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
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Settings of a route that refuse requests.
const LISTS: &[&str] = &["allow_from", "deny_from", "basic_auth"];

/// A location that is no route, although nginx prefers it to prefixes.
pub(super) struct Regex<'s> {
    pub(super) directive: &'s NginxDirective,
    pub(super) scope: BlockScope<'s>,
    /// The location around it.
    pub(super) parent: Option<&'s NginxDirective>,
}

impl Regex<'_> {
    /// Whether nginx prefers it to this location. Below a `^~`, it does not look for regular
    /// expressions of the blocks around that.
    fn precedes(&self, location: &NginxLocation<'_>) -> bool {
        if location.kind == LocationKind::Exact {
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
    regexes: &[Regex<'_>],
    tables: &mut [TomlTable],
) {
    for (location, table) in locations.iter().zip(tables.iter_mut()) {
        for regex in regexes.iter().filter(|regex| regex.precedes(location)) {
            cover(source, regex.directive, &regex.scope, table, &PLACE_OF_REGEX);
        }
    }
    for location in locations.iter().filter(|one| one.has_open_end()) {
        let above = (0..locations.len())
            .filter(|other| locations[*other].is_above(location.path))
            .max_by_key(|other| locations[*other].path.len());
        let Some(table) = above.and_then(|above| tables.get_mut(above)) else { continue };
        cover(source, location.directive, &location.scope, table, &PLACE_OF_PREFIX);
        for regex in regexes.iter().filter(|regex| {
            regex.parent.is_some_and(|parent| std::ptr::eq(parent, location.directive))
        }) {
            cover(source, regex.directive, &regex.scope, table, &PLACE_OF_REGEX);
        }
    }
}

/// The texts about the routes that get the requests of a location.
struct Wording {
    routes: &'static str,
    advice: &'static str,
}

const PLACE_OF_REGEX: Wording = Wording {
    routes: "the routes whose requests it may match",
    advice: "write routes for its paths",
};
const PLACE_OF_PREFIX: Wording = Wording {
    routes: "the route above it, which gets the names that only begin so,",
    advice: "end the path with a slash, add `location =` for other paths, and import again",
};

/// Makes a route at least as closed as a location with everything inside.
fn cover(
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
    scope.own().iter().any(|one| one.name == "proxy_pass" || HANDLERS.contains(&one.name.as_str()))
}
