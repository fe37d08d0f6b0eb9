//! Plugins of rules, and those of `plugin.config`.

use super::files::ConfigFiles;
use super::lines::ConfigLine;
use super::mapping::{MappingRule, RulePlugin};
use super::records::RecordValues;
use super::source::{SourceLine, TsSource};
use crate::toml::TomlTable;

/// Plugins without which requests and responses mean the same, and the counterpart.
const OPTIONAL: &[(&str, &str)] = &[
    ("background_fetch", ""),
    ("cache_promote", "a response is stored at its first request"),
    ("cache_range_requests", ""),
    ("collapsed_forwarding", ""),
    ("compress", "see compress (docs/compression.md)"),
    ("gzip", "see compress (docs/compression.md)"),
    ("healthchecks", "see respond for a path (docs/redirects.md)"),
    ("logstats", ""),
    ("prefetch", "pages are not requested in advance"),
    ("regex_revalidate", "see forebay purge (docs/purging.md)"),
    ("remap_stats", "see docs/metrics.md"),
    ("slice", ""),
    ("stale_response", "see stale_while_revalidate_s and stale_if_error_s (docs/stale.md)"),
    ("stats_over_http", "see docs/metrics.md"),
    ("system_stats", "see docs/metrics.md"),
    ("xdebug", "see forebay explain"),
];

/// The answer to requests of a rule whose plugins cannot be carried over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PluginOutcome {
    Served,
    Closed,
    Unavailable,
}

/// Writes the plugins of a rule.
pub(super) fn of_rule(
    source: &TsSource,
    files: &mut ConfigFiles,
    rule: &MappingRule,
    table: &mut TomlTable,
    rules: &mut Vec<String>,
) -> PluginOutcome {
    let mut outcome = PluginOutcome::Served;
    for plugin in &rule.plugins {
        let name = name(&plugin.name);
        match name {
            "header_rewrite" => {
                let paths = plugin.params.iter().map(String::as_str);
                if !header_rewrite(source, files, &rule.at, paths, rules) {
                    return PluginOutcome::Closed;
                }
            }
            "cachekey" => cache_key(source, &rule.at, plugin, table),
            "conf_remap" => {}
            "regex_remap" | "cookie_remap" | "header_freq" | "escalate" | "origin_server_auth"
            | "s3_auth" | "statichit" | "combo_handler" | "url_remap" => {
                source.note(
                    &rule.at,
                    name,
                    "not carried over: the plugin chooses or changes \
                    requests; the requests of the rule get 503",
                );
                outcome = PluginOutcome::Unavailable;
            }
            _ if !note_optional(source, &rule.at, name)
                && source.refuse(&rule.at, name, "the plugin may refuse requests") =>
            {
                return PluginOutcome::Closed;
            }
            _ => {}
        }
    }
    outcome
}

/// Writes the plugins of the server. Returns whether all requests must be refused.
pub(super) fn of_server(
    source: &TsSource,
    files: &mut ConfigFiles,
    lines: &[ConfigLine],
    rules: &mut Vec<String>,
) -> bool {
    let mut is_closed = false;
    for line in lines {
        let name = name(line.word(0));
        let params = line.words.iter().skip(1).map(String::as_str);
        match name {
            "header_rewrite" => {
                is_closed |= !header_rewrite(source, files, &line.at, params, rules);
            }
            _ if note_optional(source, &line.at, name) => {}
            _ => is_closed |= source.refuse(&line.at, name, "the plugin may refuse requests"),
        }
    }
    is_closed
}

fn name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.strip_suffix(".so").unwrap_or(file)
}

/// Whether a plugin is one that can be left out, which is noted if it matters.
fn note_optional(source: &TsSource, at: &SourceLine, name: &str) -> bool {
    let Some((_, advice)) = OPTIONAL.iter().find(|(known, _)| *known == name) else {
        return false;
    };
    if !advice.is_empty() {
        source.note(at, name, format!("left out: {advice}"));
    }
    true
}

