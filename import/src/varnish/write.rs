//! The configuration: sites, routes and files of rules.

use super::deliver::key_fields;
use super::origins::{VclOrigins, usual_timeouts};
use super::outcome::{
    Cond, Cookies, FieldChange, RecvAction, RecvOutcome, RequestRule, RuleAction, SynthAnswer,
};
use super::plan::LIFETIME_FIELD;
use super::regex;
use super::routes::{self, Treatment, VclSite};
use super::rulefile;
use super::source::{HostName, VclSource};
use super::syntax::Statement;
use crate::ImportedRules;
use crate::rule_files::RuleFiles;
use crate::toml::{TomlTable, list};

/// Varnish's `default_grace` and `default_ttl`, in seconds.
const GRACE_S: u64 = 10;
const DEFAULT_LIFETIME_S: u64 = 120;
/// Statuses that Varnish stores.
const STORED: &[u16] = &[200, 203, 204, 300, 301, 404, 410, 414];
/// Longest lifetime of Forebay, in seconds.
const LIFETIME_S_MAX: u64 = 31_536_000;

/// The configuration, and the files beside it.
pub(super) struct TranslatedVcl {
    pub(super) toml: String,
    pub(super) rules: Vec<ImportedRules>,
}

struct VclWriter<'w> {
    origins: VclOrigins<'w>,
    /// Fields in the key; `None` if the key cannot be carried over.
    key_fields: Option<Vec<String>>,
    rules: RuleFiles,
}

/// Translates the VCL.
pub(super) fn write_all(
    source: &VclSource<'_>,
    builtin: &[Statement],
    stem: Option<&str>,
) -> TranslatedVcl {
    let origins = VclOrigins::new(source);
    let key_fields = key_fields(source).ok();
    let mut writer = VclWriter { origins, key_fields, rules: RuleFiles::new(stem) };
    let mut sites: Vec<VclSite> = Vec::new();
    for host in &source.hosts {
        let site = routes::site(source, host, builtin);
        match sites.iter_mut().find(|known| known.is_same(&site)) {
            Some(known) => known.names.push(host.clone()),
            None => sites.push(site),
        }
    }
    let mut out = String::new();
    let mut top = TomlTable::default();
    top.comment("Translated from a VCL of Varnish by `forebay import varnish`.");
    top.comment("Check it: forebay check FILE; compare its access rules with Varnish's.");
    top.comment("Varnish's address is not in its VCL (varnishd -a): set it here.");
    top.text("listen", "0.0.0.0:6081");
    top.raw("heuristic_percent", "0");
    top.text("stale_while_revalidate_s", &format!("{GRACE_S}s"));
    top.text("stale_if_unreachable_s", &format!("{GRACE_S}s"));
    top.texts("status_freshness", &statuses(DEFAULT_LIFETIME_S));
    let uses_field = sites.iter().any(|site| {
        let each = site.routes.iter().map(|route| &route.treatment);
        each.chain([&site.treatment])
            .any(|one| one.outcome.action == RecvAction::Hash && one.plan.has_lifetime_rules())
    });
    let fields: &[&str] = if uses_field { &[LIFETIME_FIELD] } else { &[] };
    top.texts("targeted_cache_control", fields);
    top.text("set_cookie", "refuse");
    top.raw("ignore_client_no_cache", "true");
    usual_timeouts(&mut top);
    top.write(&mut out, "");
    for site in &sites {
        writer.site(site, &mut out);
    }
    TranslatedVcl { toml: out, rules: writer.rules.into_files() }
}

fn statuses(ttl: u64) -> Vec<String> {
    STORED.iter().map(|status| format!("{status}={ttl}s")).collect()
}

