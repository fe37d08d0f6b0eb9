//! Settings of the server: ports, certificates, memory, and the records that have no counterpart.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::lines::ConfigLine;
use super::records::{RecordValues, number};
use super::settings::{bytes, timeout};
use super::source::TsSource;
use crate::toml::TomlTable;

/// Addresses that `listen` and `listen_tls` may have.
const LISTEN_MAX: usize = 4;
/// Largest cache that is taken over from the disk.
const DISK_MAX: i64 = 1 << 30;
/// Smallest value of `cache_size`.
const CACHE_MIN: i64 = 16 << 20;

/// Records that are about the way in which Traffic Server works, by the beginnings of their names.
const SILENT: &[&str] = &[
    "accept_threads",
    "admin.",
    "alarm",
    "allocator.",
    "bin_path",
    "body_factory.",
    "cache.",
    "cluster.",
    "config_",
    "core_limit",
    "crash_log_helper",
    "diags.",
    "dns.",
    "dump_mem_info",
    "env_prep",
    "exec_thread.",
    "hostdb.",
    "http.accept_no_activity_timeout",
    "http.background_fill",
    "http.chunking",
    "http.cache.max_open",
    "http.cache.open_",
    "http.cache.range.",
    "http.cache.ignore_accept",
    "http.cache.ignore_client_cc_max_age",
    "http.cache.ims_on_client_no_cache",
    "http.cache.allow_empty_doc",
    "http.cache.ignore_authentication",
    "http.cache.heuristic_",
    "http.cache.required_headers",
    "http.cache.http",
    "http.connect_attempts",
    "http.default_buffer",
    "http.doc_in_cache",
    "http.down_server",
    "http.enable_http_stats",
    "http.flow_control",
    "http.forward.proxy_auth",
    "http.insert_age",
    "http.insert_request_via",
    "http.insert_response_via",
    "http.keep_alive",
    "http.normalize_ae",
    "http.number_of_redirections",
    "http.parent_proxy.",
    "http.post_connect",
    "http.request_via",
    "http.response_server",
    "http.response_via",
    "http.send_http11",
    "http.server_ports",
    "http.server_session_sharing",
    "http.slow.log",
    "http.strict_uri",
    "http.strict_chunk",
    "http.transaction_active_timeout_in",
    "http.transaction_no_activity",
    "http.uncacheable",
    "http.wait_for_cache",
    "http.negative_",
    "http.auth_server_session",
    "http2.",
    "io_uring.",
    "jsonrpc.",
    "lm.",
    "local_state_dir",
    "log.",
    "mlock",
    "memory.",
    "net.",
    "output.",
    "plugin.",
    "process_manager.",
    "proxy_",
    "quic.",
    "res_track",
    "resource.",
    "snapshot_dir",
    "socks.",
    "ssl.TLS",
    "ssl.server.cert.path",
    "ssl.server.private_key.path",
    "ssl.server.multicert",
    "ssl.server.cipher",
    "ssl.server.session",
    "ssl.session_cache",
    "ssl.server.ticket",
    "ssl.server.honor",
    "ssl.handshake",
    "ssl.max_record",
    "ssl.ocsp",
    "ssl.client.",
    "ssl.server.ciphers",
    "ssl.server.groups",
    "stack_dump",
    "stat_collector",
    "stats.",
    "syslog_facility",
    "system.",
    "system_",
    "task_threads",
    "thread.",
    "udp.",
    "url_remap.filename",
    "url_remap.pristine_host_hdr",
    "websocket.",
    "reverse_proxy.enabled",
];

/// Records whose usual value needs no note, and what to do about others.
const NOTED: &[(&str, i64, &str)] = &[
    ("http.number_of_redirections", 0, "redirects of the origin go to the client"),
    (
        "http.cache.ignore_server_no_cache",
        0,
        "responses that the origin forbids to store are not \
      stored",
    ),
    (
        "http.cache.ignore_authentication",
        0,
        "responses to requests with Authorization are stored \
      only if they permit it",
    ),
    ("http.push_method_enabled", 0, "PUSH is forwarded like any other method"),
    ("http.insert_squid_x_forwarded_for", 1, "see forwarded_fields (docs/proxies.md)"),
    ("http.transaction_active_timeout_out", 0, "see origin_first_byte_ms_max and fill_ms_max"),
    ("http.cache.guaranteed_min_lifetime", 0, "see override_freshness_s"),
    ("http.cache.post_method", 0, "responses to POST are not stored"),
    ("url_remap.remap_required", 1, "requests without a rule get 404: Forebay is no forward proxy"),
    ("reverse_proxy.enabled", 1, "Forebay is always a reverse proxy"),
    (
        "http.cache.enable_default_vary_headers",
        0,
        "nothing is stored: see key_fields (docs/sites.md)",
    ),
    (
        "http.cache.cache_urls_that_look_dynamic",
        1,
        "nothing is stored, because URLs with a query must not be",
    ),
];

