//! `proxy_set_header` and `add_header`.

use super::access::{self, AccessRefusal};
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

/// Writes the fields of the request to the origin.
pub(super) fn of_request(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    pass: &NginxDirective,
    parsed: &Pass<'_>,
    table: &mut TomlTable,
) -> Result<(), AccessRefusal> {
    let (mut has_host, mut forwarded_host) = (false, false);
    for directive in scope.all(&["proxy_set_header"]) {
        let (name, value) = (directive.arg(0).to_ascii_lowercase(), directive.arg(1));
        match (name.as_str(), value) {
            ("host", value) => {
                has_host = true;
                if !CLIENTS_HOST.contains(&value) {
                    source.note(
                        directive,
                        "left out: the origin gets the client's Host; a \
                                            header rule can set it (docs/rules.md)",
                    );
                }
            }
            ("upgrade", "$http_upgrade") => table.texts("upgrade_protocols", &["websocket"]),
            ("connection" | "x-forwarded-for" | "x-forwarded-proto", _) => {}
            ("x-forwarded-host", "$host" | "$http_host") => forwarded_host = true,
            ("accept-encoding", "") => {}
            ("authorization", "") if table.has("basic_auth") => table.remove("basic_auth_forward"),
            _ if states_rights(&name, value) => {
                source.note(directive, refusal(source));
                access::refuse(source)?;
            }
            _ => source.note(
                directive,
                "left out, so clients can send the field themselves: set it by a header rule at \
                 SEND_REQUEST_HDR_HOOK (docs/rules.md)",
            ),
        }
    }
    if !has_host {
        let name = parsed.authority();
        source.note(pass, format!("the origin gets the client's Host; nginx sent \"{name}\""));
    }
    if forwarded_host {
        let fields = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-request-id"];
        table.texts("forwarded_fields", &fields);
    }
    Ok(())
}

/// Whether all origins of a server get the client's host. Otherwise clients could choose among the
/// sites of an origin by any host.
pub(super) fn pass_host(scope: &BlockScope<'_>) -> bool {
    let mut scopes = vec![scope.clone()];
    while let Some(scope) = scopes.pop() {
        let mut fields = scope.all(&["proxy_set_header"]).into_iter();
        let passes = fields.any(|one| {
            one.arg(0).eq_ignore_ascii_case("host") && CLIENTS_HOST.contains(&one.arg(1))
        });
        if scope.own_one("proxy_pass").is_some() && !passes {
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
    for directive in scope.all(&["add_header"]) {
        let value = directive.arg(1);
        let max_age = value.strip_prefix("max-age=").is_some_and(|rest| {
            let digits = rest.split(';').next().unwrap_or_default().trim();
            let known = |part: &str| matches!(part.trim(), "includeSubDomains" | "preload");
            digits.parse::<u32>().is_ok() && rest.split(';').skip(1).all(known)
        });
        let name = directive.arg(0).to_ascii_lowercase();
        match (name.as_str(), max_age) {
            ("strict-transport-security", true) => table.text("hsts", value),
            ("x-cache-status" | "x-cache" | "x-proxy-cache", _) => {}
            _ => source.note(
                directive,
                "left out: set the field by a header rule at \
                                         SEND_RESPONSE_HDR_HOOK (docs/rules.md)",
            ),
        }
    }
}
