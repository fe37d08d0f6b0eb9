//! `remap.config`.

use std::collections::BTreeMap;

use super::files::ConfigFiles;
use super::host::{RuleHosts, patterns};
use super::lines::ConfigLine;
use super::source::{SourceLine, TsSource};
use super::url::RuleUrl;
use crate::ImportError;

/// Deepest nesting of `.include`.
const INCLUDES_MAX: usize = 8;
/// Rules of all files together.
const RULES_MAX: usize = 10_000;

/// A rule of `map` or `redirect`, for one host.
#[derive(Clone, Debug)]
pub(super) struct MappingRule {
    pub(super) at: SourceLine,
    pub(super) directive: String,
    /// The status of a redirect; `None` if the request goes to an origin.
    pub(super) redirect: Option<u16>,
    /// Whether its port is the one at which the request arrives, not that of the host.
    pub(super) is_of_recv_port: bool,
    pub(super) hosts: RuleHosts,
    pub(super) from: RuleUrl,
    pub(super) to: RuleUrl,
    pub(super) filters: Vec<AclFilter>,
    pub(super) plugins: Vec<RulePlugin>,
    pub(super) strategy: Option<String>,
    pub(super) rank: usize,
}

/// Conditions on clients and methods.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct AclFilter {
    pub(super) allows: bool,
    pub(super) methods: Vec<String>,
    pub(super) addresses: Vec<String>,
    /// A part that is not translated.
    pub(super) unknown: Option<String>,
}

/// A plugin and its parameters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct RulePlugin {
    pub(super) name: String,
    pub(super) params: Vec<String>,
}

impl MappingRule {
    /// Whether each path stays as it is.
    pub(super) fn has_same_path(&self) -> bool {
        self.from.path == self.to.path
    }

    /// Whether two rules do the same with a request.
    pub(super) fn is_same(&self, other: &MappingRule) -> bool {
        self.redirect == other.redirect
            && self.from.path == other.from.path
            && self.to == other.to
            && self.filters == other.filters
            && self.plugins == other.plugins
            && self.strategy == other.strategy
    }
}

/// All rules, and the filters that are active while they are read.
#[derive(Default)]
pub(super) struct MappingTable {
    pub(super) rules: Vec<MappingRule>,
    /// The rules of `reverse_map`, and those that have none.
    pub(super) reverse: Vec<(SourceLine, RuleUrl, RuleUrl)>,
    /// The words of each filter. A second definition adds its own.
    filters: BTreeMap<String, Vec<String>>,
    active: Vec<String>,
    count: usize,
}

impl MappingTable {
    /// Reads the lines of a file, and those of the files that it includes.
    ///
    /// # Errors
    /// A line is malformed, or an included file cannot be read.
    pub(super) fn read(
        &mut self,
        source: &TsSource,
        files: &mut ConfigFiles,
        lines: &[ConfigLine],
        depth: usize,
    ) -> Result<(), ImportError> {
        for line in lines {
            self.count += 1;
            if self.count > RULES_MAX {
                return Err(line.at.error(1, format!("more than {RULES_MAX} rules")));
            }
            match line.word(0) {
                ".include" => {
                    if depth >= INCLUDES_MAX {
                        return Err(line.at.error(1, "includes are nested too deeply"));
                    }
                    for name in line.words.iter().skip(1) {
                        for lines in files.included(&source.etc.join(name), &line.at)? {
                            self.read(source, files, &lines, depth + 1)?;
                        }
                    }
                }
                word if word.starts_with('.') => self.filter_directive(line)?,
                _ => self.rule(source, line)?,
            }
        }
        Ok(())
    }

    fn filter_directive(&mut self, line: &ConfigLine) -> Result<(), ImportError> {
        let name = line.word(1).to_owned();
        if name.is_empty() {
            return Err(line.at.error(1, "the name of a filter is missing"));
        }
        let is_known = self.filters.contains_key(&name);
        let unknown = || line.at.error(1, format!("no filter has the name {name}"));
        match line.word(0).trim_start_matches('.') {
            "definefilter" | "deffilter" | "defflt" => {
                let words = line.words.get(2..).unwrap_or_default();
                self.filters.entry(name).or_default().extend_from_slice(words);
            }
            "activatefilter" | "actfilter" | "activefilter" | "actflt" | "useflt" | "usefilter" => {
                if !is_known {
                    return Err(unknown());
                }
                self.active.push(name);
            }
            "deactivatefilter" | "deactfilter" | "deactivefilter" | "deactflt" | "unuseflt"
            | "unusefilter" => self.active.retain(|active| *active != name),
            "deletefilter" | "delfilter" | "delflt" => {
                self.filters.remove(&name);
                self.active.retain(|active| *active != name);
            }
            other => return Err(line.at.error(1, format!("unknown directive .{other}"))),
        }
        Ok(())
    }

