//! Sites: the rules of each host, in the order in which Traffic Server looks for them.

mod cache_routes;

use std::collections::BTreeSet;

use super::cache_control::{CacheAction, CacheScope};
use super::files::ConfigFiles;
use super::host::RuleHosts;
use super::mapping::MappingRule;
use super::route::{self, PathsOfRoute, RouteContext, forbid};
use super::server::ServedPorts;
use super::url::{RuleScheme, escaped, is_route_path};
use crate::toml::{TomlTable, list};

/// Regular expressions that a site may have.
const REGEXES_MAX: usize = 32;

/// A site with its routes.
pub(super) struct TsSite {
    pub(super) names: Vec<String>,
    pub(super) comment: Option<String>,
    pub(super) site: TomlTable,
    pub(super) routes: Vec<TomlTable>,
}

/// The rule of a path, and its relation to TLS.
struct PathRule<'r> {
    path: String,
    rule: Option<&'r MappingRule>,
    /// Whether requests without TLS are redirected.
    is_tls_only: bool,
    /// Whether requests with and without TLS have different rules.
    is_divided: bool,
}

/// Translates the rules of all hosts.
pub(super) fn all(
    context: &RouteContext<'_>,
    files: &mut ConfigFiles,
    rules: &[MappingRule],
    ports: ServedPorts,
    closed_hosts: &[RuleHosts],
) -> Vec<TsSite> {
    let mut keys: Vec<&RuleHosts> = Vec::new();
    for hosts in rules.iter().map(|rule| &rule.hosts).chain(closed_hosts) {
        let is_own = !matches!(hosts, RuleHosts::Any | RuleHosts::Rest | RuleHosts::Matching(_));
        if is_own && !keys.contains(&hosts) {
            keys.push(hosts);
        }
    }
    keys.push(&RuleHosts::Any);
    let mut sites: Vec<TsSite> = Vec::new();
    for key in keys {
        let site = match closed_hosts.iter().any(|host| host.covers(key)) {
            true => closed(key),
            false => SiteBuilder::new(context, rules, ports, key).build(files),
        };
        let is_same = |known: &&mut TsSite| {
            known.routes_text() == site.routes_text() && known.comment == site.comment
        };
        match sites.iter_mut().find(is_same).filter(|_| *key != RuleHosts::Any) {
            Some(known) => known.names.extend(site.names),
            None => sites.push(site),
        }
    }
    sites
}

fn closed(key: &RuleHosts) -> TsSite {
    let mut site = TomlTable::default();
    forbid(&mut site);
    TsSite { names: vec![key.site_name()], comment: None, site, routes: Vec::new() }
}

impl TsSite {
    /// The sections behind that of the site.
    fn routes_text(&self) -> String {
        let mut out = String::new();
        self.site.write(&mut out, "");
        self.routes.iter().for_each(|route| route.write(&mut out, "[[site.route]]"));
        out
    }

    pub(super) fn write(&self, out: &mut String) {
        let mut head = TomlTable::default();
        if let Some(comment) = &self.comment {
            head.comment(comment.clone());
        }
        let first = self.names.first().map_or("", String::as_str);
        let name = if first == "*" { "other-hosts" } else { first.trim_start_matches("*.") };
        head.text("name", if first.starts_with("*.") { first } else { name });
        head.raw("names", list(&self.names));
        out.push('\n');
        head.write(out, "[[site]]");
        self.site.write(out, "");
        for route in &self.routes {
            out.push('\n');
            route.write(out, "[[site.route]]");
        }
    }
}

struct SiteBuilder<'b> {
    context: &'b RouteContext<'b>,
    key: &'b RuleHosts,
    ports: ServedPorts,
    rules: Vec<&'b MappingRule>,
    prefixes: Vec<(String, TomlTable)>,
    regexes: Vec<SiteRegex>,
}

/// A route with a regular expression.
struct SiteRegex {
    /// The beginning of its paths, without the first slash.
    path: String,
    /// Whether it has all paths that begin so, or only some.
    is_prefix: bool,
    table: TomlTable,
}

