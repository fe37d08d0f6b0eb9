//! `cache.config`: whether responses are stored, by the host and the path of the target.

use std::net::IpAddr;

use super::host::may_match;
use super::lines::ConfigLine;
use super::settings::seconds;
use super::source::{SourceLine, TsSource};
use super::url::{RuleUrl, escaped};
use crate::toml::TomlTable;

/// A rule of `cache.config`.
pub(super) struct CacheRule {
    pub(super) at: SourceLine,
    destination: Destination,
    pub(super) prefix: Option<String>,
    pub(super) suffix: Option<String>,
    pub(super) action: CacheAction,
}

enum Destination {
    /// A name and all names below it.
    Domain(String),
    Host(String),
    Address(String),
    Url(String),
    /// An expression for the host.
    Hosts(String),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CacheAction {
    Never,
    /// Seconds for which responses are fresh.
    Lifetime(i64),
    IgnoreClient,
}

/// The paths of a target to which a rule applies.
#[derive(Clone)]
pub(super) enum CacheScope {
    No,
    All,
    /// A beginning of the path, without the first slash.
    Prefix(String),
    /// An expression for the path.
    Regex(String),
    /// Some paths, but it is not known which.
    Unknown,
}

/// Reads the rules; those that are not carried over are noted.
pub(super) fn rules(source: &TsSource, lines: &[ConfigLine]) -> Vec<CacheRule> {
    lines.iter().filter_map(|line| rule(source, line)).collect()
}

fn rule(source: &TsSource, line: &ConfigLine) -> Option<CacheRule> {
    let note = |message: &str| source.note(&line.at, "cache.config", message);
    let destination = line.pairs().find_map(|(name, value)| {
        let lower = value.to_ascii_lowercase();
        match name {
            "dest_domain" => Some(Destination::Domain(lower.trim_start_matches('.').to_owned())),
            "dest_host" => Some(Destination::Host(lower)),
            "dest_ip" => Some(Destination::Address(lower)),
            "url_regex" => Some(Destination::Url(value.to_owned())),
            "host_regex" => Some(Destination::Hosts(value.to_owned())),
            _ => None,
        }
    });
    let action = match (line.value("action"), line.value("ttl-in-cache")) {
        (Some("never-cache"), _) => Some(CacheAction::Never),
        (Some("ignore-client-no-cache"), _) => Some(CacheAction::IgnoreClient),
        (None, Some(time)) => duration(time).map(CacheAction::Lifetime),
        _ => None,
    };
    let Some((destination, action)) = destination.zip(action) else {
        note(
            "left out: only never-cache, ignore-client-no-cache and ttl-in-cache are carried over",
        );
        return None;
    };
    let known =
        ["dest_domain", "dest_host", "url_regex", "action", "ttl-in-cache", "prefix", "suffix"];
    let is_narrow = line.pairs().any(|(name, _)| !known.contains(&name));
    match (is_narrow, action) {
        (true, CacheAction::Never) => note(
            "differs: nothing of these paths is stored, whatever the method, the time, the port or \
             the client",
        ),
        (true, _) => {
            note("left out: it depends on more than the host and the path");
            return None;
        }
        (false, CacheAction::Lifetime(_)) => note(
            "differs: responses that the origin forbids to store are not stored; see \
             override_freshness_s",
        ),
        _ => {}
    }
    let text = |name: &str| line.value(name).map(|text| text.trim_start_matches('/').to_owned());
    let (prefix, suffix) = (text("prefix"), line.value("suffix").map(str::to_owned));
    Some(CacheRule { at: line.at.clone(), destination, prefix, suffix, action })
}

/// A time such as `1d12h`, in seconds.
fn duration(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut total, mut digits) = (0_i64, String::new());
    for c in text.chars() {
        let unit = match c {
            c if c.is_ascii_digit() => {
                digits.push(c);
                continue;
            }
            'w' => 604_800,
            'd' => 86_400,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        let count: i64 = std::mem::take(&mut digits).parse().ok()?;
        total = total.checked_add(count.checked_mul(unit)?)?;
    }
    digits.is_empty().then_some(total)
}

impl CacheRule {
    /// The paths of a target to which the rule applies.
    pub(super) fn scope(&self, target: &RuleUrl) -> CacheScope {
        let host = target.host.as_str();
        let mut scope = match &self.destination {
            Destination::Host(name) if name == host => CacheScope::All,
            Destination::Domain(zone)
                if zone.is_empty()
                    || host == zone
                    || host.strip_suffix(zone).is_some_and(|rest| rest.ends_with('.')) =>
            {
                CacheScope::All
            }
            Destination::Url(regex) => {
                let is_never = self.action == CacheAction::Never;
                match of_regex(regex, target) {
                    // The expression is also compared with the query.
                    CacheScope::Regex(path) if is_never && !is_literal(&path) => {
                        CacheScope::Unknown
                    }
                    scope => scope,
                }
            }
            Destination::Address(address) if address == host => CacheScope::All,
            Destination::Address(address) => {
                let is_apart =
                    [address.as_str(), host].iter().all(|one| one.parse::<IpAddr>().is_ok());
                if is_apart { CacheScope::No } else { CacheScope::Unknown }
            }
            Destination::Hosts(regex) if !may_match(regex, host) => return CacheScope::No,
            Destination::Hosts(_) => CacheScope::Unknown,
            _ => return CacheScope::No,
        };
        if matches!(scope, CacheScope::No) || self.prefix.is_none() && self.suffix.is_none() {
            return scope;
        }
        if !matches!(scope, CacheScope::All) {
            return CacheScope::Unknown;
        }
        if let Some(suffix) = &self.suffix {
            let prefix = self.prefix.as_deref().unwrap_or_default();
            scope = CacheScope::Regex(format!("^/{}.*{}$", escaped(prefix), escaped(suffix)));
        } else if let Some(prefix) = self.prefix.as_ref().filter(|prefix| !prefix.is_empty()) {
            scope = CacheScope::Prefix(prefix.clone());
        }
        scope
    }