impl VclWriter<'_> {
    fn site(&mut self, site: &VclSite, out: &mut String) {
        let names: Vec<_> = site.names.iter().map(HostName::name).collect();
        let first = names.first().map_or("default", String::as_str);
        let mut table = TomlTable::default();
        let name = if first == "*" { "default" } else { first };
        table.text("name", name.trim_start_matches("*."));
        table.texts("names", &names);
        let usual = site.treatment.outcome.state.backend.clone();
        let usual = usual.or_else(|| self.origins.default_name());
        let has_origin = usual.as_deref().is_some_and(|name| self.origins.write(name, &mut table));
        if let Some(list) = &site.purge_from {
            table.texts("purge_from", list);
        }
        let has_purge = site.purge_from.is_some();
        if !has_origin {
            table.text("respond", "503");
        }
        if site.routes.is_empty() {
            self.fill(&site.treatment, &mut table, (has_purge, usual.as_deref()));
            if table.has("respond") || table.has("redirect") {
                table.remove("origin");
            }
            out.push('\n');
            table.write(out, "[[site]]");
            return;
        }
        out.push('\n');
        table.write(out, "[[site]]");
        for route in &site.routes {
            let mut table = TomlTable::default();
            let regex = &route.path.regex;
            match regex.contains('\'') {
                true => table.text("path_regex", regex),
                false => table.raw("path_regex", format!("'{regex}'")),
            }
            self.fill(&route.treatment, &mut table, (has_purge, usual.as_deref()));
            out.push('\n');
            table.write(out, "[[site.route]]");
        }
        let mut table = TomlTable::default();
        table.text("path_prefix", "/");
        self.fill(&site.treatment, &mut table, (has_purge, usual.as_deref()));
        out.push('\n');
        table.write(out, "[[site.route]]");
    }

    fn fill(
        &mut self,
        treatment: &Treatment,
        table: &mut TomlTable,
        (has_purge, usual): (bool, Option<&str>),
    ) {
        let Treatment { outcome, plan, field_rules } = treatment;
        let mut rules = String::new();
        let mut lists = SettingLists::default();
        for rule in &in_order(outcome) {
            let is_passed = outcome.action != RecvAction::Hash && rule.action == RuleAction::Bypass;
            if !is_passed && !lists.take(rule) {
                match rulefile::request_rule(rule, has_purge) {
                    Some(text) => rules.push_str(&text),
                    // Conditions of this kind are joined before.
                    None => table.text("respond", "403"),
                }
            }
        }
        lists.write(table);
        if let RecvAction::Answer(answer) = &outcome.action {
            answered(answer, table);
        } else {
            self.forwarded(treatment, table, usual);
        }
        // `vcl_deliver` does not see answers of `vcl_synth`.
        if !matches!(outcome.action, RecvAction::Answer(_)) {
            rules.push_str(&rulefile::request_changes(&outcome.state.fields));
            rules.push_str(&plan.rule_text(outcome.action == RecvAction::Hash));
            rules.push_str(field_rules);
        }
        if !rules.is_empty() {
            let text = format!("# Translated from a VCL by `forebay import varnish`.\n{rules}");
            match self.rules.name_of(format!("{}\n", text.trim_end())) {
                Some(name) => table.texts("rules", &[name]),
                // Without its rules, the route might serve more than it should.
                None => table.text("respond", "403"),
            }
        }
    }

    /// The settings of requests that the cache or an origin answers.
    fn forwarded(&self, treatment: &Treatment, table: &mut TomlTable, usual: Option<&str>) {
        let Treatment { outcome, plan, .. } = treatment;
        let state = &outcome.state;
        let backend = state.backend.clone().or_else(|| self.origins.default_name());
        if let Some(backend) = backend
            && Some(backend.as_str()) != usual
            && !self.origins.write(&backend, table)
        {
            table.text("respond", "503");
        }
        if let Some(host) = &state.host {
            table.text("origin_host", host);
        }
        if outcome.action == RecvAction::Pipe {
            table.texts("upgrade_protocols", &["websocket"]);
        }
        if outcome.action != RecvAction::Hash || plan.is_uncacheable || plan.lifetime == Some(0) {
            table.raw("cache", "false");
            return;
        }
        match &self.key_fields {
            None => {
                table.raw("cache", "false");
                return;
            }
            Some(fields) if !fields.is_empty() => table.texts("key_fields", fields),
            Some(_) => {}
        }
        match &state.cookies {
            Cookies::None => table.raw("keep_cookies", "[]"),
            Cookies::Only(names) => table.texts("keep_cookies", names),
            Cookies::All | Cookies::Fewer | Cookies::Other => {}
        }
        if state.sort_query {
            table.raw("sort_query", "true");
        }
        if !state.drop_query.is_empty() {
            let names: Vec<_> = state.drop_query.iter().cloned().collect();
            table.raw("drop_query", list(&names));
        }
        if let Some(ttl) = plan.lifetime {
            let ttl = ttl.min(LIFETIME_S_MAX);
            if !plan.has_lifetime_rules() {
                table.text("override_freshness_s", &format!("{ttl}s"));
            }
            table.texts("status_freshness", &statuses(ttl));
        }
        let grace = plan.grace.unwrap_or(GRACE_S).min(LIFETIME_S_MAX);
        let while_healthy = state.grace.unwrap_or(grace).min(grace);
        if while_healthy != GRACE_S {
            table.text("stale_while_revalidate_s", &format!("{while_healthy}s"));
        }
        if grace != GRACE_S {
            table.text("stale_if_unreachable_s", &format!("{grace}s"));
        }
        if plan.is_abandoned {
            table.text("stale_if_error_s", &format!("{grace}s"));
        }
        if plan.gzip {
            table.texts("compress", &["gzip"]);
            if !plan.types.is_empty() {
                table.texts("compress_types", &plan.types);
            }
        }
    }
}