impl<'b> SiteBuilder<'b> {
    fn new(
        context: &'b RouteContext<'b>,
        rules: &'b [MappingRule],
        ports: ServedPorts,
        key: &'b RuleHosts,
    ) -> SiteBuilder<'b> {
        let all: Vec<_> = rules.iter().filter(|rule| rule.hosts.covers(key)).collect();
        let mut site = SiteBuilder {
            context,
            key,
            ports,
            rules: Vec::new(),
            prefixes: Vec::new(),
            regexes: Vec::new(),
        };
        let own_port = |rule: &&MappingRule| rule.hosts == *key && !rule.is_of_recv_port;
        let mut ports_of_host = all.iter().copied().filter(own_port).map(|one| one.from.own_port());
        let usual = ports_of_host.clone().any(|port| port.is_none());
        let port = if usual { None } else { ports_of_host.next().flatten() };
        site.rules = all.into_iter().filter(|rule| site.is_reachable(rule, port)).collect();
        site
    }

    /// Whether requests can reach a rule by its port and its scheme.
    fn is_reachable(&self, rule: &MappingRule, port: Option<u16>) -> bool {
        let source = self.context.source;
        let note = |message: &str| source.note(&rule.at, &rule.directive, message);
        let scheme = rule.from.requests().unwrap_or(RuleScheme::Both);
        if rule.is_of_recv_port {
            let own = match scheme {
                RuleScheme::Tls => rule.from.port.or(Some(443)) == self.ports.tls,
                _ => rule.from.port.or(Some(80)) == self.ports.plain,
            };
            if !own {
                note(
                    "left out: sites do not depend on the port at which a request arrives; run a \
                      second Forebay for this one",
                );
            }
            return own;
        }
        if scheme == RuleScheme::Tls && !self.ports.has_tls {
            note("left out: no port has TLS and a certificate");
            return false;
        }
        if rule.hosts == *self.key && rule.from.own_port() != port {
            note(
                "left out: the site has rules for another port of the host; sites do not depend \
                  on the port",
            );
            return false;
        }
        true
    }

    fn build(mut self, files: &mut ConfigFiles) -> TsSite {
        let paths: BTreeSet<_> = self.rules.iter().map(|rule| rule.from.path.clone()).collect();
        let mut found: Vec<PathRule<'b>> = Vec::new();
        let paths =
            std::iter::once(String::new()).chain(paths.into_iter().filter(|p| !p.is_empty()));
        for path in paths {
            let one = self.path_rule(path);
            let around = enclosing(&found, &one.path);
            let is_shadowed = around.is_some_and(|around| {
                around.is_tls_only == one.is_tls_only
                    && around.is_divided == one.is_divided
                    && match (around.rule, one.rule) {
                        (Some(first), Some(second)) => std::ptr::eq(first, second),
                        (first, second) => first.is_none() && second.is_none(),
                    }
            });
            if !is_shadowed {
                found.push(one);
            }
        }
        self.note_unused(&found);
        for index in 0..found.len() {
            self.add(files, &found, index);
        }
        let comment = found.iter().find_map(|one| one.rule).map(|rule| rule.at.comment());
        self.finish(comment)
    }

    /// The rules that no request reaches, because others come first.
    fn note_unused(&self, found: &[PathRule<'b>]) {
        for rule in self.rules.iter().filter(|rule| rule.hosts == *self.key) {
            let is_used = found.iter().any(|one| {
                one.rule.is_some_and(|used| std::ptr::eq(used, *rule)) || one.is_tls_only
            });
            if !is_used {
                let message = "no request reaches it: an earlier rule has its paths";
                self.context.source.note(&rule.at, &rule.directive, message);
            }
        }
    }

    fn path_rule(&self, path: String) -> PathRule<'b> {
        let plain = self.ports.has_plain.then(|| self.choose(RuleScheme::Plain, &path));
        let tls = self.ports.has_tls.then(|| self.choose(RuleScheme::Tls, &path));
        let mut one = PathRule { path, rule: None, is_tls_only: false, is_divided: false };
        match (plain, tls) {
            (Some(plain), Some(tls)) => match (plain, tls) {
                (Some(plain), Some(tls)) if plain.is_same(tls) => one.rule = Some(plain),
                (Some(plain), Some(tls)) if self.leads_to_tls(plain) => {
                    (one.rule, one.is_tls_only) = (Some(tls), true);
                }
                (Some(plain), Some(tls)) => {
                    self.context.source.note(&tls.at, &tls.directive, format!(
                        "not carried over: requests without TLS have another rule (line {}), and \
                         routes do not depend on TLS; the requests get 503", plain.at.line));
                    (one.rule, one.is_divided) = (Some(tls), true);
                }
                (None, Some(tls)) => (one.rule, one.is_tls_only) = (Some(tls), true),
                (plain, None) => one.rule = plain,
            },
            (plain, tls) => one.rule = plain.or(tls).flatten(),
        }
        one
    }

    /// Whether a rule redirects to the same URL with TLS.
    fn leads_to_tls(&self, rule: &MappingRule) -> bool {
        let RuleHosts::Name(name) = self.key else { return false };
        rule.redirect.is_some()
            && rule.to.scheme == "https"
            && rule.to.host == *name
            && rule.has_same_path()
            && rule.plugins.is_empty()
    }

    /// The rule of a request: the first of the best kind.
    fn choose(&self, scheme: RuleScheme, path: &str) -> Option<&'b MappingRule> {
        let matching = self.rules.iter().copied().filter(|rule| {
            let of = rule.from.requests().unwrap_or(RuleScheme::Both);
            (of == RuleScheme::Both || of == scheme) && path.starts_with(&rule.from.path)
        });
        matching.min_by_key(|rule| {
            let kind = match (rule.redirect, rule.is_of_recv_port) {
                (None, true) => 0,
                (None, false) => 1,
                (Some(307), _) => 2,
                _ => 3,
            };
            (kind, rule.hosts == RuleHosts::Rest, rule.rank)
        })
    }

    /// Adds the routes of a path.
    fn add(&mut self, files: &mut ConfigFiles, found: &[PathRule<'b>], index: usize) {
        let Some(one) = found.get(index) else { return };
        let (context, path) = (self.context, one.path.clone());
        if !is_route_path(&path) {
            if let Some(rule) = one.rule {
                let message = "not carried over: the path is unusual; the requests get 503";
                context.source.note(&rule.at, &rule.directive, message);
            }
            let mut table = self.table(one);
            table.text("respond", "503");
            let regex = format!("^/{}", escaped(&path));
            return self.add_regex(path, true, regex, table);
        }
        let mut table = self.table(one);
        self.fill(files, one, &PathsOfRoute::Prefix, &mut table);
        self.prefixes.push((path.clone(), table));
        if !path.is_empty() && !path.ends_with('/') {
            // A rule has all paths that begin so, also in the middle of a segment.
            let regex = format!("^/{}[^/]", escaped(&path));
            let mut table = self.table(one);
            self.fill(files, one, &PathsOfRoute::Regex, &mut table);
            self.add_regex(path, true, regex, table);
        }
        self.cache_routes(files, found, one);
    }

    /// A section with the comment of a rule.
    fn table(&self, one: &PathRule<'_>) -> TomlTable {
        let mut table = TomlTable::default();
        if let Some(rule) = one.rule {
            table.comment(rule.at.comment());
        }
        table
    }

    fn fill(
        &self,
        files: &mut ConfigFiles,
        one: &PathRule<'_>,
        paths: &PathsOfRoute,
        table: &mut TomlTable,
    ) {
        if one.is_divided {
            return table.text("respond", "503");
        }
        route::write(self.context, files, one.rule, paths, table);
        if one.is_tls_only {
            table.raw("https_redirect_port", "443");
        }
        let Some(rule) = one.rule.filter(|rule| rule.redirect.is_none()) else { return };
        for cache in &self.context.cache {
            match cache.scope(&rule.to) {
                CacheScope::All => cache.write(table),
                CacheScope::Unknown if cache.action == CacheAction::Never => cache.write(table),
                _ => {}
            }
        }
    }

    fn add_regex(&mut self, path: String, is_prefix: bool, regex: String, table: TomlTable) {
        let mut own = TomlTable::default();
        match regex.contains('\'') {
            true => own.text("path_regex", &regex),
            false => own.raw("path_regex", format!("'{regex}'")),
        }
        own.extend(table);
        self.regexes.push(SiteRegex { path, is_prefix, table: own });
    }

    fn finish(mut self, comment: Option<String>) -> TsSite {
        let names = vec![self.key.site_name()];
        // Longer prefixes come first; those for some paths only come last.
        self.regexes.sort_by_key(|one| (!one.is_prefix, std::cmp::Reverse(one.path.len())));
        let is_certain = self.order_prefixes();
        if !is_certain || self.regexes.len() > REGEXES_MAX {
            if let Some(rule) = self.rules.first() {
                let message = "not carried over: the paths of the rules overlap in a way that \
                               routes do not; the requests of the host get 503";
                self.context.source.note(&rule.at, &rule.directive, message);
            }
            let mut site = TomlTable::default();
            site.text("respond", "503");
            return TsSite { names, comment, site, routes: Vec::new() };
        }
        self.prefixes.sort_by(|one, other| one.0.cmp(&other.0));
        let only = self.regexes.is_empty() && self.prefixes.len() == 1;
        if let (true, Some((_, table))) = (only, self.prefixes.pop_if(|_| only)) {
            let mut site = table;
            site.drop_comment(comment.as_deref().unwrap_or_default());
            return TsSite { names, comment, site, routes: Vec::new() };
        }
        let mut routes: Vec<_> = self.regexes.into_iter().map(|one| one.table).collect();
        for (path, table) in self.prefixes {
            let mut own = TomlTable::default();
            own.text("path_prefix", &format!("/{path}"));
            own.extend(table);
            routes.push(own);
        }
        TsSite { names, comment, site: TomlTable::default(), routes }
    }

    /// Writes which prefixes win over regular expressions. Returns `false` if that is not possible.
    fn order_prefixes(&mut self) -> bool {
        if self.regexes.is_empty() {
            return true;
        }
        let mut is_certain = true;
        for (path, table) in self.prefixes.iter_mut().filter(|(path, _)| !path.is_empty()) {
            let segment = format!("{}/", path.trim_end_matches('/'));
            // Paths of such an expression have this prefix as their longest one.
            let yields = self
                .regexes
                .iter()
                .any(|one| one.path != *path && one.path.starts_with(&segment) && one.is_prefix);
            let is_hit = self.regexes.iter().any(|one| {
                !one.is_prefix
                    || one.path != *path
                        && path.strip_prefix(&one.path).is_some_and(|rest| !rest.starts_with('/'))
            });
            is_certain &= !(yields && is_hit);
            table.raw("before_regex", if yields { "false" } else { "true" });
        }
        is_certain
    }
}

/// The rule whose prefix is the longest of those that a path begins with.
fn enclosing<'f, 'r>(found: &'f [PathRule<'r>], path: &str) -> Option<&'f PathRule<'r>> {
    let around = found.iter().filter(|one| one.path != path && path.starts_with(&one.path));
    around.max_by_key(|one| one.path.len())
}