    /// Writes the action into a route.
    pub(super) fn write(&self, table: &mut TomlTable) {
        match self.action {
            CacheAction::Never => table.raw("cache", "false"),
            CacheAction::Lifetime(lifetime) if !table.has("override_freshness_s") => {
                table.text("override_freshness_s", &seconds(lifetime));
            }
            CacheAction::Lifetime(_) => {}
            CacheAction::IgnoreClient => table.raw("ignore_client_no_cache", "true"),
        }
    }
}

/// Switches the cache off in the route of a rule if another one may forbid to store responses of
/// its paths. Returns whether there is such a rule.
pub(super) fn restrict(
    rules: &[CacheRule],
    target: &RuleUrl,
    own: &CacheScope,
    table: &mut TomlTable,
) -> bool {
    let mut is_restricted = false;
    for rule in rules.iter().filter(|rule| rule.action == CacheAction::Never) {
        let may_overlap = match (rule.scope(target), own) {
            (CacheScope::No, _) => false,
            (CacheScope::Prefix(other), CacheScope::Prefix(own)) => own.starts_with(&other),
            _ => true,
        };
        if may_overlap {
            rule.write(table);
            is_restricted = true;
        }
    }
    is_restricted
}

/// The paths of an expression for the URL of a target.
fn of_regex(regex: &str, target: &RuleUrl) -> CacheScope {
    let text = regex.strip_prefix('^').unwrap_or(regex);
    if matches!(text, ".*" | ".*$" | ".") {
        return CacheScope::All;
    }
    let Some((_, rest)) = text.split_once("://") else {
        let is_end = text.starts_with("\\.") || text.starts_with(".*\\.");
        let is_of_end = is_end && text.ends_with('$') && regex == text && !text.contains('?');
        return if is_of_end { CacheScope::Regex(text.to_owned()) } else { CacheScope::Unknown };
    };
    let Some((host, path)) = rest.split_once('/').filter(|(host, _)| !host.contains(".*")) else {
        // The expression may end in the middle of a host.
        return match rest {
            "" | ".*" => CacheScope::All,
            _ => CacheScope::Unknown,
        };
    };
    let host = host.replace('\\', "");
    let own = target.base();
    let own = own.split_once("://").map_or("", |(_, authority)| authority);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
    if !host.chars().all(is_plain) || path.contains('?') {
        return CacheScope::Unknown;
    }
    match host.is_empty() || host == target.host || host == own {
        true if matches!(path, "" | ".*" | ".*$") => CacheScope::All,
        true => CacheScope::Regex(format!("^/{path}")),
        false => CacheScope::No,
    }
}

/// Whether an expression for paths is a beginning, or an end such as `\.php$`.
fn is_literal(regex: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-".contains(c);
    let bare = regex.replace("\\.", "").replace("\\-", "-");
    let bare = bare.strip_suffix(".*").unwrap_or(&bare);
    match bare.strip_prefix('^') {
        Some(rest) => rest.chars().all(is_plain),
        None => bare.chars().all(|c| is_plain(c) || "()|?$".contains(c)),
    }
}
