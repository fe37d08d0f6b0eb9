//! `ip_allow.yaml` and `ip_allow.config`: which addresses may use which methods.

use std::fmt::Write;

use super::filter::{is_network, is_range};
use super::lines::ConfigLine;
use super::source::{SourceLine, TsSource};
use super::yaml::YamlNode;
use crate::toml::TomlTable;

/// An entry; the first one that has the address of a client decides.
struct AllowEntry {
    at: SourceLine,
    ranges: Vec<String>,
    allows: bool,
    /// Empty stands for all methods.
    methods: Vec<String>,
    is_readable: bool,
}

impl AllowEntry {
    fn new(at: &SourceLine, ranges: &[&str], action: &str, methods: &[&str]) -> AllowEntry {
        let is_all = methods.iter().any(|method| method.eq_ignore_ascii_case("all"));
        let mut entry = AllowEntry {
            at: at.clone(),
            ranges: ranges.iter().flat_map(|range| expanded(range)).collect(),
            allows: matches!(action, "allow" | "ip_allow" | "set_allow"),
            methods: methods.iter().map(|method| method.to_ascii_uppercase()).collect(),
            is_readable: true,
        };
        if is_all {
            entry.methods.clear();
        }
        let is_word = |method: &String| method.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_action = matches!(action, "allow" | "deny" | "ip_allow" | "ip_deny" | "set_allow");
        entry.is_readable = is_action
            && !entry.ranges.is_empty()
            && entry.ranges.iter().all(|range| is_range(range))
            && entry.methods.iter().all(|method| !method.is_empty() && is_word(method));
        entry
    }

    fn has_method(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|known| known == method)
    }

    /// Whether its addresses may use a method.
    fn permits(&self, method: &str) -> bool {
        self.has_method(method) == self.allows
    }
}

/// The networks of a range; `0/0` and `all` stand for each address.
fn expanded(range: &str) -> Vec<String> {
    match range.to_ascii_lowercase().as_str() {
        "0/0" => vec!["0.0.0.0/0".to_owned()],
        "all" => vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
        "0.0.0.0-255.255.255.255" => vec!["0.0.0.0/0".to_owned()],
        "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" => vec!["::/0".to_owned()],
        other => vec![other.to_owned()],
    }
}

/// Writes the entries as header rules of the server, which apply before those of all sites, and
/// `purge_from`.
pub(super) fn write(
    source: &TsSource,
    yaml: Option<&YamlNode>,
    lines: &[ConfigLine],
    top: &mut TomlTable,
    rules: &mut Vec<String>,
) {
    let mut entries = Vec::new();
    let list = yaml.and_then(|root| root.get("ip_allow"));
    for node in list.map(YamlNode::list).unwrap_or_default() {
        entries.extend(yaml_entry(source, node));
    }
    for line in lines {
        entries.push(line_entry(line));
    }
    if entries.is_empty() {
        return;
    }
    let mut purgers = Vec::new();
    for entry in entries.iter().take_while(|one| one.is_readable && one.permits("PURGE")) {
        for range in &entry.ranges {
            match is_network(range) {
                true => purgers.push(range.clone()),
                false => source.note(
                    &entry.at,
                    "ip_allow",
                    format!(
                        "differs: {range} may not \
                    purge; write its networks into purge_from"
                    ),
                ),
            }
        }
    }
    if !purgers.is_empty() {
        top.texts("purge_from", &purgers);
    }
    rules.push(source.rules("ip-allow", text(source, &entries)));
}

fn yaml_entry(source: &TsSource, node: &YamlNode) -> Option<AllowEntry> {
    if node.text_of("apply").is_some_and(|apply| apply.eq_ignore_ascii_case("out")) {
        source.note(&node.at, "apply", "left out: the addresses of origins are not restricted");
        return None;
    }
    let texts = |name: &str| {
        let list = node.get(name).map(YamlNode::list).unwrap_or_default();
        list.iter().map(YamlNode::text).collect::<Vec<_>>()
    };
    let ranges = [texts("ip_addrs"), texts("ip_categories")].concat();
    let mut methods = texts("methods");
    if methods.is_empty() {
        methods = texts("method");
    }
    if methods.is_empty() {
        methods = vec!["ALL"];
    }
    let action = node.text_of("action").unwrap_or_default().to_ascii_lowercase();
    Some(AllowEntry::new(&node.at, &ranges, &action, &methods))
}

fn line_entry(line: &ConfigLine) -> AllowEntry {
    let range = line.value("src_ip").unwrap_or_default();
    let action = line.value("action").unwrap_or_default();
    let methods = line.pairs().filter(|(name, _)| *name == "method");
    let mut methods: Vec<_> = methods.flat_map(|(_, value)| value.split(['|', ','])).collect();
    if methods.is_empty() {
        methods.push("ALL");
    }
    AllowEntry::new(&line.at, &[range], action, &methods)
}

/// The entries in their order. An entry ends the search for the addresses that it has.
fn text(source: &TsSource, entries: &[AllowEntry]) -> String {
    let mut out = String::new();
    let mut rule = |conditions: &[String], operator: &str| {
        out.push_str("cond %{READ_REQUEST_HDR_HOOK}\n");
        for condition in conditions {
            let _ = writeln!(out, "{condition}");
        }
        let _ = writeln!(out, "{operator} [L]");
    };
    for entry in entries {
        if !entry.is_readable {
            if source.refuse(&entry.at, "ip_allow", "the entry cannot be read") {
                rule(&["cond %{TRUE}".to_owned()], "set-status 403");
                return out;
            }
            continue;
        }
        let of_ranges = format!("cond %{{IP:CLIENT}} {{{}}}", entry.ranges.join(","));
        let methods = entry.methods.join(",");
        match (entry.methods.is_empty(), entry.allows) {
            (true, true) => rule(&[of_ranges], "no-op"),
            (true, false) => rule(&[of_ranges], "set-status 403"),
            (false, allows) => {
                let flags = if allows { " [NOT]" } else { "" };
                let of_methods = format!("cond %{{METHOD}} ({methods}){flags}");
                rule(&[of_ranges.clone(), of_methods], "set-status 403");
                rule(&[of_ranges], "no-op");
            }
        }
    }
    rule(&["cond %{TRUE}".to_owned()], "set-status 403");
    out
}
