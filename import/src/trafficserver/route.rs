//! The settings of a route: the target of a rule, its path and its restrictions.

use super::cache_control::CacheRule;
use super::files::ConfigFiles;
use super::filter;
use super::mapping::MappingRule;
use super::parents::{ParentRule, origins};
use super::plugins::{self, PluginOutcome};
use super::records::RecordValues;
use super::settings::{differences, of_route};
use super::source::TsSource;
use super::url::{RuleUrl, escaped, is_route_path};
use crate::toml::TomlTable;

/// The text of answers for requests whose rule is not carried over.
const NOT_CARRIED: &str = "503 not carried over from the configuration of Traffic Server";

/// Everything that routes depend on.
pub(super) struct RouteContext<'c> {
    pub(super) source: &'c TsSource,
    pub(super) records: &'c RecordValues,
    /// The settings of all routes.
    pub(super) server: TomlTable,
    pub(super) parents: Vec<ParentRule>,
    pub(super) cache: Vec<CacheRule>,
}

/// The paths of a route.
#[derive(Clone, Debug)]
pub(super) enum PathsOfRoute {
    /// Those with the prefix of the rule, up to the end of a segment.
    Prefix,
    /// Those with another prefix, below that of the rule.
    Below(String),
    /// Those that an expression matches.
    Regex,
}

/// The change of a path on the way to the origin: the beginning `from` becomes `to`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct PathChange {
    pub(super) from: String,
    pub(super) to: String,
}

impl PathChange {
    /// The change of a rule, as Traffic Server joins the paths.
    pub(super) fn of(rule: &MappingRule) -> PathChange {
        let (mut from, mut to) = (rule.from.path.clone(), rule.to.path.clone());
        if from.is_empty() && !to.is_empty() && !to.ends_with('/') {
            to.push('/');
        }
        if !from.is_empty() && !from.ends_with('/') && (to.is_empty() || to.ends_with('/')) {
            from.push('/');
        }
        PathChange { from, to }
    }
}

/// Writes the route of a rule; without one, the answer is 404.
pub(super) fn write(
    context: &RouteContext<'_>,
    files: &mut ConfigFiles,
    rule: Option<&MappingRule>,
    paths: &PathsOfRoute,
    table: &mut TomlTable,
) {
    let Some(rule) = rule else { return table.text("respond", "404") };
    let mut rules = Vec::new();
    // Traffic Server does not apply filters to redirects.
    let is_map = rule.redirect.is_none();
    if is_map && filter::write(context.source, rule, table, &mut rules).is_err() {
        return forbid(table);
    }
    if rule.to.host.is_empty() {
        return table.text("respond", NOT_CARRIED);
    }
    match plugins::of_rule(context.source, files, rule, table, &mut rules) {
        PluginOutcome::Closed => return forbid(table),
        PluginOutcome::Unavailable => return table.text("respond", NOT_CARRIED),
        PluginOutcome::Served => {}
    }
    let written = match rule.redirect {
        Some(status) => redirect(context, rule, status, table, &mut rules),
        None => forwarded(context, files, rule, paths, table),
    };
    if let Err(reason) = written {
        let message = format!("not carried over: {reason}; the requests get 503");
        context.source.note(&rule.at, &rule.directive, message);
        for name in ["origin", "balance", "redirect", "origin_strip_prefix", "origin_add_prefix"] {
            table.remove(name);
        }
        table.text("respond", NOT_CARRIED);
    }
    if !rules.is_empty() {
        table.texts("rules", &rules);
    }
}

/// Answers all requests of a route with 403.
pub(super) fn forbid(table: &mut TomlTable) {
    table.comment(
        "Traffic Server refuses these requests, or may refuse them by a rule that is not carried \
         over.",
    );
    for name in ["allow_from", "deny_from"] {
        table.remove(name);
    }
    table.text("respond", "403");
}

