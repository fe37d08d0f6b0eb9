//! `parent.config` and `strategies.yaml`: other servers in place of the target of a rule.

use super::lines::ConfigLine;
use super::source::{SourceLine, TsSource};
use super::url::RuleUrl;
use super::yaml::YamlNode;
use crate::toml::{TomlTable, quote};

/// Origins that a route may have.
const ORIGINS_MAX: usize = 16;

/// Servers that get the requests for some targets.
#[derive(Debug)]
pub(super) struct ParentRule {
    at: SourceLine,
    /// The name of a strategy.
    name: Option<String>,
    /// A target and those below it; empty stands for all.
    domain: String,
    /// Only this target.
    host: Option<String>,
    parents: Vec<ParentServer>,
    balance: ParentBalance,
    goes_direct: bool,
    is_proxy: bool,
}

#[derive(Clone, Debug)]
struct ParentServer {
    authority: String,
    /// The port by the scheme of the target, if the authority has none.
    plain_port: Option<u16>,
    tls_port: Option<u16>,
    weight: f64,
    is_backup: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ParentBalance {
    RoundRobin,
    Hash,
    /// The first that works.
    First,
}

/// Reads the lines of `parent.config`.
pub(super) fn of_lines(source: &TsSource, lines: &[ConfigLine]) -> Vec<ParentRule> {
    let mut rules = Vec::new();
    for line in lines {
        let domain = line.value("dest_domain").map(|text| text.trim_start_matches('.'));
        let host = line.value("dest_host").map(str::to_ascii_lowercase);
        let is_all = line.value("url_regex") == Some(".*");
        if domain.is_none() && host.is_none() && !is_all {
            source.note(
                &line.at,
                "parent.config",
                "left out: write origin into the route \
                (docs/origins.md); only dest_domain and dest_host are carried over",
            );
            continue;
        }
        let list = |name: &str, is_backup| {
            let text = line.value(name).unwrap_or_default();
            let all = text.split([';', ',']).map(str::trim).filter(|text| !text.is_empty());
            all.map(|text| ParentServer::new(text, is_backup)).collect::<Vec<_>>()
        };
        let mut parents = list("parent", false);
        parents.extend(list("secondary_parent", true));
        let is_true = |name: &str| line.value(name).is_some_and(|value| value == "true");
        let goes_direct = line.value("go_direct").is_none_or(|value| value == "true");
        if parents.is_empty() {
            if !is_true("go_direct") {
                source.note(&line.at, "parent.config", "left out: it names no parent");
            }
            continue;
        }
        rules.push(ParentRule {
            at: line.at.clone(),
            name: None,
            domain: domain.unwrap_or_default().to_ascii_lowercase(),
            host,
            parents,
            balance: balance(line.value("round_robin").unwrap_or("false")),
            goes_direct,
            is_proxy: line.value("parent_is_proxy").is_none_or(|value| value == "true"),
        });
    }
    rules
}

fn balance(text: &str) -> ParentBalance {
    match text {
        "consistent_hash" => ParentBalance::Hash,
        "true" | "strict" | "rr_ip" | "rr_strict" => ParentBalance::RoundRobin,
        _ => ParentBalance::First,
    }
}

/// Reads the strategies of `strategies.yaml`, which rules name.
pub(super) fn of_yaml(source: &TsSource, root: &YamlNode) -> Vec<ParentRule> {
    let list = root.get("strategies").map(YamlNode::list).unwrap_or_default();
    let mut rules = Vec::new();
    for node in list {
        let groups = node.get("groups").map(YamlNode::list).unwrap_or_default();
        let mut parents = Vec::new();
        for (level, group) in groups.iter().enumerate() {
            parents.extend(group.list().iter().map(|host| ParentServer::of_yaml(host, level > 0)));
        }
        if parents.is_empty() {
            source.note(&node.at, "strategy", "left out: it has no hosts");
            continue;
        }
        let is_false = |name: &str| node.text_of(name).is_some_and(|text| text == "false");
        rules.push(ParentRule {
            at: node.at.clone(),
            name: Some(node.text_of("strategy").unwrap_or_default().to_owned()),
            domain: String::new(),
            host: None,
            parents,
            balance: balance(node.text_of("policy").unwrap_or("consistent_hash")),
            goes_direct: !is_false("go_direct"),
            is_proxy: !is_false("parent_is_proxy"),
        });
    }
    rules
}

impl ParentServer {
    /// Reads `HOST:PORT|WEIGHT&NAME`.
    fn new(text: &str, is_backup: bool) -> ParentServer {
        let text = text.split('&').next().unwrap_or_default();
        let (authority, weight) = text.split_once('|').unwrap_or((text, "1"));
        ParentServer {
            authority: authority.to_owned(),
            plain_port: None,
            tls_port: None,
            weight: weight.parse().unwrap_or(1.0),
            is_backup,
        }
    }

