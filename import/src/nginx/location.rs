//! `location`.

use super::access::{self, AccessRefusal};
use super::caching;
use super::condition::{prefix_of, turns_away};
use super::cover::{self, Regex};
use super::fields;
use super::files;
use super::known::{HANDLERS, may_refuse, refusal};
use super::limits;
use super::origins::{OriginsOfPass, Pass};
use super::redirect::{self, Names, RewriteTarget, unavailable};
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// A location that becomes a route.
#[derive(Clone)]
pub(super) struct NginxLocation<'s> {
    pub(super) directive: &'s NginxDirective,
    pub(super) scope: BlockScope<'s>,
    pub(super) path: &'s str,
    pub(super) kind: LocationKind,
    /// The locations around it, outermost first.
    pub(super) around: Vec<(&'s NginxDirective, LocationKind)>,
}

impl NginxLocation<'_> {
    /// Whether nginx also serves names that only begin with the last part of the path.
    pub(super) fn has_open_end(&self) -> bool {
        self.kind != LocationKind::Exact && !self.path.ends_with('/')
    }

    /// Whether its route has paths that begin with this path.
    pub(super) fn is_above(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path);
        let is_part = |rest: &str| self.path.ends_with('/') || rest.starts_with('/');
        self.kind != LocationKind::Exact
            && rest.is_some_and(|rest| !rest.is_empty() && is_part(rest))
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LocationKind {
    Exact,
    Prefix,
    /// A prefix that no regular expression takes precedence over.
    Final,
}

/// The routes of a server, and its origins.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) tables: Vec<TomlTable>,
    pub(super) origins: Option<OriginsOfPass>,
}

/// Translates the locations of a server.
pub(super) fn routes(
    source: &NginxSource<'_>,
    server: &NginxDirective,
    scope: &BlockScope<'_>,
    names: &Names<'_>,
) -> Routes {
    let (mut locations, regexes) = collect(source, scope);
    let is_whole = locations.iter().any(|one| one.kind != LocationKind::Exact && one.path == "/");
    let origins = choose(source, &locations);
    let mut tables: Vec<_> = locations
        .iter()
        .map(|location| {
            let mut table = heading(location);
            fill(source, location, origins.as_ref(), names, &mut table);
            fields::of_response(source, &location.scope, &mut table);
            table
        })
        .collect();
    if !is_whole {
        let rest = NginxLocation {
            directive: server,
            scope: scope.clone(),
            path: "/",
            kind: LocationKind::Prefix,
            around: Vec::new(),
        };
        let mut table = rest_of(source, &rest);
        fields::of_response(source, scope, &mut table);
        tables.push(table);
        locations.push(rest);
    }
    cover::write(source, &locations, &regexes, &mut tables);
    let with_slash = locations.iter().map(|location| {
        let mut table = slash(location, &locations)?;
        fields::of_response(source, &location.scope, &mut table);
        Some(table)
    });
    let pairs = tables.into_iter().zip(with_slash);
    let mut tables = pairs.flat_map(|(table, more)| [Some(table), more]).flatten().collect();
    redirects(source, scope, names, &mut tables);
    Routes { tables, origins }
}

/// The route of the paths that have no location.
fn rest_of(source: &NginxSource<'_>, rest: &NginxLocation<'_>) -> TomlTable {
    let mut table = TomlTable::default();
    table.raw("path_prefix", "\"/\"");
    if let Err(AccessRefusal) = access::write(source, &rest.scope, &mut table) {
        forbid(&mut table);
    } else if rest.scope.one("root").is_some() {
        files::write(source, rest, &mut table);
    } else {
        let server = rest.directive;
        table.comment(format!("{}:{}: no location for other paths", server.file, server.line));
        table.text("respond", "404");
    }
    table
}

/// nginx redirects `/a` to a location `/a/` with an origin. Without a route of its own, `/a` would
/// get the route of the paths above, although the origin may answer it as `/a/`.
fn slash(location: &NginxLocation<'_>, all: &[NginxLocation<'_>]) -> Option<TomlTable> {
    let path = location.path.strip_suffix('/').filter(|path| !path.is_empty())?;
    let is_handled = |name: &str| name == "proxy_pass" || name.ends_with("_pass");
    let is_proxied = location.scope.own().iter().any(|one| is_handled(&one.name));
    let is_known = all.iter().any(|one| one.path == path);
    if location.kind == LocationKind::Exact || !is_proxied || is_known {
        return None;
    }
    let mut table = TomlTable::default();
    let directive = location.directive;
    table.comment(format!("{}:{}: without the final slash", directive.file, directive.line));
    table.text("path", path);
    table.text("redirect", &format!("301 {path}/$query"));
    Some(table)
}