fn redirect(
    context: &RouteContext<'_>,
    rule: &MappingRule,
    status: u16,
    table: &mut TomlTable,
    rules: &mut Vec<String>,
) -> Result<(), String> {
    let change = PathChange::of(rule);
    if !is_route_path(&change.to) {
        return Err("the path of the target is unusual".to_owned());
    }
    let base = rule.to.base();
    let is_same = rule.has_same_path();
    if is_same || change.from.is_empty() {
        let added = if is_same { "" } else { change.to.trim_end_matches('/') };
        let slash = if added.is_empty() { "" } else { "/" };
        table.text("redirect", &format!("{status} {base}{slash}{added}$uri"));
        return Ok(());
    }
    // The path below the prefix is not a part that `redirect` knows.
    let from = escaped(rule.from.path.trim_end_matches('/')).replace('/', "\\/");
    let separator = match (rule.from.path.ends_with('/'), change.from.ends_with('/')) {
        (true, _) => "\\/",
        (false, true) => "\\/?",
        (false, false) => "",
    };
    let to = &change.to;
    let text = format!(
        "cond %{{REMAP_PSEUDO_HOOK}}\ncond %{{CLIENT-URL:PATH}} /^{from}{separator}(.*)$/\n\
         set-redirect {status} \"{base}/{to}%{{LAST-CAPTURE:1}}\" [QSA,L]\n"
    );
    rules.push(context.source.rules("redirect", text));
    table.text("respond", "404");
    Ok(())
}

fn forwarded(
    context: &RouteContext<'_>,
    files: &mut ConfigFiles,
    rule: &MappingRule,
    paths: &PathsOfRoute,
    table: &mut TomlTable,
) -> Result<(), String> {
    let source = context.source;
    if rule.to.has_query {
        return Err("the target has a query".to_owned());
    }
    let found = origins(source, &context.parents, rule.strategy.as_deref(), &rule.to)?;
    found.write(table);
    path_change(context, rule, paths, table)?;
    let records = plugins::records_of(source, files, rule, context.records);
    let own = of_route(&records);
    for (name, value) in differences(&context.server, &own) {
        if name != "cache" || !table.has("cache") {
            table.raw(&name, value);
        }
    }
    if found.are_parents && own.value("origin_host") == Some("\"origin\"") {
        let base = rule.to.base();
        let authority = base.split_once("://").map_or("", |(_, authority)| authority);
        table.text("origin_host", authority);
    }
    if rule.to.scheme == "https" {
        let message = "the origin's certificate is verified now; see origin_ca and \
                       origin_tls_name (docs/tls.md)";
        source.note(&rule.at, &rule.directive, message);
    }
    Ok(())
}

/// Writes the change of the path.
fn path_change(
    context: &RouteContext<'_>,
    rule: &MappingRule,
    paths: &PathsOfRoute,
    table: &mut TomlTable,
) -> Result<(), String> {
    let change = PathChange::of(rule);
    let is_regex = matches!(paths, PathsOfRoute::Regex);
    if rule.has_same_path() || change.from == change.to && !is_regex {
        return Ok(());
    }
    if !is_route_path(&change.to) {
        return Err("the path of the target is unusual".to_owned());
    }
    let is_joined =
        change.from.ends_with('/') && !change.to.is_empty() && !change.to.ends_with('/');
    if is_joined {
        return Err("the target needs a slash at its end, as the rule has one".to_owned());
    }
    let added = match paths {
        PathsOfRoute::Regex if !change.from.is_empty() => {
            let from = &rule.from.path;
            return Err(format!(
                "a route replaces whole segments, so that of /{from} does not have /{from}x"
            ));
        }
        PathsOfRoute::Below(path) => {
            let rest = path.strip_prefix(&change.from).unwrap_or_default();
            format!("{}{rest}", change.to)
        }
        _ => change.to.clone(),
    };
    if !change.from.is_empty() || matches!(paths, PathsOfRoute::Below(_)) {
        table.raw("origin_strip_prefix", "true");
    }
    let added = added.trim_end_matches('/');
    if !added.is_empty() {
        table.text("origin_add_prefix", &format!("/{added}"));
    }
    let RuleUrl { path: from, .. } = &rule.from;
    let RuleUrl { path: to, .. } = &rule.to;
    let differs = match (from.is_empty(), from.ends_with('/')) {
        (true, _) => !to.ends_with('/'),
        (false, false) => to.ends_with('/'),
        _ => false,
    };
    if differs && matches!(paths, PathsOfRoute::Prefix) {
        let sent = if from.is_empty() { format!("/{added}/") } else { format!("/{added}") };
        let message = format!("differs: the origin gets {sent} for /{from}");
        context.source.note(&rule.at, &rule.directive, message);
    }
    Ok(())
}
