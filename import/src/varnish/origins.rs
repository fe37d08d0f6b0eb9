//! Backends, directors and probes.

use std::collections::BTreeMap;

use super::source::VclSource;
use super::syntax::{Expr, SectionField, StatementKind, VclSection, seconds};
use crate::toml::{TomlTable, quote};

/// VclOrigins that a site may have.
const ORIGINS_MAX: usize = 16;

/// Timeouts of Varnish, its defaults in seconds, and Forebay's settings.
const TIMEOUTS: &[(&str, f64, &str)] = &[
    ("connect_timeout", 3.5, "origin_connect_ms_max"),
    ("first_byte_timeout", 60.0, "origin_first_byte_ms_max"),
    ("between_bytes_timeout", 60.0, "origin_idle_ms_max"),
];

/// Fields of backends without a counterpart that need no note.
const HARMLESS: &[&str] = &[
    "host",
    "port",
    "path",
    "probe",
    "connect_timeout",
    "first_byte_timeout",
    "between_bytes_timeout",
    "proxy_header",
    "preamble",
    "authority",
];

struct DirectorMember {
    name: String,
    weight: u32,
}

/// A director of `vcl_init`.
struct Director {
    kind: String,
    backends: Vec<DirectorMember>,
}

/// The backends and directors by their names.
pub(super) struct VclOrigins<'o> {
    source: &'o VclSource<'o>,
    directors: BTreeMap<String, Director>,
}