fn heading(location: &NginxLocation<'_>) -> TomlTable {
    let mut table = TomlTable::default();
    let directive = location.directive;
    table.comment(format!("{}:{}", directive.file, directive.line));
    match location.kind {
        LocationKind::Exact => table.text("path", location.path),
        LocationKind::Prefix | LocationKind::Final => table.text("path_prefix", location.path),
    }
    table
}

/// The locations of all depths, and those of regular expressions.
fn collect<'s>(
    source: &NginxSource<'_>,
    scope: &BlockScope<'s>,
) -> (Vec<NginxLocation<'s>>, Vec<Regex<'s>>) {
    let (mut locations, mut regexes) = (Vec::<NginxLocation<'s>>::new(), Vec::new());
    let mut scopes = vec![(scope.clone(), Vec::new())];
    while let Some((scope, around)) = scopes.pop() {
        let parent = around.last().map(|(parent, _)| *parent);
        for directive in scope.own().iter().filter(|directive| directive.name == "location") {
            let inner = scope.inside(directive.inner());
            let (kind, path) = match (directive.arg(0), directive.arg(1)) {
                ("=", path) => (LocationKind::Exact, path),
                ("^~", path) => (LocationKind::Final, path),
                ("~" | "~*", _) => {
                    regexes.push(Regex { directive, scope: inner, parent });
                    source.note(
                        directive,
                        "left out: routes have no regular expressions; write \
                                            a route for each path or prefix",
                    );
                    continue;
                }
                (path, _) if path.starts_with('@') => {
                    source.note(directive, "left out: named locations have no counterpart");
                    continue;
                }
                (path, _) => (LocationKind::Prefix, path),
            };
            let is_path =
                |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,:@".contains(&byte);
            if !path.starts_with('/') || !path.bytes().all(is_path) || path.contains("//") {
                // Its requests would get another route.
                regexes.push(Regex { directive, scope: inner, parent });
                source.note(
                    directive,
                    "left out: routes need a path of ASCII characters without encoding",
                );
                continue;
            }
            let is_same = |one: &NginxLocation<'_>| {
                one.path == path
                    && (one.kind == LocationKind::Exact) == (kind == LocationKind::Exact)
            };
            if locations.iter().any(is_same) {
                regexes.push(Regex { directive, scope: inner, parent });
                source.note(directive, "left out: another location has this path");
                continue;
            }
            if kind != LocationKind::Exact && !path.ends_with('/') {
                source.note(
                    directive,
                    format!(
                        "the route has {path} and paths below {path}/, \
                                                but not {path}x, which another location serves; \
                                                add a route if such paths exist"
                    ),
                );
            }
            let mut chain: Vec<_> = around.clone();
            chain.push((directive, kind));
            scopes.push((inner.clone(), chain));
            let around = around.clone();
            locations.push(NginxLocation { directive, scope: inner, path, kind, around });
        }
    }
    locations.sort_by_key(|one| (one.directive.file.clone(), one.directive.line));
    (locations, regexes)
}

/// The origins of the site: those of `/`, or of the first location that has some.
fn choose(source: &NginxSource<'_>, locations: &[NginxLocation<'_>]) -> Option<OriginsOfPass> {
    let of = |one: &NginxLocation<'_>| {
        let pass = one.scope.own_one("proxy_pass")?;
        Pass::new(pass.arg(0)).and_then(|pass| pass.origins(source)).ok()
    };
    let root = locations.iter().find(|one| one.kind != LocationKind::Exact && one.path == "/");
    root.and_then(of).or_else(|| locations.iter().find_map(of))
}