    fn rule(&mut self, source: &TsSource, line: &ConfigLine) -> Result<(), ImportError> {
        let directive = line.word(0).to_ascii_lowercase();
        let (kind, has_regex) = match directive.strip_prefix("regex_") {
            Some(kind) => (kind, true),
            None => (directive.as_str(), false),
        };
        let redirect = match kind {
            "map" | "map_with_recv_port" | "map_with_referer" | "reverse_map" => None,
            "redirect" => Some(301),
            "redirect_temporary" => Some(307),
            _ => return Err(line.at.error(1, format!("unknown rule {directive}"))),
        };
        let (from, to) = urls(line, &directive, has_regex)?;
        if kind == "reverse_map" {
            self.reverse.extend(to.map(|to| (line.at.clone(), from, to)));
            return Ok(());
        }
        let hosts = match (has_regex, from.host.is_empty()) {
            (true, _) => patterns(&from.host),
            (false, true) => Some(vec![RuleHosts::Rest]),
            (false, false) => Some(vec![RuleHosts::Name(from.host.clone())]),
        };
        // The hosts to close, if they cannot be listed.
        let closed = hosts.clone().unwrap_or(vec![RuleHosts::Matching(from.host.clone())]);
        let mut rule = MappingRule {
            at: line.at.clone(),
            directive: directive.clone(),
            redirect,
            is_of_recv_port: kind == "map_with_recv_port",
            hosts: RuleHosts::Rest,
            from,
            to: RuleUrl::default(),
            filters: Vec::new(),
            plugins: Vec::new(),
            strategy: None,
            rank: 0,
        };
        let note = |message: &str| source.note(&line.at, &directive, message);
        if kind == "map_with_referer" {
            let message = "it depends on Referer, which any client can send";
            if source.refuse(&line.at, &directive, message) {
                // It is noted already.
                let unknown = Some(String::new());
                rule.filters.push(AclFilter { unknown, ..AclFilter::default() });
                self.push(closed, &rule);
            }
            return Ok(());
        }
        let Some(to) = to.filter(|to| to.requests().is_some() && !to.host.is_empty()) else {
            note(
                "not carried over: the target has variables, or no host and scheme of HTTP; its \
                 requests get 503",
            );
            self.push(closed, &rule);
            return Ok(());
        };
        if hosts.is_none() && redirect.is_none() && rule.from.requests().is_some() {
            note(UNLISTED);
            self.push(closed, &rule);
            return Ok(());
        }
        let Some(hosts) = hosts.filter(|_| rule.from.requests().is_some()) else {
            note(
                "left out: the hosts cannot be enumerated, so they get the rules for any host; \
                 write a site for them, such as *.NAME (docs/sites.md)",
            );
            return Ok(());
        };
        rule.to = to;
        self.conditions(line, &mut rule);
        self.push(hosts, &rule);
        Ok(())
    }

    /// Adds the filters and plugins of a line, and the active filters.
    fn conditions(&self, line: &ConfigLine, rule: &mut MappingRule) {
        let inner: Vec<_> =
            line.words.iter().filter(|word| word.starts_with('@')).cloned().collect();
        rule.filters.extend(filter(&inner));
        let active = self.active.iter().filter_map(|name| self.filters.get(name));
        rule.filters.extend(active.map(|words| filter(words).unwrap_or_default()));
        (rule.plugins, rule.strategy) = plugins(&inner);
    }

    /// Adds a rule for each of its hosts.
    fn push(&mut self, hosts: Vec<RuleHosts>, rule: &MappingRule) {
        for hosts in hosts {
            let rank = self.rules.len();
            self.rules.push(MappingRule { hosts, rank, ..rule.clone() });
        }
    }
}

const UNLISTED: &str = "not carried over: the hosts cannot be listed, so requests of these and of \
                        all hosts without a site of their own get 503 for these paths; write a \
                        site for them, such as *.NAME (docs/sites.md)";

/// The URL of requests, and that of the target; `None` if the latter is none.
fn urls(
    line: &ConfigLine,
    directive: &str,
    has_regex: bool,
) -> Result<(RuleUrl, Option<RuleUrl>), ImportError> {
    let mut urls = line.words.iter().skip(1).filter(|word| !word.starts_with('@'));
    let (Some(from), Some(to)) = (urls.next(), urls.next()) else {
        return Err(line.at.error(1, format!("{directive} needs two URLs")));
    };
    let Some(parsed) = RuleUrl::new(from, has_regex) else {
        return Err(line.at.error(1, format!("{from} is no URL")));
    };
    Ok((parsed, RuleUrl::new(to, false)))
}

/// The conditions of the words of a rule or of a filter; `None` if they have none.
fn filter(words: &[String]) -> Option<AclFilter> {
    let (mut filter, mut has_some, mut has_action) = (AclFilter::default(), false, false);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match (name.to_ascii_lowercase().as_str(), value.to_ascii_lowercase().as_str()) {
            ("@action", "allow") => (filter.allows, has_action) = (true, true),
            ("@action", "deny") => (filter.allows, has_action) = (false, true),
            ("@method", _) => {
                let methods = value.split(',').map(str::to_ascii_uppercase);
                filter.methods.extend(methods);
            }
            ("@src_ip", addresses) if addresses != "all" => {
                filter.addresses.extend(value.split(',').map(str::to_owned))
            }
            ("@plugin" | "@pparam" | "@strategy" | "@volume" | "@mapid", _) => continue,
            _ => filter.unknown = Some(word.clone()),
        }
        has_some = true;
    }
    if has_some && !has_action {
        // Without an action, Traffic Server allows.
        filter.allows = true;
    }
    has_some.then_some(filter)
}

fn plugins(words: &[String]) -> (Vec<RulePlugin>, Option<String>) {
    let (mut plugins, mut strategy) = (Vec::<RulePlugin>::new(), None);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name.to_ascii_lowercase().as_str() {
            "@plugin" => plugins.push(RulePlugin { name: value.to_owned(), params: Vec::new() }),
            "@pparam" => {
                if let Some(plugin) = plugins.last_mut() {
                    plugin.params.push(value.to_owned());
                }
            }
            "@strategy" => strategy = Some(value.to_owned()),
            _ => {}
        }
    }
    (plugins, strategy)
}
