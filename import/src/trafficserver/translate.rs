//! The files of a configuration, one after the other.

use super::files::ConfigFiles;
use super::host::RuleHosts;
use super::mapping::MappingTable;
use super::records::RecordValues;
use super::route::RouteContext;
use super::server::{self, ServedPorts};
use super::source::TsSource;
use super::{cache_control, ip_allow, parents, plugins, settings, sites, sni};
use crate::ImportError;
use crate::toml::TomlTable;

const INTRO: &str = "# Translated from a configuration of Apache Traffic Server by \
                     `forebay import trafficserver`.\n\
                     # Check it: forebay check FILE; compare its access rules with \
                     Traffic Server's\n";

/// Files without a counterpart in the configuration of Forebay, and what to do instead.
const NOTED: &[(&str, &str)] = &[
    ("hosting.config", "left out: all sites share the cache"),
    ("volume.config", "left out: all sites share the cache"),
    ("splitdns.config", "left out: names are resolved by the system"),
];

/// Reads all files, and writes the configuration.
///
/// # Errors
/// A file cannot be read, or is malformed.
pub(super) fn translate(source: &TsSource, files: &mut ConfigFiles) -> Result<String, ImportError> {
    let records = records(files)?;
    let mut table = MappingTable::default();
    let lines = files.lines("remap.config")?;
    table.read(source, files, &lines, 0)?;
    let (mut top, mut rules) = (TomlTable::default(), Vec::new());
    let ports = write_server(source, files, &records, &mut top)?;
    let yaml = files.yaml("ip_allow.yaml")?;
    let lines = files.lines("ip_allow.config")?;
    ip_allow::write(source, yaml.as_ref(), &lines, &mut top, &mut rules);
    let lines = files.lines("plugin.config")?;
    let mut is_closed = plugins::of_server(source, files, &lines, &mut rules);
    is_closed |= wants_certificates(source, &records);
    if !rules.is_empty() {
        top.texts("rules", &rules);
    }
    let server = settings::of_route(&records);
    server.lines().for_each(|(name, value)| top.raw(name, value));
    let mut parents = parents::of_lines(source, &files.lines("parent.config")?);
    if let Some(root) = files.yaml("strategies.yaml")? {
        parents.extend(parents::of_yaml(source, &root));
    }
    let cache = cache_control::rules(source, &files.lines("cache.config")?);
    note_others(source, files)?;
    let mut closed_hosts = match files.yaml("sni.yaml")? {
        Some(root) => sni::closed_hosts(source, &root),
        None => Vec::new(),
    };
    note_reverse(source, &table);
    let context = RouteContext { source, records: &records, server, parents, cache };
    if is_closed {
        closed_hosts.push(RuleHosts::Any);
    }
    let sites = sites::all(&context, files, &table.rules, ports, &closed_hosts);
    let mut out = INTRO.to_owned();
    top.write(&mut out, "");
    sites.iter().for_each(|site| site.write(&mut out));
    Ok(out)
}

fn records(files: &mut ConfigFiles) -> Result<RecordValues, ImportError> {
    let mut records = RecordValues::default();
    records.read(&files.lines("records.config")?)?;
    if let Some(root) = files.yaml("records.yaml")? {
        records.read_yaml(&root)?;
    }
    Ok(records)
}

fn write_server(
    source: &TsSource,
    files: &mut ConfigFiles,
    records: &RecordValues,
    top: &mut TomlTable,
) -> Result<ServedPorts, ImportError> {
    let certificates = files.lines("ssl_multicert.config")?;
    let storage = files.lines("storage.config")?;
    for name in ["ssl_multicert.yaml", "storage.yaml"] {
        if let Some(at) = files.first_line(name) {
            source.note(&at, name, "left out: set tls_cert and tls_key, and cache_size");
        }
    }
    Ok(server::write(source, records, &certificates, &storage, top))
}

/// Whether clients need certificates, which Forebay does not ask for.
fn wants_certificates(source: &TsSource, records: &RecordValues) -> bool {
    let name = "ssl.client.certification_level";
    match (records.own_number(name), records.line(name)) {
        (Some(0) | None, _) | (_, None) => false,
        (Some(1), Some(at)) => {
            source.note(at, name, "left out: clients are not asked for certificates");
            false
        }
        (_, Some(at)) => source.refuse(at, name, "clients are not asked for certificates"),
    }
}

/// Notes files that are not read.
fn note_others(source: &TsSource, files: &mut ConfigFiles) -> Result<(), ImportError> {
    for (name, advice) in NOTED {
        if let Some(line) = files.lines(name)?.first() {
            source.note(&line.at, name, *advice);
        }
    }
    if let Some(root) = files.yaml("logging.yaml")?
        && root.get("logging").is_some_and(|logging| !logging.pairs().is_empty())
    {
        source.note(&root.at, "logging.yaml", "left out: see access_log (docs/logs.md)");
    }
    Ok(())
}

/// Notes the rules of `reverse_map` that no rule of `map` reverses.
fn note_reverse(source: &TsSource, table: &MappingTable) {
    for (at, from, to) in &table.reverse {
        let is_known = table.rules.iter().any(|rule| {
            rule.redirect.is_none()
                && rule.to == *from
                && rule.from.base() == to.base()
                && rule.from.path == to.path
        });
        if !is_known {
            source.note(
                at,
                "reverse_map",
                "left out: Location is changed only as `map` says \
                (docs/sites.md#host-and-path-for-the-origin)",
            );
        }
    }
}
