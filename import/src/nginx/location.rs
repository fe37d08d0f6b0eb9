//! `location`.

use super::access::{self, AccessRefusal};
use super::beyond;
use super::caching;
use super::condition::{prefix_of, turns_away};
use super::cover;
use super::fields;
use super::files;
use super::internal;
use super::known::{HANDLERS, may_refuse, refusal};
use super::limits;
use super::locations::{ServerLocations, collect};
use super::origins::{OriginsOfPass, Pass};
use super::prefix;
use super::redirect::{self, Names, RewriteTarget, unavailable};
use super::request_limits;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// A location that becomes a route.
#[derive(Clone)]
pub(super) struct NginxLocation<'s> {
    pub(super) directive: &'s NginxDirective,
    pub(super) scope: BlockScope<'s>,
    /// The path, or the regular expression.
    pub(super) path: String,
    pub(super) kind: LocationKind,
    /// The locations around it, outermost first.
    pub(super) around: Vec<(&'s NginxDirective, LocationKind)>,
    /// Whether names beyond the end of its prefix have a route, or this is that route.
    pub(super) has_beyond: bool,
}

impl NginxLocation<'_> {
    /// Whether it has a prefix.
    pub(super) fn is_prefix(&self) -> bool {
        matches!(self.kind, LocationKind::Prefix | LocationKind::Final)
    }

    /// Whether nginx also serves names that only begin with the last part of the path.
    pub(super) fn has_open_end(&self) -> bool {
        self.is_prefix() && !self.path.ends_with('/') && !self.has_beyond
    }

    /// The location whose route has the names beyond the end of the prefix.
    pub(super) fn above(&self, all: &[NginxLocation<'_>]) -> Option<usize> {
        let is_above = (0..all.len()).filter(|other| all[*other].is_above(&self.path));
        is_above.max_by_key(|other| all[*other].path.len())
    }

    /// Whether its route has paths that begin with this path.
    pub(super) fn is_above(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.as_str());
        let is_part = |rest: &str| self.path.ends_with('/') || rest.starts_with('/');
        self.is_prefix() && rest.is_some_and(|rest| !rest.is_empty() && is_part(rest))
    }

    /// Whether its prefix takes precedence over the regular expressions of the server: nginx
    /// decides that by the outermost location.
    pub(super) fn is_before_regex(&self) -> bool {
        let outermost = self.around.first().map_or(self.kind, |(_, kind)| *kind);
        outermost == LocationKind::Final
    }

    /// Whether nginx never applies it, because a longer prefix that is not around it has all of its
    /// paths.
    pub(super) fn is_hidden_by(&self, other: &NginxLocation<'_>) -> bool {
        let level = self.around.iter().zip(&other.around);
        let shared =
            level.take_while(|((own, _), (others, _))| std::ptr::eq(*own, *others)).count();
        let (Some((branch, _)), None) = (self.around.get(shared), other.around.get(shared)) else {
            return false;
        };
        let is_around = std::ptr::eq(*branch, other.directive);
        let is_longer = other.path.len() > branch.args.last().map_or(0, String::len);
        !is_around && other.is_prefix() && is_longer && self.path.starts_with(&other.path)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LocationKind {
    Exact,
    Prefix,
    /// A prefix that no regular expression takes precedence over.
    Final,
    Regex,
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
    let ServerLocations { carried: mut locations, uncarried } = collect(source, scope);
    let is_whole = locations.iter().any(|one| one.is_prefix() && one.path == "/");
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
            path: "/".to_owned(),
            kind: LocationKind::Prefix,
            around: Vec::new(),
            has_beyond: false,
        };
        let mut table = rest_of(source, &rest);
        fields::of_response(source, scope, &mut table);
        tables.push(table);
        locations.push(rest);
    }
    beyond::write(source, &mut locations, &mut tables);
    before_regex(source, &locations, &mut tables);
    cover::write(source, &locations, &uncarried, &mut tables);
    internal::write(source, &locations, &mut tables);
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