/// The ports of the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServedPorts {
    pub(super) has_plain: bool,
    pub(super) has_tls: bool,
    /// The port of all addresses without TLS, if they have the same.
    pub(super) plain: Option<u16>,
    /// The same with TLS.
    pub(super) tls: Option<u16>,
}

/// Writes the settings of the server. Returns its ports.
pub(super) fn write(
    source: &TsSource,
    records: &RecordValues,
    certificates: &[ConfigLine],
    storage: &[ConfigLine],
    top: &mut TomlTable,
) -> ServedPorts {
    let ports = listen(source, records, !certificates.is_empty(), top);
    if ports.has_tls {
        tls(source, records, certificates, top);
    }
    if let Some(value) = records.own_number("http.keep_alive_no_activity_timeout_in") {
        top.text("idle_ms_max", &timeout(value));
    }
    if let Some(value) = records.own_number("http.keep_alive_no_activity_timeout_out") {
        top.text("origin_pool_idle_ms_max", &timeout(value));
    }
    let name = "http.request_header_max_size";
    if let Some(value) = records.own_number(name).filter(|value| *value > 0) {
        top.raw("head_bytes_max", value.clamp(1 << 10, 1 << 20).to_string());
    }
    let forwarded = records.text("http.insert_forwarded", "none");
    if !forwarded.is_empty() && forwarded != "none" {
        let fields = ["x-forwarded-for", "x-forwarded-proto", "forwarded", "x-request-id"];
        top.texts("forwarded_fields", &fields);
    }
    connections(source, records, top);
    memory(source, records, storage, top);
    note_records(source, records);
    ports
}

fn connections(source: &TsSource, records: &RecordValues, top: &mut TomlTable) {
    let names = ["http.per_server.connection.max", "http.origin_max_connections"];
    for name in names {
        if let (Some(value @ 1..=65_536), Some(at)) = (records.own_number(name), records.line(name))
        {
            top.raw("origin_connections_max", value.to_string());
            source.note(at, name, "it is a limit for each worker now; divide it by their number");
        }
    }
}

/// One part of `server_ports`.
#[derive(Default)]
struct PortEntry {
    port: u16,
    is_tls: bool,
    is_v6: bool,
    address: Option<IpAddr>,
}

impl PortEntry {
    fn new(text: &str) -> Result<PortEntry, String> {
        let (mut entry, mut depth) = (PortEntry::default(), 0_i32);
        let parts = text.split(|c: char| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ':' && depth == 0
        });
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name.to_ascii_lowercase().as_str() {
                "ssl" => entry.is_tls = true,
                "ipv6" => entry.is_v6 = true,
                "ipv4" | "ip-resolve" | "proto" | "ip-out" | "mptcp" | "no-mptcp" => {}
                "ip-in" => {
                    let value = value.trim_start_matches('[').trim_end_matches(']');
                    let address = value.parse().map_err(|_| format!("{value} is no address"))?;
                    entry.address = Some(address);
                }
                digits if digits.parse::<u16>().is_ok_and(|port| port > 0) => {
                    entry.port = digits.parse().unwrap_or_default();
                }
                other => return Err(format!("{other} has no counterpart")),
            }
        }
        if entry.port == 0 { Err("no port".to_owned()) } else { Ok(entry) }
    }

    fn ip(&self) -> IpAddr {
        self.address.unwrap_or(match self.is_v6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        })
    }
}

fn listen(
    source: &TsSource,
    records: &RecordValues,
    has_certificates: bool,
    top: &mut TomlTable,
) -> ServedPorts {
    let name = "http.server_ports";
    let text = records.text(name, "8080 8080:ipv6");
    let note = |message: String| {
        if let Some(at) = records.line(name) {
            source.note(at, "server_ports", message);
        }
    };
    let (mut plain, mut tls) = (Vec::new(), Vec::new());
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        match PortEntry::new(word) {
            Err(reason) => note(format!("{word} is left out: {reason}")),
            Ok(entry) if entry.is_tls && !has_certificates => {
                note(format!("{word} is left out: ssl_multicert.config has no certificate"));
            }
            Ok(entry) => {
                let list = if entry.is_tls { &mut tls } else { &mut plain };
                list.push(SocketAddr::new(entry.ip(), entry.port));
            }
        }
    }
    for (name, list) in [("listen", &mut plain), ("listen_tls", &mut tls)] {
        if list.len() > LISTEN_MAX {
            note(format!("addresses are left out: {name} has at most {LISTEN_MAX}"));
            list.truncate(LISTEN_MAX);
        }
        let texts: Vec<_> = list.iter().map(SocketAddr::to_string).collect();
        match texts.as_slice() {
            [] => {}
            [one] if name == "listen" => top.text(name, one),
            all => top.texts(name, all),
        }
    }
    let only = |list: &[SocketAddr]| {
        let first = list.first()?.port();
        list.iter().all(|one| one.port() == first).then_some(first)
    };
    let (plain_port, tls_port) = (only(&plain), only(&tls));
    ServedPorts {
        has_plain: !plain.is_empty(),
        has_tls: !tls.is_empty(),
        plain: plain_port,
        tls: tls_port,
    }
}