    fn of_yaml(node: &YamlNode, is_backup: bool) -> ParentServer {
        let protocols = node.get("protocol").map(YamlNode::list).unwrap_or_default();
        let port = |scheme: &str| {
            let of_scheme = |one: &&YamlNode| one.text_of("scheme") == Some(scheme);
            protocols.iter().find(of_scheme)?.text_of("port")?.parse().ok()
        };
        ParentServer {
            authority: node.text_of("host").unwrap_or_default().to_owned(),
            plain_port: port("http"),
            tls_port: port("https"),
            weight: node.text_of("weight").and_then(|text| text.parse().ok()).unwrap_or(1.0),
            is_backup,
        }
    }

    fn url(&self, is_tls: bool) -> Option<String> {
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if self.authority.is_empty() || !self.authority.chars().all(is_host) {
            return None;
        }
        let (scheme, port) =
            if is_tls { ("https", self.tls_port) } else { ("http", self.plain_port) };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{scheme}://{}{port}", self.authority))
    }
}

/// The origins of a target.
pub(super) struct RuleOrigins {
    urls: Vec<(String, u32, bool)>,
    balance: Option<&'static str>,
    /// Whether they are not the target itself.
    pub(super) are_parents: bool,
}

/// The origins of a target: its parents, or else the target itself.
pub(super) fn origins(
    source: &TsSource,
    parents: &[ParentRule],
    strategy: Option<&str>,
    target: &RuleUrl,
) -> Result<RuleOrigins, String> {
    let found = parents.iter().find(|rule| match (strategy, &rule.name) {
        (Some(wanted), name) => name.as_deref() == Some(wanted),
        (None, Some(_)) => false,
        (None, None) => {
            let is_below = |rest: &str| rest.is_empty() || rest.ends_with('.');
            rule.host.as_ref().is_none_or(|host| *host == target.host)
                && (rule.domain.is_empty()
                    || target.host.strip_suffix(&rule.domain).is_some_and(is_below))
        }
    });
    match (found, strategy) {
        (Some(rule), _) => rule.origins(source, target),
        (None, Some(name)) => Err(format!("no strategy has the name {name}")),
        (None, None) => {
            let urls = vec![(target.base(), 1, false)];
            Ok(RuleOrigins { urls, balance: None, are_parents: false })
        }
    }
}

impl ParentRule {
    fn origins(&self, source: &TsSource, target: &RuleUrl) -> Result<RuleOrigins, String> {
        let is_tls = target.scheme == "https";
        let is_first = self.balance == ParentBalance::First;
        let is_fine = self.parents.iter().any(|one| one.weight.fract() != 0.0);
        let mut urls = Vec::new();
        for (index, parent) in self.parents.iter().enumerate() {
            let url = parent.url(is_tls).ok_or("a parent has no valid host")?;
            let is_backup = parent.is_backup || is_first && index > 0;
            urls.push((url, weight(parent.weight, is_fine), is_backup));
        }
        if self.goes_direct {
            urls.push((target.base(), 1, true));
        }
        if urls.len() > ORIGINS_MAX {
            return Err(format!("there are more than {ORIGINS_MAX} parents"));
        }
        let directive = if self.name.is_some() { "strategy" } else { "parent.config" };
        if urls.iter().filter(|(.., is_backup)| *is_backup).count() > 1 {
            let message = "differs: all backups share the requests, and the order of them is not \
                           kept";
            source.note(&self.at, directive, message);
        }
        if self.is_proxy {
            let message = "differs: requests to a parent have the form of those to an origin; a \
                           parent that is a forward proxy does not accept them";
            source.note(&self.at, directive, message);
        }
        let balance = (self.balance == ParentBalance::Hash).then_some("hash");
        Ok(RuleOrigins { urls, balance, are_parents: true })
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn weight(weight: f64, is_fine: bool) -> u32 {
    let factor = if is_fine { 100.0 } else { 1.0 };
    (weight * factor).clamp(1.0, 1000.0) as u32
}

impl RuleOrigins {
    /// Writes the origins: as a URL, a list of URLs, or a list of tables.
    pub(super) fn write(&self, table: &mut TomlTable) {
        if let Some(balance) = self.balance {
            table.text("balance", balance);
        }
        if self.urls.iter().all(|(_, weight, is_backup)| *weight == 1 && !is_backup) {
            let urls: Vec<_> = self.urls.iter().map(|(url, ..)| url).collect();
            match urls.as_slice() {
                [one] => table.text("origin", one),
                all => table.texts("origin", all),
            }
            return;
        }
        let tables = self.urls.iter().map(|(url, weight, is_backup)| {
            let url = quote(url);
            let weight = (*weight != 1).then(|| format!(", weight = {weight}"));
            let backup = if *is_backup { ", backup = true" } else { "" };
            format!("    {{ url = {url}{}{backup} }},\n", weight.unwrap_or_default())
        });
        table.raw("origin", format!("[\n{}]", tables.collect::<String>()));
    }
}