fn fill(
    source: &NginxSource<'_>,
    location: &NginxLocation<'_>,
    origins: Option<&OriginsOfPass>,
    names: &Names<'_>,
    table: &mut TomlTable,
) {
    let scope = &location.scope;
    let own = scope.own();
    if own.iter().any(may_refuse) && access::refuse(source).is_err() {
        return forbid(table);
    }
    if scope.own_one("internal").is_some() {
        return table.text("respond", "404");
    }
    if let Some(answer) = own.iter().find(|one| matches!(one.name.as_str(), "return" | "rewrite")) {
        if answer.name == "return" {
            let path = Some(location.path).filter(|_| location.kind == LocationKind::Exact);
            return redirect::write_return(source, answer, scope, path, names, table);
        }
        return match redirect::rewrite(answer, names) {
            Some(RewriteTarget::All(url)) => table.text("redirect", &url),
            _ => {
                unavailable(source, answer, table, "the rewrite is not a redirect of all requests")
            }
        };
    }
    if let Err(AccessRefusal) = access::write(source, scope, table) {
        for name in ["allow_from", "deny_from", "basic_auth", "basic_auth_realm"] {
            table.remove(name);
        }
        table.remove("basic_auth_forward");
        return forbid(table);
    }
    let Some(pass) = scope.own_one("proxy_pass") else {
        return without_proxy(source, location, table);
    };
    let parsed = Pass::new(pass.arg(0)).and_then(|parsed| {
        let path = parsed.path.is_none_or(|path| path == location.path);
        let found = parsed.origins(source)?;
        match path {
            false => Err("the path of the URL differs from that of the location, and routes do \
                          not rewrite paths"),
            true => Ok((parsed, found)),
        }
    });
    match parsed {
        Err(reason) => unavailable(source, pass, table, reason),
        Ok((parsed, found)) => {
            if origins != Some(&found) {
                found.write(table);
            }
            proxied(source, scope, pass, &parsed, &found, table);
        }
    }
}

/// The settings of a route whose requests go to an origin.
fn proxied(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    pass: &NginxDirective,
    parsed: &Pass<'_>,
    found: &OriginsOfPass,
    table: &mut TomlTable,
) {
    if found.is_tls() {
        let message = "the origin's certificate is verified now; see origin_ca and \
                       origin_tls_name (docs/tls.md)";
        source.note(pass, message);
    }
    if let Err(AccessRefusal) = fields::of_request(source, scope, pass, parsed, table) {
        return forbid(table);
    }
    if scope.own_one("limit_req").is_some() {
        access::limits(source, scope, table);
    }
    limits::write(source, scope, table);
    caching::write(source, scope, table);
    caching::write_gzip(source, scope, table);
}

/// A location that answers with files, or whose program Forebay does not speak to.
fn without_proxy(source: &NginxSource<'_>, location: &NginxLocation<'_>, table: &mut TomlTable) {
    let own = location.scope.own();
    let handler = own.iter().find(|one| HANDLERS.contains(&one.name.as_str()));
    match handler {
        Some(handler) => {
            let reason = "Forebay speaks only HTTP to origins; put an HTTP server in front";
            unavailable(source, handler, table, reason);
        }
        None => {
            files::write(source, location, table);
        }
    }
}

pub(super) fn forbid(table: &mut TomlTable) {
    table.comment(
        "nginx refuses these requests, or may refuse them by a rule that is not carried over.",
    );
    table.remove("redirect");
    files::clear(table);
    table.text("respond", "403");
}

/// `rewrite` directives of the server that redirect single paths become routes, and so do those
/// that keep clients away from paths.
fn redirects(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    names: &Names<'_>,
    tables: &mut Vec<TomlTable>,
) {
    for directive in scope.own().iter().filter(|one| one.name == "rewrite") {
        let mut table = TomlTable::default();
        table.comment(format!("{}:{}", directive.file, directive.line));
        fields::of_response(source, scope, &mut table);
        match redirect::rewrite(directive, names) {
            Some(RewriteTarget::All(url)) => {
                tables.clear();
                table.raw("path_prefix", "\"/\"");
                table.text("redirect", &url);
                tables.push(table);
                return;
            }
            Some(RewriteTarget::Path(path, url)) => {
                let quoted = crate::toml::quote(&path);
                tables.retain(|table| table.value("path") != Some(&quoted));
                table.raw("path", quoted);
                table.text("redirect", &url);
                tables.push(table);
            }
            None if turns_away(directive) => {
                source.note(directive, refusal(source));
                if !source.drop_access_rules {
                    close_below(prefix_of(directive.arg(0)), table, tables);
                }
            }
            None => source.note(
                directive,
                "left out: only redirects of one path, or of all paths, are carried over",
            ),
        }
    }
}

/// Refuses all paths with this prefix.
fn close_below(prefix: &str, mut closed: TomlTable, tables: &mut Vec<TomlTable>) {
    let is_below = |table: &TomlTable| {
        let path = table.value("path").or(table.value("path_prefix")).unwrap_or_default();
        path.trim_start_matches('"').starts_with(prefix)
    };
    tables.iter_mut().filter(|table| is_below(table)).for_each(forbid);
    let quoted = crate::toml::quote(prefix);
    if !tables.iter().any(|table| table.value("path_prefix") == Some(&quoted)) {
        closed.raw("path_prefix", quoted);
        forbid(&mut closed);
        tables.push(closed);
    }
}