/// The certificates of the server: those of `dest_ip=*`, or else the first ones.
fn tls(source: &TsSource, records: &RecordValues, lines: &[ConfigLine], top: &mut TomlTable) {
    let is_default = |line: &&ConfigLine| line.value("dest_ip") == Some("*");
    let Some(chosen) = lines.iter().find(is_default).or_else(|| lines.first()) else { return };
    for line in lines {
        if !std::ptr::eq(line, chosen) {
            source.note(
                &line.at,
                "ssl_multicert",
                "left out: write tls_cert and tls_key into the section of its site (docs/tls.md)",
            );
        }
        if line.value("ssl_key_dialog").is_some() || line.value("action").is_some() {
            source.note(
                &line.at,
                "ssl_multicert",
                "left out: the key needs to be without a \
                passphrase, and a tunnel needs another server",
            );
        }
    }
    let cert = chosen.value("ssl_cert_name").unwrap_or_default();
    let key = chosen.value("ssl_key_name").unwrap_or(cert);
    let path = |folder: &str, name: &str| {
        source.path(&std::path::Path::new(folder).join(name).display().to_string())
    };
    let folder = records.text("ssl.server.cert.path", "");
    let certs: Vec<_> = cert.split(',').map(|name| path(folder, name)).collect();
    top.texts("tls_cert", &certs);
    let folder = records.text("ssl.server.private_key.path", folder);
    let keys: Vec<_> = key.split(',').map(|name| path(folder, name)).collect();
    top.texts("tls_key", &keys);
}

/// The memory of the cache: that of the RAM cache, or of a small disk.
fn memory(source: &TsSource, records: &RecordValues, storage: &[ConfigLine], top: &mut TomlTable) {
    let memory = records.own_number("cache.ram_cache.size").filter(|size| *size > 0);
    let sizes = storage.iter().map(|line| line.words.iter().skip(1).find_map(|word| number(word)));
    let disk = sizes.sum::<Option<i64>>();
    let small = disk.filter(|disk| (1..=DISK_MAX).contains(disk));
    if let Some(size) = memory.or(small) {
        top.raw("cache_size", bytes(size.max(CACHE_MIN)));
    }
    if let (None, Some(first)) = (small, storage.first()) {
        source.note(
            &first.at,
            "storage",
            "left out: the cache is in memory; set cache_size, and cache_dir to keep it over a \
             restart (docs/store.md)",
        );
    }
}

/// Notes the records that have no counterpart, and those with another meaning.
fn note_records(source: &TsSource, records: &RecordValues) {
    for (name, value, at) in records.all() {
        if let Some((_, usual, advice)) = NOTED.iter().find(|(known, ..)| *known == name) {
            if number(value) != Some(*usual) {
                source.note(at, name, format!("left out: {advice}"));
            }
            continue;
        }
        let message = match name {
            "http.cache.when_to_revalidate" if !matches!(value, "0" | "1") => {
                "differs: 2 becomes cache = false, and 3 and 4 are left out"
            }
            "http.cache.cache_responses_to_cookies" if value != "1" => {
                "responses to requests with cookies, of any type, are not stored"
            }
            "http.cache.heuristic_min_lifetime"
                if value != "3600" && records.number("http.cache.required_headers", 2) == 1 =>
            {
                "left out: a heuristic lifetime has no minimum"
            }
            "http.cache.when_to_revalidate" | "http.cache.cache_responses_to_cookies" => continue,
            "http.insert_client_ip" if value == "1" => continue,
            "http.insert_client_ip" | "http.anonymize_insert_client_ip" => {
                "left out: see forwarded_fields (docs/proxies.md)"
            }
            "http.cache.ignore_client_no_cache"
            | "http.cache.max_stale_age"
            | "http.max_post_size"
            | "http.request_header_max_size"
            | "http.insert_forwarded"
            | "http.per_server.connection.max"
            | "http.origin_max_connections"
            | "ssl.client.certification_level" => continue,
            _ if value.is_empty() || SILENT.iter().any(|known| name.starts_with(known)) => continue,
            _ => "left out: no counterpart is known (docs/settings.md)",
        };
        source.note(at, name, message);
    }
}