/// Names the rule files, whose language Forebay reads. Returns `false` if the requests must be
/// refused, because a file is missing.
fn header_rewrite<'p>(
    source: &TsSource,
    files: &mut ConfigFiles,
    at: &SourceLine,
    params: impl Iterator<Item = &'p str>,
    rules: &mut Vec<String>,
) -> bool {
    for param in params {
        if param.starts_with('-') {
            source.note(at, "header_rewrite", format!("the option {param} is left out"));
            continue;
        }
        let path = source.path(param);
        let Some(text) = files.text(&path) else {
            let message = format!("{path} cannot be read, and its rules may refuse requests");
            if source.refuse(at, "header_rewrite", &message) {
                return false;
            }
            continue;
        };
        let changes = |line: &str| line.trim_start().contains("-destination");
        if let Some(line) = text.lines().find(|line| changes(line)) {
            let message = format!(
                "differs: the URL of {path} is that of the client, not that of the origin: check \
                 `{}` (docs/rules.md)",
                line.trim()
            );
            source.note(at, "header_rewrite", message);
        }
        rules.push(path);
    }
    true
}

/// Writes the parts of the key. Without a counterpart, a finer key is safe, and a coarser one is
/// not, so responses are not stored.
fn cache_key(source: &TsSource, at: &SourceLine, plugin: &RulePlugin, table: &mut TomlTable) {
    let note = |message: String| source.note(at, "cachekey", message);
    let mut is_query = false;
    for param in &plugin.params {
        let (name, value) = param.trim_start_matches('-').split_once('=').unwrap_or((param, ""));
        let name = name.trim_start_matches('-');
        let list: Vec<_> = value.split(',').filter(|name| !name.is_empty()).collect();
        let is_on = matches!(value, "" | "true" | "1" | "yes");
        match name {
            "sort-params" if is_on => table.raw("sort_query", "true"),
            "remove-all-params" if is_on => table.raw("keep_query", "[]"),
            "include-params" => table.texts("keep_query", &list),
            "exclude-params" => table.texts("drop_query", &list),
            "include-headers" => table.texts("key_fields", &list),
            "include-cookies" => table.texts("key_cookies", &list),
            "sort-params" | "remove-all-params" => {}
            "static-prefix"
            | "capture-prefix"
            | "capture-prefix-uri"
            | "remove-prefix"
            | "remove-path"
            | "capture-path"
            | "capture-path-uri"
            | "include-match-params"
            | "exclude-match-params"
            | "separator"
            | "canonical-prefix"
            | "uri-type"
            | "key-type" => {
                note(format!("{param} is left out: more requests have keys of their own"));
            }
            _ => {
                note(format!("{param} is not carried over, so responses are not stored"));
                table.raw("cache", "false");
            }
        }
        is_query |= matches!(name, "remove-all-params" | "include-params" | "exclude-params");
    }
    if is_query {
        note("differs: the origin does not get the removed parameters either".to_owned());
    }
}

/// The records of a rule: those of the server, with the changes by `conf_remap`.
pub(super) fn records_of(
    source: &TsSource,
    files: &mut ConfigFiles,
    rule: &MappingRule,
    records: &RecordValues,
) -> RecordValues {
    let mut own = records.clone();
    for plugin in rule.plugins.iter().filter(|plugin| name(&plugin.name) == "conf_remap") {
        for param in &plugin.params {
            if let Some((name, value)) = param.split_once('=') {
                own.set(name, value, &rule.at);
                continue;
            }
            let path = source.path(param);
            let lines = files.included(std::path::Path::new(&path), &rule.at);
            let read = lines.and_then(|all| all.iter().try_for_each(|lines| own.read(lines)));
            if let Err(error) = read {
                source.note(&rule.at, "conf_remap", format!("left out: {error}"));
            }
        }
    }
    own
}