impl<'o> VclOrigins<'o> {
    pub(super) fn new(source: &'o VclSource<'o>) -> VclOrigins<'o> {
        let mut directors: BTreeMap<String, Director> = BTreeMap::new();
        for statement in source.vcl.sub("vcl_init") {
            match &statement.kind {
                StatementKind::New(name, class) => {
                    let kind = class.trim_start_matches("directors.").to_owned();
                    if !class.starts_with("directors.") {
                        let message = "left out: Forebay has no such object";
                        source.note(&statement.place, class, message);
                    }
                    directors.insert(name.clone(), Director { kind, backends: Vec::new() });
                }
                StatementKind::Do(Expr::Call(call, arguments)) => {
                    let Some((director, method)) = call.rsplit_once('.') else { continue };
                    let Some(known) = directors.get_mut(director) else { continue };
                    if method == "add_backend" {
                        let weight = match arguments.get(1) {
                            Some(Expr::Number(number)) => number.parse::<f64>().unwrap_or(1.0),
                            _ => 1.0,
                        };
                        let name = arguments.first().map(|one| match one {
                            Expr::Name(name) => name.clone(),
                            _ => String::new(),
                        });
                        known.backends.push(DirectorMember {
                            name: name.unwrap_or_default(),
                            weight: weight.clamp(1.0, 1000.0) as u32,
                        });
                    } else if !matches!(method, "reconfigure" | "set_warmup" | "set_rampup") {
                        let message = "left out: docs/origins.md has the choices of `balance`";
                        source.note(&statement.place, call, message);
                    }
                }
                StatementKind::Return(..) => {}
                _ => source.note(&statement.place, "vcl_init", "left out"),
            }
        }
        VclOrigins { source, directors }
    }

    /// Varnish's default: the backend of that name, or the first one.
    pub(super) fn default_name(&self) -> Option<String> {
        let backends = &self.source.vcl.backends;
        let named = backends.iter().find(|backend| backend.name == "default");
        named.or(backends.first()).map(|backend| backend.name.clone())
    }

    /// Writes the origins to a site or a route; `false` if there are none.
    pub(super) fn write(&self, name: &str, table: &mut TomlTable) -> bool {
        let members = match self.directors.get(name) {
            Some(director) => self.members(director, 0),
            None => vec![(name.to_owned(), 1, false)],
        };
        if let Some(director) = self.directors.get(name) {
            match director.kind.as_str() {
                "hash" | "shard" => table.text("balance", "hash"),
                "least_connections" => table.text("balance", "least"),
                _ => {}
            }
        }
        let mut found: Vec<(&VclSection, String, u32, bool)> = Vec::new();
        for (member, weight, backup) in members {
            let section = self.source.vcl.backends.iter().find(|one| one.name == member);
            let Some(section) = section else { continue };
            if let Some(url) = self.url(section) {
                found.push((section, url, weight, backup));
            }
        }
        if found.len() > ORIGINS_MAX {
            let place = &found[ORIGINS_MAX].0.place;
            self.source.note(place, "backend", "left out: a site has at most 16 origins");
            found.truncate(ORIGINS_MAX);
        }
        let urls: Vec<_> = found
            .iter()
            .map(|(_, url, weight, backup)| {
                let mut text = quote(url);
                if *weight != 1 || *backup {
                    text = format!("{{ url = {text}");
                    if *weight != 1 {
                        text.push_str(&format!(", weight = {weight}"));
                    }
                    if *backup {
                        text.push_str(", backup = true");
                    }
                    text.push_str(" }");
                }
                text
            })
            .collect();
        let Some((first, ..)) = found.first() else { return false };
        match urls.as_slice() {
            [one] if one.starts_with('"') => table.raw("origin", one.clone()),
            _ => table.raw("origin", format!("[{}]", urls.join(", "))),
        }
        self.limits(first, table);
        self.probe(first, table);
        true
    }

    /// Backends with their weights, and whether they are backups.
    fn members(&self, director: &Director, depth: usize) -> Vec<(String, u32, bool)> {
        let mut all = Vec::new();
        for (index, backend) in director.backends.iter().enumerate() {
            let backup = director.kind == "fallback" && index > 0;
            match self.directors.get(&backend.name) {
                Some(inner) if depth < 4 => {
                    let inner = self.members(inner, depth + 1);
                    all.extend(
                        inner.into_iter().map(|(name, weight, is)| (name, weight, is || backup)),
                    );
                }
                _ => {
                    let weight = if director.kind == "random" { backend.weight } else { 1 };
                    all.push((backend.name.clone(), weight, backup));
                }
            }
        }
        all.truncate(256);
        all
    }

    fn url(&self, section: &VclSection) -> Option<String> {
        for field in section.fields.iter().filter(|one| !HARMLESS.contains(&one.name.as_str())) {
            let message = match field.name.as_str() {
                "max_connections" => "left out: origin_connections_max is a limit for all origins",
                "host_header" => "left out: it is for requests without Host; see origin_host",
                "via" | "ssl" | "ssl_sni" | "ssl_verify_peer" | "ssl_verify_host" => {
                    "left out, so the backend gets no requests: write https://HOST in origin"
                }
                _ => "left out: see docs/origins.md",
            };
            self.source.note(&field.place, &format!("backend .{}", field.name), message);
            if matches!(field.name.as_str(), "via" | "ssl") {
                return None;
            }
        }
        if let Some(path) = section.field("path") {
            return Some(format!("unix:{}", path.value));
        }
        let host = &section.field("host")?.value;
        let port = section.field("port").map_or("80", |port| port.value.as_str());
        let port = match port {
            "http" => "80",
            port if port.chars().all(|c| c.is_ascii_digit()) => port,
            _ => {
                self.source.note(&section.place, "backend .port", "left out: name a number");
                return None;
            }
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Some(match port {
            "80" => format!("http://{host}"),
            _ => format!("http://{host}:{port}"),
        })
    }

    fn limits(&self, section: &VclSection, table: &mut TomlTable) {
        for (name, usual, setting) in TIMEOUTS {
            let time = section.field(name).and_then(|field| seconds(&field.value));
            if let Some(time) = time
                && (time - usual).abs() > 0.000_1
            {
                table.text(setting, &milliseconds(time));
            }
        }
    }

    fn probe(&self, section: &VclSection, table: &mut TomlTable) {
        let Some(probe) = section.field("probe") else { return };
        let named = self.source.vcl.probes.iter().find(|one| one.name == probe.value);
        let fields: &[SectionField] = match named {
            Some(named) if probe.inner.is_empty() => &named.fields,
            _ => &probe.inner,
        };
        let field = |name: &str| fields.iter().find(|one| one.name == name);
        let time = |name: &str| field(name).and_then(|one| seconds(&one.value));
        let mut path = field("url").map_or("/", |url| url.value.as_str()).to_owned();
        if let Some(request) = field("request") {
            match request.value.strip_prefix("GET ").or(request.value.strip_prefix("HEAD ")) {
                Some(rest) => path = rest.split(' ').next().unwrap_or("/").to_owned(),
                None => self.source.note(&request.place, "probe .request", "left out"),
            }
            self.source.note(
                &request.place,
                "probe .request",
                "only its path is carried over; the check is a GET with the origin's name as Host",
            );
        }
        if !path.starts_with('/') {
            self.source.note(&probe.place, "probe", "left out: the path has no slash");
            return;
        }
        table.text("health_path", &path);
        let interval = time("interval").unwrap_or(5.0).max(1.0);
        table.text("health_interval_ms", &milliseconds(interval));
        let timeout = time("timeout").unwrap_or(2.0).min(interval);
        table.text("health_ms_max", &milliseconds(timeout));
        if let Some(status) = field("expected_response") {
            table.raw("health_status", status.value.clone());
        }
        for one in fields.iter().filter(|one| matches!(one.name.as_str(), "threshold" | "initial"))
        {
            let message = "left out: docs/origins.md says when an origin is left out";
            self.source.note(&one.place, &format!("probe .{}", one.name), message);
        }
    }
}

/// Varnish's own timeouts, for all sites.
pub(super) fn usual_timeouts(top: &mut TomlTable) {
    for (_, usual, setting) in TIMEOUTS {
        top.text(setting, &milliseconds(*usual));
    }
}

fn milliseconds(seconds: f64) -> String {
    let count = (seconds * 1000.0).clamp(1.0, 86_400_000.0) as u64;
    match count.is_multiple_of(1000) {
        true => format!("{}s", count / 1000),
        false => format!("{count}ms"),
    }
}
