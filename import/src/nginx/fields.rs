//! `proxy_set_header`, `grpc_set_header` and `add_header`.

use super::access::{self, AccessRefusal};
use super::error_pages;
use super::header_rules;
use super::known::refusal;
use super::origins::Pass;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Variables that say nothing about the client's rights.
const NEUTRAL: &[&str] = &[
    "host",
    "hostname",
    "proxy_host",
    "proxy_port",
    "server_name",
    "server_port",
    "server_addr",
    "server_protocol",
    "scheme",
    "https",
    "request_uri",
    "uri",
    "document_uri",
    "args",
    "query_string",
    "is_args",
    "request_method",
    "request_id",
    "request_time",
    "remote_addr",
    "remote_port",
    "realip_remote_addr",
    "proxy_add_x_forwarded_for",
    "proxy_add_via",
    "connection",
    "connection_upgrade",
    "msec",
    "time_iso8601",
    "nginx_version",
    "ssl_protocol",
    "ssl_cipher",
    "ssl_server_name",
    "content_type",
    "content_length",
    "upstream_cache_status",
];

/// Fields that may be removed: without them, the origin answers as to any client.
const REMOVABLE: &[&str] = &[
    "accept-encoding",
    "connection",
    "upgrade",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "te",
    "expect",
    "referer",
    "origin",
    "user-agent",
    "cookie",
    "authorization",
    "content-length",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-real-ip",
    "forwarded",
];

/// The host of the request.
const CLIENTS_HOST: &[&str] = &["$host", "$http_host", "$host:$server_port"];

/// Values that deny a client something.
const DENIALS: &[&str] =
    &["0", "no", "off", "false", "none", "anonymous", "guest", "external", "public", "denied"];

/// Writes the fields of the request to the origin that are settings, and refuses requests if a
/// field that states rights cannot be carried over. Other fields are header rules.
pub(super) fn of_request(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    pass: &NginxDirective,
    parsed: &Pass<'_>,
    table: &mut TomlTable,
) -> Result<(), AccessRefusal> {
    let mut forwarded_host = false;
    for directive in scope.sent_fields() {
        let (name, value) = (directive.arg(0).to_ascii_lowercase(), directive.arg(1));
        match (name.as_str(), value) {
            ("upgrade", "$http_upgrade") => table.texts("upgrade_protocols", &["websocket"]),
            ("x-forwarded-host", "$host" | "$http_host") => forwarded_host = true,
            ("authorization", "") if table.has("basic_auth") => table.remove("basic_auth_forward"),
            _ if is_done(directive) => {}
            _ if header_rules::of_request(source, scope, directive).is_some() => {}
            _ if states_rights(&name, value) => {
                source.note(directive, refusal(source));
                access::refuse(source)?;
            }
            _ => source.note(
                directive,
                "left out, so clients can send the field themselves: header rules cannot set this \
                 value (docs/rules.md)",
            ),
        }
    }
    match SentHost::of(source, scope, parsed) {
        SentHost::Client => {}
        SentHost::Setting(host) => table.text("origin_host", &host),
        SentHost::Other(host) => {
            source.note(pass, format!("the origin gets the client's Host; nginx sent \"{host}\""));
        }
    }
    if forwarded_host {
        let fields = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-request-id"];
        table.texts("forwarded_fields", &fields);
    }
    Ok(())
}

/// Whether Forebay sets a field for the origin by itself, or by a setting.
pub(super) fn is_done(directive: &NginxDirective) -> bool {
    let (name, value) = (directive.arg(0).to_ascii_lowercase(), directive.arg(1));
    match name.as_str() {
        "host" | "connection" | "x-forwarded-for" => true,
        // Without variables, a rule can set it.
        "x-forwarded-proto" => value.contains('$'),
        "x-forwarded-host" => matches!(value, "$host" | "$http_host"),
        "upgrade" => value == "$http_upgrade",
        "x-request-id" => value == "$request_id",
        "accept-encoding" => value.is_empty(),
        _ => false,
    }
}

/// The `Host` that nginx sends to an origin.
enum SentHost {
    Client,
    /// The value of `origin_host`.
    Setting(String),
    /// A text that `origin_host` cannot have.
    Other(String),
}

