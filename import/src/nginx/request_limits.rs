//! `limit_req` and `limit_conn`: limits on the rate of requests, and on requests in progress.

use std::collections::BTreeMap;

use super::real_ip;
use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// Limits that a route may have, of each kind.
const LIMITS_MAX: usize = 4;

/// A kind of limits.
struct LimitKind {
    directive: &'static str,
    setting: &'static str,
    status: &'static str,
    dry_run: &'static str,
    read: fn(&NginxSource<'_>, &NginxDirective) -> Result<ReadLimit, String>,
}

const RATES: LimitKind = LimitKind {
    directive: "limit_req",
    setting: "rate_limit",
    status: "limit_req_status",
    dry_run: "limit_req_dry_run",
    read: rate_of,
};

const IN_PROGRESS: LimitKind = LimitKind {
    directive: "limit_conn",
    setting: "concurrency_limit",
    status: "limit_conn_status",
    dry_run: "limit_conn_dry_run",
    read: count_of,
};

/// A limit as a setting has it.
struct ReadLimit {
    /// The part before `by=`.
    text: String,
    by: String,
    /// The number of requests in progress.
    count: u32,
    /// The status of a request beyond the limit.
    status: &'static str,
}

/// The zones of `limit_req_zone` or `limit_conn_zone`, by their names.
pub(super) fn zones<'s>(
    http: &'s [NginxDirective],
    directive: &str,
) -> BTreeMap<&'s str, &'s NginxDirective> {
    let zones = http.iter().filter(|one| one.name == directive);
    zones
        .filter_map(|zone| {
            let name = zone.args.iter().find_map(|arg| arg.strip_prefix("zone="))?;
            Some((name.split(':').next().unwrap_or(name), zone))
        })
        .collect()
}

/// Writes the limits of a server to its site.
pub(super) fn of_server(source: &NginxSource<'_>, scope: &BlockScope<'_>, site: &mut TomlTable) {
    for kind in [RATES, IN_PROGRESS] {
        let limits = read(source, scope, &kind);
        if !limits.is_empty() {
            site.texts(kind.setting, &limits);
        }
    }
}

/// Writes the limits of a location to its route, unless they are those of its server.
pub(super) fn of_location(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    for kind in [RATES, IN_PROGRESS] {
        let list = scope.all(&[kind.directive]);
        let of_server = scope.of_server().map(|server| server.all(&[kind.directive]));
        let of_server = of_server.unwrap_or_default();
        let is_same =
            |(one, other): (&&NginxDirective, &&NginxDirective)| std::ptr::eq(*one, *other);
        if list.len() == of_server.len() && list.iter().zip(&of_server).all(is_same) {
            continue;
        }
        let limits = read(source, scope, &kind);
        // An empty list takes the place of the list of the site.
        if !limits.is_empty() || !of_server.is_empty() {
            route.texts(kind.setting, &limits);
        }
    }
}

/// The limits of a block, with a note about each part that differs.
fn read(source: &NginxSource<'_>, scope: &BlockScope<'_>, kind: &LimitKind) -> Vec<String> {
    let list = scope.all(&[kind.directive]);
    if scope.is_on(kind.dry_run) {
        let reason = format!("left out: {} is on, so nginx refuses nothing", kind.dry_run);
        list.iter().for_each(|limit| source.note(limit, reason.clone()));
        return Vec::new();
    }
    let mut limits = Vec::<ReadLimit>::new();
    for directive in &list {
        let limit = match (kind.read)(source, directive) {
            Ok(limit) => limit,
            Err(reason) => {
                source.note(directive, format!("left out: {reason}"));
                continue;
            }
        };
        if limit.by == "address" && !real_ip::is_known(source, scope) {
            source.note(directive, "it counts the clients behind a proxy together");
        }
        note_status(source, scope, kind, &limit);
        let is_same = |one: &ReadLimit| {
            one.by == limit.by && (kind.setting == IN_PROGRESS.setting || one.text == limit.text)
        };
        match limits.iter().position(is_same) {
            // A setting has one limit for the same requests: the lower one.
            Some(at) if limit.count < limits[at].count => limits[at] = limit,
            Some(_) => {}
            None if limits.len() == LIMITS_MAX => {
                source
                    .note(directive, format!("left out: a route has at most {LIMITS_MAX} limits"));
            }
            None => limits.push(limit),
        }
    }
    limits.into_iter().map(|limit| format!("{} by={}", limit.text, limit.by)).collect()
}