/// Writes which prefixes win over regular expressions, and notes prefixes with an open end.
fn before_regex(
    source: &NginxSource<'_>,
    locations: &[NginxLocation<'_>],
    tables: &mut [TomlTable],
) {
    let has_regexes = locations.iter().any(|one| one.kind == LocationKind::Regex);
    for (location, table) in locations.iter().zip(tables).filter(|(one, _)| one.is_prefix()) {
        let is_before = location.is_before_regex();
        // Prefixes of single paths must say which of them wins.
        if has_regexes && (is_before || location.path != "/") {
            table.raw("before_regex", is_before.to_string());
            table.move_to_front("before_regex");
            table.move_to_front("path_prefix");
        }
        if location.has_open_end() {
            let path = &location.path;
            source.note(
                location.directive,
                format!(
                    "the route has {path} and paths below {path}/, but not {path}x, which another \
                     location serves; add a route if such paths exist"
                ),
            );
        }
    }
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
    let is_proxied = location.scope.own().iter().any(|one| one.name.ends_with("_pass"));
    let is_known = all.iter().any(|one| one.path == path && one.kind != LocationKind::Regex);
    if !location.is_prefix() || !is_proxied || is_known {
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
        LocationKind::Exact => table.text("path", &location.path),
        LocationKind::Prefix | LocationKind::Final => table.text("path_prefix", &location.path),
        LocationKind::Regex => table.verbatim("path_regex", &location.path),
    }
    table
}

/// The origins of the site: those of `/`, or of the first location that has some.
fn choose(source: &NginxSource<'_>, locations: &[NginxLocation<'_>]) -> Option<OriginsOfPass> {
    let of = |one: &NginxLocation<'_>| {
        Pass::new(one.scope.pass()?).and_then(|pass| pass.origins(source)).ok()
    };
    let root = locations.iter().find(|one| one.is_prefix() && one.path == "/");
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
            let path =
                Some(location.path.as_str()).filter(|_| location.kind == LocationKind::Exact);
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
    let Some(pass) = scope.pass() else {
        return without_proxy(source, location, table);
    };
    if let Some(tried) = scope.own_one("try_files") {
        let reason = "files are tried before the origin, which routes do not";
        return unavailable(source, tried, table, reason);
    }
    let parsed = Pass::new(pass).and_then(|parsed| {
        let found = parsed.origins(source)?;
        if let Some(path) = parsed.path.filter(|path| *path != location.path) {
            prefix::write(source, location, pass, path, table)?;
        }
        Ok((parsed, found))
    });
    match parsed {
        Err(reason) => unavailable(source, pass, table, reason),
        Ok((parsed, found)) => {
            if origins != Some(&found) {
                found.write(table);
                if origins.is_some_and(OriginsOfPass::is_grpc) && !found.is_grpc() {
                    table.text("origin_http2", "never");
                }
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
    request_limits::of_location(source, scope, table);
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
                    close_below(prefix_of(directive.arg(0)), table, tables, forbid);
                }
            }
            None if !is_redirect(directive) => {
                let prefix = prefix_of(directive.arg(0));
                source.note(
                    directive,
                    format!(
                        "not carried over: nginx answers these paths by another location, so all \
                         paths below {prefix} get 503; write routes for them (docs/sites.md)"
                    ),
                );
                close_below(prefix, table, tables, redirect::write_unavailable);
            }
            None => source.note(
                directive,
                "left out: only redirects of one path, or of all paths, are carried over",
            ),
        }
    }
}

/// Whether a `rewrite` answers with a redirect, and does not go on with another path.
fn is_redirect(directive: &NginxDirective) -> bool {
    matches!(directive.arg(2), "permanent" | "redirect")
        || ["http://", "https://", "$scheme"]
            .iter()
            .any(|start| directive.arg(1).starts_with(start))
}

/// Answers all paths with this prefix.
fn close_below(
    prefix: &str,
    mut closed: TomlTable,
    tables: &mut Vec<TomlTable>,
    close: fn(&mut TomlTable),
) {
    let is_below = |table: &TomlTable| {
        let path = table.value("path").or(table.value("path_prefix")).unwrap_or_default();
        path.trim_start_matches('"').starts_with(prefix)
    };
    let has_regexes = tables.iter().any(|table| table.has("path_regex"));
    for table in tables.iter_mut().filter(|table| is_below(table)) {
        close(table);
        // A regular expression could match the paths.
        if has_regexes && table.has("path_prefix") {
            table.raw("before_regex", "true");
        }
    }
    let quoted = crate::toml::quote(prefix);
    if !tables.iter().any(|table| table.value("path_prefix") == Some(&quoted)) {
        closed.raw("path_prefix", quoted);
        if has_regexes {
            closed.raw("before_regex", "true");
        }
        close(&mut closed);
        tables.push(closed);
    }
}