impl SentHost {
    fn of(source: &NginxSource<'_>, scope: &BlockScope<'_>, parsed: &Pass<'_>) -> SentHost {
        let fields = scope.sent_fields();
        let host = fields.into_iter().find(|one| one.arg(0).eq_ignore_ascii_case("host"));
        match host.map_or("$proxy_host", |one| one.arg(1)) {
            value if CLIENTS_HOST.contains(&value) => SentHost::Client,
            "$proxy_host" if source.groups.contains_key(parsed.authority()) => {
                SentHost::named(parsed.authority())
            }
            "$proxy_host" => SentHost::Setting("origin".to_owned()),
            "$server_name" => {
                SentHost::named(scope.one("server_name").map_or("", |one| one.arg(0)))
            }
            value => SentHost::named(value),
        }
    }

    fn named(text: &str) -> SentHost {
        let (host, port) = text.split_once(':').unwrap_or((text, "80"));
        let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_part);
        let is_word = matches!(host, "client" | "origin");
        let is_port = !port.starts_with('+') && port.parse::<u16>().is_ok_and(|port| port != 0);
        match host.split('.').all(is_label) && host.len() <= 255 && is_port && !is_word {
            true => SentHost::Setting(text.to_owned()),
            false => SentHost::Other(text.to_owned()),
        }
    }
}

/// Whether all origins of a server get the client's host, or a host that is carried over. Otherwise
/// clients could choose among the sites of an origin by any host.
pub(super) fn pass_host(source: &NginxSource<'_>, scope: &BlockScope<'_>) -> bool {
    let mut scopes = vec![scope.clone()];
    while let Some(scope) = scopes.pop() {
        let parsed = scope.pass().and_then(|pass| Pass::new(pass).ok());
        if let Some(parsed) = parsed
            && matches!(SentHost::of(source, &scope, &parsed), SentHost::Other(_))
        {
            return false;
        }
        let inner = scope.own().iter().filter(|one| one.name == "location");
        scopes.extend(inner.map(|one| scope.inside(one.inner())));
    }
    true
}

/// Whether an origin may believe the field, which a client could then send itself.
fn states_rights(name: &str, value: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut variables = value.split('$').skip(1).map(|part| {
        let part = part.trim_start_matches('{');
        &part[..part.find(|c| !is_name(c)).unwrap_or(part.len())]
    });
    let is_neutral = |name: &str| {
        NEUTRAL.contains(&name) || name.starts_with("http_") || name.starts_with("cookie_")
    };
    let is_denial = DENIALS.contains(&value.to_ascii_lowercase().as_str());
    let is_removed = value.is_empty() && !REMOVABLE.contains(&name);
    is_removed || is_denial || !variables.all(is_neutral)
}

/// Writes the fields of the response to the client.
pub(super) fn of_response(source: &NginxSource<'_>, scope: &BlockScope<'_>, table: &mut TomlTable) {
    let all = scope.all(&["add_header"]);
    if let Some(hsts) = all.into_iter().rfind(|directive| is_hsts(directive)) {
        table.text("hsts", hsts.arg(1));
    }
    error_pages::write(source, scope, table);
    header_rules::write(source, scope, table);
}

/// Whether the setting `hsts` can have the value of this `add_header`.
fn is_hsts(directive: &NginxDirective) -> bool {
    let is_age = directive.arg(1).strip_prefix("max-age=").is_some_and(|rest| {
        let digits = rest.split(';').next().unwrap_or_default().trim();
        let known = |part: &str| matches!(part.trim(), "includeSubDomains" | "preload");
        digits.parse::<u32>().is_ok() && rest.split(';').skip(1).all(known)
    });
    is_age && directive.arg(0).eq_ignore_ascii_case("strict-transport-security")
}

/// Whether an `add_header` is a setting, or the state of the cache, which `Cache-Status` has.
pub(super) fn is_known(directive: &NginxDirective) -> bool {
    let is_state = directive.arg(1).contains("$upstream_cache_status");
    is_hsts(directive) || is_state
}