/// Notes a status for refused requests that Forebay does not give. Without the directive, the
/// usual one is not worth a note: it is 503 in nginx.
fn note_status(
    source: &NginxSource<'_>,
    scope: &BlockScope<'_>,
    kind: &LimitKind,
    limit: &ReadLimit,
) {
    let (setting, by, ours) = (kind.setting, &limit.by, limit.status);
    if let Some(status) = scope.one(kind.status).filter(|status| status.arg(0) != ours) {
        let message = format!(
            "left out: a request beyond {setting} by={by} gets {ours} (docs/rate-limits.md)"
        );
        source.note(status, message);
    }
}

/// The value of a parameter such as `zone=`.
fn parameter(directive: &NginxDirective, name: &str) -> Option<String> {
    directive.args.iter().find_map(|arg| arg.strip_prefix(name).map(str::to_owned))
}

/// The part of `by=` for the key of a zone.
fn counted_by(zone: &NginxDirective) -> Result<String, String> {
    let key = zone.arg(0).to_ascii_lowercase();
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match key.as_str() {
        "$binary_remote_addr" | "$remote_addr" => Ok("address".to_owned()),
        "$server_name" => Ok("route".to_owned()),
        _ => match key.strip_prefix("$http_").filter(|name| is_name(name)) {
            Some(name) => Ok(format!("field:{}", name.replace('_', "-"))),
            None => Err(format!(
                "requests cannot be counted by {key}; choose another by= (docs/rate-limits.md)"
            )),
        },
    }
}

fn rate_of(source: &NginxSource<'_>, limit: &NginxDirective) -> Result<ReadLimit, String> {
    let zone = parameter(limit, "zone=").unwrap_or_default();
    let Some(definition) = source.rate_zones.get(zone.as_str()) else {
        return Err(format!("there is no limit_req_zone \"{zone}\""));
    };
    let by = counted_by(definition)?;
    let rate = parameter(definition, "rate=").unwrap_or_default();
    let rate = rate
        .strip_suffix("r/s")
        .map(|count| (count, "1s"))
        .or_else(|| rate.strip_suffix("r/m").map(|count| (count, "1m")));
    let Some((Ok(count @ 1..=100_000), time)) =
        rate.map(|(count, time)| (count.parse::<u32>(), time))
    else {
        return Err("its rate is not between 1 and 100000 requests".to_owned());
    };
    let burst = parameter(limit, "burst=").map_or(Ok(0), |text| text.parse::<u32>());
    let Ok(burst @ 0..=999_999) = burst else { return Err("its burst is too large".to_owned()) };
    let no_delay = limit.args.iter().any(|arg| arg == "nodelay");
    if burst > 0 && !no_delay {
        let reason = "requests within the burst are served at once: nothing is delayed";
        source.note(limit, reason);
    }
    let text = format!("{count}/{time} burst={}", burst + 1);
    Ok(ReadLimit { text, by, count, status: "429" })
}

fn count_of(source: &NginxSource<'_>, limit: &NginxDirective) -> Result<ReadLimit, String> {
    let zone = limit.arg(0);
    let Some(definition) = source.count_zones.get(zone) else {
        return Err(format!("there is no limit_conn_zone \"{zone}\""));
    };
    let by = counted_by(definition)?;
    let Ok(count @ 1..=65_535) = limit.arg(1).parse::<u32>() else {
        return Err("its number is not between 1 and 65535".to_owned());
    };
    let status = if by == "route" { "503" } else { "429" };
    Ok(ReadLimit { text: count.to_string(), by, count, status })
}