/// The rules of requests. Conditions see the client's fields: changes come last, and a change that
/// would depend on another one removes the field.
fn in_order(outcome: &RecvOutcome) -> Vec<RequestRule> {
    let is_change = |rule: &RequestRule| matches!(rule.action, RuleAction::Change(_));
    let tidy = outcome.rules.iter().filter_map(tidied);
    let (changes, mut rules): (Vec<_>, Vec<_>) = tidy.partition(is_change);
    let mut removed = Vec::new();
    for (index, rule) in changes.iter().enumerate() {
        let RuleAction::Change(change) = &rule.action else { continue };
        let before = changes[..index].iter().filter_map(|rule| match &rule.action {
            RuleAction::Change(change) => Some(&change.name),
            _ => None,
        });
        let depends =
            before.into_iter().any(|name| rule.conds.iter().any(|(cond, _)| cond.is_about(name)));
        match depends {
            true => removed.push(change.name.clone()),
            false => rules.push(rule.clone()),
        }
    }
    for name in removed {
        rules.retain(
            |rule| !matches!(&rule.action, RuleAction::Change(change) if change.name == name),
        );
        let action = RuleAction::Change(FieldChange { name, value: None });
        rules.push(RequestRule { conds: Vec::new(), action });
    }
    rules
}

/// The rule without conditions that follow from its others; `None` if it never applies.
fn tidied(rule: &RequestRule) -> Option<RequestRule> {
    let mut conds: Vec<(Cond, bool)> = Vec::new();
    for (index, (cond, value)) in rule.conds.iter().enumerate() {
        let others = rule.conds.iter().enumerate().filter(|(other, _)| *other != index);
        let mut follows = others.filter_map(|(other, (known, is))| {
            // Of two equal conditions, the first one stays.
            (known != cond || other < index).then(|| cond.follows(known, *is)).flatten()
        });
        match follows.next() {
            Some(known) if known != *value => return None,
            Some(_) => {}
            None => conds.push((cond.clone(), *value)),
        }
    }
    let is_upgrade = |(cond, value): &(Cond, bool)| {
        *value && (cond.is_about("upgrade") || cond.is_about("connection"))
    };
    // A tunnel needs no condition about anything else: the origin decides.
    if rule.action == RuleAction::Pipe && conds.iter().any(is_upgrade) {
        conds.retain(is_upgrade);
        conds.truncate(1);
    }
    Some(RequestRule { conds, action: rule.action.clone() })
}

/// Settings that rules with one condition become.
#[derive(Default)]
struct SettingLists {
    allow: Vec<String>,
    deny: Vec<String>,
    fields: Vec<String>,
    cookies: Vec<String>,
    upgrades: bool,
}

impl SettingLists {
    /// Whether a setting has the effect of the rule.
    fn take(&mut self, rule: &RequestRule) -> bool {
        let [(cond, positive)] = rule.conds.as_slice() else { return false };
        match (&rule.action, cond, positive) {
            (RuleAction::Answer(answer), Cond::Client(list), true) if answer.location.is_none() => {
                self.deny.extend(list.iter().cloned());
            }
            (RuleAction::Answer(answer), Cond::Client(list), false)
                if answer.location.is_none() && self.allow.is_empty() =>
            {
                self.allow.clone_from(list);
            }
            (RuleAction::Bypass, Cond::Field(name), true) => self.fields.push(name.clone()),
            (RuleAction::Bypass, Cond::FieldMatches(name, pattern), true) if name == "cookie" => {
                let Some(names) = regex::cookie_names(pattern) else { return false };
                self.cookies.extend(names);
            }
            (RuleAction::Pipe, cond, true)
                if cond.is_about("upgrade") || cond.is_about("connection") =>
            {
                self.upgrades = true;
            }
            _ => return false,
        }
        true
    }

    fn write(mut self, table: &mut TomlTable) {
        for (name, values) in [
            ("allow_from", &mut self.allow),
            ("deny_from", &mut self.deny),
            ("bypass_fields", &mut self.fields),
            ("bypass_cookies", &mut self.cookies),
        ] {
            values.sort();
            values.dedup();
            if !values.is_empty() {
                table.texts(name, values);
            }
        }
        if self.upgrades {
            table.texts("upgrade_protocols", &["websocket"]);
        }
    }
}

fn answered(answer: &SynthAnswer, table: &mut TomlTable) {
    if let Some(location) = &answer.location {
        table.text("redirect", &format!("{} {location}", answer.status));
        return;
    }
    // `Allow` would have to name the methods.
    let status = if answer.status == 405 { 403 } else { answer.status };
    table.text("respond", format!("{status} {}", answer.body).trim_end());
    let media = answer.media.as_deref().filter(|media| media.contains('/'));
    if let (Some(media), false) = (media, answer.body.is_empty()) {
        table.text("respond_type", media);
    }
}
