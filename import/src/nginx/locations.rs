//! The locations of a server: those that become routes, and those that cannot.

use super::cover::OmittedLocation;
use super::location::{LocationKind, NginxLocation};
use super::pattern;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;

/// The locations of a server.
pub(super) struct ServerLocations<'s> {
    /// Those that become routes: paths and prefixes, then regular expressions in their order.
    pub(super) carried: Vec<NginxLocation<'s>>,
    pub(super) uncarried: Vec<OmittedLocation<'s>>,
}

/// A path as a route has it.
type LocationPath = Result<(LocationKind, String), String>;

/// Collects the locations of all depths.
pub(super) fn collect<'s>(source: &NginxSource<'_>, scope: &BlockScope<'s>) -> ServerLocations<'s> {
    let (mut carried, mut uncarried) = (Vec::<NginxLocation<'s>>::new(), Vec::new());
    let mut regexes = Vec::new();
    let mut scopes = vec![(scope.clone(), Vec::new())];
    while let Some((scope, around)) = scopes.pop() {
        let parent = around.last().map(|(parent, _)| *parent);
        for directive in scope.own().iter().filter(|directive| directive.name == "location") {
            let inner = scope.inside(directive.inner());
            let found = path_of(directive, parent.is_some(), regexes.len());
            let found = found.and_then(|(kind, path)| {
                let is_exact = kind == LocationKind::Exact;
                let is_same = |one: &NginxLocation<'_>| {
                    one.path == path && (one.kind == LocationKind::Exact) == is_exact
                };
                match carried.iter().any(is_same) {
                    true => Err("another location has this path".to_owned()),
                    false => Ok((kind, path)),
                }
            });
            let (kind, path) = match found {
                Ok(found) => found,
                Err(reason) => {
                    source.note(directive, format!("left out: {reason}"));
                    let is_regex = directive.arg(0).starts_with('~') && parent.is_none();
                    let before = if is_regex { regexes.len() } else { 0 };
                    if !directive.arg(0).starts_with('@') {
                        uncarried.push(OmittedLocation { directive, scope: inner, parent, before });
                    }
                    continue;
                }
            };
            let around = around.clone();
            let location = NginxLocation {
                directive,
                scope: inner.clone(),
                path,
                kind,
                around,
                has_beyond: false,
            };
            if kind == LocationKind::Regex {
                match regexes.iter().any(|one: &NginxLocation<'_>| one.path == location.path) {
                    true => source.note(directive, "left out: an earlier location is the same"),
                    false => regexes.push(location),
                }
                continue;
            }
            let mut chain = location.around.clone();
            chain.push((directive, kind));
            scopes.push((inner, chain));
            carried.push(location);
        }
    }
    leave_out_hidden(source, &mut carried);
    carried.sort_by_key(|one| (one.directive.file.clone(), one.directive.line));
    carried.extend(regexes);
    ServerLocations { carried, uncarried }
}

/// The kind and the path of a location, or the reason for which it becomes no route. `count` is the
/// number of regular expressions before it.
fn path_of(directive: &NginxDirective, is_inner: bool, count: usize) -> LocationPath {
    let (kind, path) = match (directive.arg(0), directive.arg(1)) {
        ("=", path) => (LocationKind::Exact, path),
        ("^~", path) => (LocationKind::Final, path),
        ("~" | "~*", _) if is_inner => {
            return Err("a route with path_regex is for all prefixes of its site; write the \
                        expression outside the location, with the location's path"
                .to_owned());
        }
        ("~" | "~*", _) if directive.inner().iter().any(|one| one.name == "location") => {
            return Err("routes of regular expressions have no routes inside".to_owned());
        }
        ("~" | "~*", _) if count >= pattern::REGEXES_MAX => {
            return Err("a site has at most 32 routes with path_regex".to_owned());
        }
        ("~" | "~*", _) => {
            let pattern = pattern::translate(directive);
            let advice = "write a route with another path_regex, or with a prefix";
            return match pattern {
                Ok(pattern) => Ok((LocationKind::Regex, pattern)),
                Err(reason) => Err(format!("{reason}; {advice}")),
            };
        }
        (path, _) if path.starts_with('@') => {
            return Err("named locations have no counterpart".to_owned());
        }
        (path, _) => (LocationKind::Prefix, path),
    };
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,:@".contains(&byte);
    match path.starts_with('/') && path.bytes().all(is_path) && !path.contains("//") {
        true => Ok((kind, path.to_owned())),
        // Its requests would get another route.
        false => Err("routes need a path of ASCII characters without encoding".to_owned()),
    }
}

/// Leaves out the locations that nginx never applies.
fn leave_out_hidden(source: &NginxSource<'_>, locations: &mut Vec<NginxLocation<'_>>) {
    let hidden: Vec<bool> =
        locations.iter().map(|one| locations.iter().any(|other| one.is_hidden_by(other))).collect();
    let mut hidden = hidden.into_iter();
    locations.retain(|location| {
        let is_hidden = hidden.next().unwrap_or(false);
        if is_hidden {
            let message = "left out: nginx prefers a longer prefix that is not around it";
            source.note(location.directive, message);
        }
        !is_hidden
    });
}
