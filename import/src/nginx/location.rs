//! `location`.

use super::access::{self, AccessRefusal, refuses};
use super::caching;
use super::known::may_refuse;
use super::limits;
use super::origins::{OriginsOfPass, Pass};
use super::redirect::{self, Names, RewriteTarget, unavailable};
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Handlers other than `proxy_pass`.
const OTHER_HANDLERS: &[&str] =
    &["fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];

/// A location that becomes a route.
#[derive(Clone)]
struct NginxLocation<'s> {
    directive: &'s NginxDirective,
    scope: BlockScope<'s>,
    path: &'s str,
    kind: LocationKind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum LocationKind {
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

/// A regular expression, with the prefix of the location around it.
struct Regex<'s> {
    directive: &'s NginxDirective,
    below: &'s str,
    is_cached: bool,
}

/// Translates the locations of a server.
pub(super) fn routes(
    source: &NginxSource<'_>,
    server: &NginxDirective,
    scope: &BlockScope<'_>,
    names: &Names<'_>,
) -> Routes {
    let (locations, regexes) = collect(source, scope);
    let mut routes = Routes { origins: choose(source, &locations), ..Routes::default() };
    for location in &locations {
        let mut table = heading(location);
        fill(source, location, routes.origins.as_ref(), names, &mut table);
        shadow(source, location, &regexes, &mut table);
        routes.tables.push(table);
        routes.tables.extend(slash(location, &locations));
    }
    let rewrites = redirects(source, scope, names, &mut routes.tables);
    if rewrites || locations.iter().any(|one| one.kind != LocationKind::Exact && one.path == "/") {
        return routes;
    }
    let mut rest = TomlTable::default();
    rest.raw("path_prefix", "\"/\"");
    match scope.one("root") {
        Some(root) => unavailable(
            source,
            root,
            &mut rest,
            "static files; see the setting files (docs/files.md)",
        ),
        None => {
            rest.comment(format!("{}:{}: no location for other paths", server.file, server.line));
            rest.text("respond", "404");
        }
    }
    routes.tables.push(rest);
    routes
}

/// nginx redirects `/a` to a location `/a/` with an origin. Without a route of its own, `/a` would
/// get the route of the paths above, although the origin may answer it as `/a/`.
fn slash(location: &NginxLocation<'_>, all: &[NginxLocation<'_>]) -> Option<TomlTable> {
    let path = location.path.strip_suffix('/').filter(|path| !path.is_empty())?;
    let is_handled = |name: &str| name == "proxy_pass" || OTHER_HANDLERS.contains(&name);
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
    let mut scopes = vec![(scope.clone(), "")];
    while let Some((scope, below)) = scopes.pop() {
        for directive in scope.own().iter().filter(|directive| directive.name == "location") {
            let inner = scope.inside(directive.inner());
            let (kind, path) = match (directive.arg(0), directive.arg(1)) {
                ("=", path) => (LocationKind::Exact, path),
                ("^~", path) => (LocationKind::Final, path),
                ("~" | "~*", _) => {
                    let is_cached = caching::is_cached(&inner);
                    regexes.push(Regex { directive, below, is_cached });
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
                regexes.push(Regex { directive, below, is_cached: false });
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
            scopes.push((inner.clone(), path));
            locations.push(NginxLocation { directive, scope: inner, path, kind });
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
            return redirect::write_return(source, answer, scope, names, table);
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
        match (path, origins) {
            (false, _) => Err("the path of the URL differs from that of the location, and routes \
                               do not rewrite paths"),
            (_, Some(origins)) if *origins != found => {
                Err("a route cannot have other origins than its site; serve the location under a \
                     host of its own")
            }
            _ => Ok((parsed, found)),
        }
    });
    match parsed {
        Err(reason) => unavailable(source, pass, table, reason),
        Ok((parsed, found)) => proxied(source, scope, pass, &parsed, &found, table),
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
    fields(source, scope, pass, parsed, table);
    if scope.own_one("limit_req").is_some() {
        access::limits(source, &scope.all(&["limit_req"]), table);
    }
    limits::write(source, scope, table);
    caching::write(source, scope, table);
    caching::write_gzip(source, scope, table);
    added(source, scope, table);
}

/// A location whose files, or whose program, Forebay does not serve.
fn without_proxy(source: &NginxSource<'_>, location: &NginxLocation<'_>, table: &mut TomlTable) {
    let own = location.scope.own();
    let handler = own.iter().find(|one| OTHER_HANDLERS.contains(&one.name.as_str()));
    match handler {
        Some(handler) => {
            let reason = "Forebay speaks only HTTP to origins; put an HTTP server in front";
            unavailable(source, handler, table, reason);
        }
        None => unavailable(
            source,
            location.directive,
            table,
            "static files; see the setting files (docs/files.md)",
        ),
    }
}

fn forbid(table: &mut TomlTable) {
    table.comment(
        "nginx refuses these requests, or may refuse them by a rule that is not carried over.",
    );
    table.remove("redirect");
    table.text("respond", "403");
}

/// A regular expression takes precedence over prefixes in nginx. Its requests now get the route of
/// a prefix, which must not be more open, nor store what nginx did not.
fn shadow(
    source: &NginxSource<'_>,
    location: &NginxLocation<'_>,
    regexes: &[Regex<'_>],
    table: &mut TomlTable,
) {
    if location.kind == LocationKind::Exact {
        return;
    }
    for regex in regexes {
        if !location.path.starts_with(regex.below)
            || (location.kind == LocationKind::Final && location.path != regex.below)
        {
            continue;
        }
        let directive = regex.directive;
        if refuses(directive.inner()) && !source.drop_access_rules && !table.has("redirect") {
            source.note(
                directive,
                "it refuses requests, so the routes whose requests it may \
                                    match answer 403; write routes for its paths, or use \
                                    --drop-access-rules",
            );
            return forbid(table);
        }
        if !regex.is_cached && table.value("cache") == Some("true") {
            source.note(
                directive,
                "nginx does not store its responses, so the routes whose \
                                    requests it may match are not cached",
            );
            table.raw("cache", "false");
        }
    }
}

/// `rewrite` directives of the server that redirect single paths become routes. Whether one of
/// them redirects everything.
fn redirects(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    names: &Names<'_>,
    tables: &mut Vec<TomlTable>,
) -> bool {
    for directive in scope.own().iter().filter(|one| one.name == "rewrite") {
        match redirect::rewrite(directive, names) {
            Some(RewriteTarget::All(url)) => {
                tables.clear();
                let mut table = TomlTable::default();
                table.comment(format!("{}:{}", directive.file, directive.line));
                table.raw("path_prefix", "\"/\"");
                table.text("redirect", &url);
                tables.push(table);
                return true;
            }
            Some(RewriteTarget::Path(path, url)) => {
                let quoted = crate::toml::quote(&path);
                tables.retain(|table| table.value("path") != Some(&quoted));
                let mut table = TomlTable::default();
                table.comment(format!("{}:{}", directive.file, directive.line));
                table.raw("path", quoted);
                table.text("redirect", &url);
                tables.push(table);
            }
            None => source.note(
                directive,
                "left out: only redirects of one path, or of all paths, are carried over",
            ),
        }
    }
    false
}

/// Fields of the request to the origin.
fn fields(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    pass: &NginxDirective,
    parsed: &Pass<'_>,
    table: &mut TomlTable,
) {
    let (mut has_host, mut forwarded_host) = (false, false);
    for directive in scope.all(&["proxy_set_header"]) {
        let (name, value) = (directive.arg(0).to_ascii_lowercase(), directive.arg(1));
        match (name.as_str(), value) {
            ("host", value) => {
                has_host = true;
                if !matches!(value, "$host" | "$http_host" | "$host:$server_port") {
                    source.note(
                        directive,
                        "left out: the origin gets the client's Host; a \
                                            header rule can set it (docs/rules.md)",
                    );
                }
            }
            ("upgrade", "$http_upgrade") => table.texts("upgrade_protocols", &["websocket"]),
            ("connection" | "x-forwarded-for" | "x-forwarded-proto", _) => {}
            ("x-forwarded-host", "$host" | "$http_host") => forwarded_host = true,
            ("accept-encoding", "") => {}
            _ => source.note(
                directive,
                "left out: set the field by a header rule at SEND_REQUEST_HDR_HOOK (docs/rules.md)",
            ),
        }
    }
    if !has_host {
        let name = parsed.authority();
        source.note(pass, format!("the origin gets the client's Host; nginx sent \"{name}\""));
    }
    if forwarded_host {
        let fields = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-request-id"];
        table.texts("forwarded_fields", &fields);
    }
}

/// Fields of the response to the client.
fn added(source: &NginxSource<'_>, scope: &BlockScope<'_>, table: &mut TomlTable) {
    for directive in scope.all(&["add_header"]) {
        let value = directive.arg(1);
        let max_age = value.strip_prefix("max-age=").is_some_and(|rest| {
            let digits = rest.split(';').next().unwrap_or_default().trim();
            let known = |part: &str| matches!(part.trim(), "includeSubDomains" | "preload");
            digits.parse::<u32>().is_ok() && rest.split(';').skip(1).all(known)
        });
        let name = directive.arg(0).to_ascii_lowercase();
        match (name.as_str(), max_age) {
            ("strict-transport-security", true) => table.text("hsts", value),
            ("x-cache-status" | "x-cache" | "x-proxy-cache", _) => {}
            _ => source.note(
                directive,
                "left out: set the field by a header rule at \
                                         SEND_RESPONSE_HDR_HOOK (docs/rules.md)",
            ),
        }
    }
}
