//! `proxy_cache*` and `gzip*`.

use super::scope::BlockScope;
use super::source::NginxSource;
use super::syntax::NginxDirective;
use crate::toml::TomlTable;

/// How long nginx keeps a response without requests, which bounds its stale answers.
const INACTIVE: &str = "10m";

/// Whether nginx stores the responses to all requests here. A zone with a variable may be off for
/// some of them.
pub(super) fn is_cached(scope: &BlockScope<'_>) -> bool {
    let is_zone = |zone: &NginxDirective| zone.arg(0) != "off" && !zone.arg(0).contains('$');
    !scope.is_grpc() && scope.one("proxy_cache").is_some_and(is_zone)
}

/// Writes the settings of the cache to a route. A condition of storing that cannot be carried
/// over switches the cache off: otherwise the answer of one client could reach another.
pub(super) fn write(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    if !is_cached(scope) {
        let zone = scope.one("proxy_cache").filter(|zone| zone.arg(0) != "off");
        if let Some(zone) = zone.filter(|_| !scope.is_grpc()) {
            source.note(zone, "the zone has variables, so the location is not cached");
        }
        return route.raw("cache", "false");
    }
    let mut carried = TomlTable::default();
    if let Err((directive, reason)) = conditions(scope, &mut carried) {
        source.note(directive, format!("{reason}, so the location is not cached"));
        return route.raw("cache", "false");
    }
    route.raw("cache", "true");
    for name in ["bypass_cookies", "bypass_fields", "key_cookies", "key_fields"] {
        if let Some(value) = carried.value(name) {
            route.raw(name, value);
        }
    }
    lifetimes(source, scope, route);
    stale(source, scope, route);
}

type CacheReason<'s> = (&'s NginxDirective, &'static str);

fn conditions<'s>(scope: &BlockScope<'s>, route: &mut TomlTable) -> Result<(), CacheReason<'s>> {
    let (mut cookies, mut fields) = (Vec::new(), Vec::new());
    let mut lists = scope.all(&["proxy_cache_bypass"]);
    lists.extend(scope.all(&["proxy_no_cache"]));
    for directive in lists {
        for arg in &directive.args {
            match variable(arg) {
                Some(RequestPart::Cookie(name)) => push(&mut cookies, name),
                Some(RequestPart::Field(name)) => push(&mut fields, name),
                // The response does not exist when the cache is asked.
                None if response_field(arg).is_some() => {}
                None => return Err((directive, "this condition cannot be carried over")),
            }
        }
    }
    let (mut key_cookies, mut key_fields) = (Vec::new(), Vec::new());
    if let Some(key) = scope.one("proxy_cache_key") {
        let text = key.args.concat();
        if !["$request_uri", "$uri"].iter().any(|name| text.contains(name)) {
            return Err((key, "the key does not have the URL"));
        }
        for part in text.split('$').skip(1) {
            let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &part[..end.unwrap_or(part.len())];
            match variable(&format!("${name}")) {
                Some(RequestPart::Cookie(name)) => push(&mut key_cookies, name),
                Some(RequestPart::Field(name)) if name != "host" => push(&mut key_fields, name),
                _ if KEY_PARTS.contains(&name) => {}
                _ => return Err((key, "the key has a part that cannot be carried over")),
            }
        }
    }
    let lists = [
        ("bypass_cookies", cookies),
        ("bypass_fields", fields),
        ("key_cookies", key_cookies),
        ("key_fields", key_fields),
    ];
    for (name, values) in lists.iter().filter(|(_, values)| !values.is_empty()) {
        route.texts(name, values);
    }
    Ok(())
}

/// Parts of a key that Forebay's key always has.
const KEY_PARTS: &[&str] = &[
    "scheme",
    "host",
    "http_host",
    "server_name",
    "proxy_host",
    "request_uri",
    "uri",
    "is_args",
    "args",
    "query_string",
    "request_method",
    "host_header",
];

enum RequestPart {
    Cookie(String),
    Field(String),
}

fn variable(text: &str) -> Option<RequestPart> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if let Some(name) = text.strip_prefix("$cookie_").filter(|name| is_name(name)) {
        return Some(RequestPart::Cookie(name.to_owned()));
    }
    let name = text.strip_prefix("$http_").filter(|name| is_name(name))?;
    Some(RequestPart::Field(name.replace('_', "-").to_ascii_lowercase()))
}

/// The field of the origin's response that a variable has.
fn response_field(text: &str) -> Option<String> {
    let name = text.strip_prefix("$upstream_http_").filter(|name| !name.is_empty())?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| name.replace('_', "-"))
}

/// The field in which rules give this cache a lifetime.
pub(super) const LIFETIME_FIELD: &str = "forebay-cache-control";

/// Header rules about responses: those that `proxy_no_cache` excludes, and `X-Accel-Expires`, which
/// takes precedence over the other fields in nginx.
pub(super) fn rules(scope: &BlockScope<'_>) -> String {
    const HOOK: &str = "\ncond %{READ_RESPONSE_HDR_HOOK}\n";
    const NO_STORE: &str = "  set-http-cntl SERVER_NO_STORE on\n";
    const SECONDS: &str = "cond %{HEADER:X-Accel-Expires} /^0*[1-9][0-9]{0,8}$/";
    let mut out = String::new();
    if !is_cached(scope) {
        return out;
    }
    let excluded = scope.all(&["proxy_no_cache"]).into_iter().flat_map(|one| one.args.iter());
    for field in excluded.filter_map(|arg| response_field(arg)) {
        out.push_str(&format!(
            "{HOOK}cond %{{HEADER:{field}}} /./\ncond %{{HEADER:{field}}} /^0$/ [NOT]\n{NO_STORE}"
        ));
    }
    let ignored = scope.all(&["proxy_ignore_headers"]);
    let is_ignored = |arg: &String| arg.eq_ignore_ascii_case("x-accel-expires");
    if !ignored.iter().any(|one| one.args.iter().any(is_ignored)) {
        out.push_str(&format!(
            "{HOOK}cond %{{HEADER:X-Accel-Expires}} /./\n{SECONDS} [NOT]\n{NO_STORE}\
             {HOOK}{SECONDS}\n\
             cond %{{HEADER:Cache-Control}} /no-cache|no-store|private/ [NOT,NOCASE]\n  \
             set-header {LIFETIME_FIELD} \"max-age=%{{HEADER:X-Accel-Expires}}\"\n"
        ));
    }
    out
}

fn push(list: &mut Vec<String>, name: String) {
    if !list.contains(&name) {
        list.push(name);
    }
}

fn lifetimes(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    let mut list = Vec::new();
    for valid in scope.all(&["proxy_cache_valid"]) {
        let Some((time, statuses)) = valid.args.split_last() else { continue };
        let Some(time) = duration(time) else {
            source.note(valid, "left out: the time cannot be read");
            continue;
        };
        let usual = ["200".to_owned(), "301".to_owned(), "302".to_owned()];
        let statuses = if statuses.is_empty() { &usual[..] } else { statuses };
        for status in statuses {
            match status.parse::<u16>() {
                Ok(code @ 200..=599) if time != "0s" => {
                    let lifetime = format!("{code}={time}");
                    if !list.iter().any(|known: &String| known.starts_with(&lifetime[..4])) {
                        list.push(lifetime);
                    }
                }
                _ => source.note(valid, format!("left out for {status}: name each status")),
            }
        }
    }
    if !list.is_empty() {
        route.texts("status_freshness", &list);
    }
}

fn stale(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    let stale = scope.one("proxy_cache_use_stale");
    let has = |name: &str| stale.is_some_and(|list| list.args.iter().any(|arg| arg == name));
    if !has("error") {
        route.text("stale_if_unreachable_s", "0s");
    }
    if ["http_500", "http_502", "http_503", "http_504"].iter().any(|status| has(status)) {
        route.text("stale_if_error_s", INACTIVE);
    }
    if has("updating") && scope.is_on("proxy_cache_background_update") {
        route.text("stale_while_revalidate_s", INACTIVE);
    } else if let (Some(list), true) = (stale, has("updating")) {
        source.note(list, "\"updating\" is left out: requests wait for the one that updates");
    }
}

/// Writes the settings of compression and decompression to a route with an origin.
pub(super) fn write_gzip(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    if scope.is_on("gunzip") {
        route.raw("decompress", "true");
    }
    if !scope.is_on("gzip") {
        return;
    }
    if !is_cached(scope) {
        let advice =
            "left out here: Forebay compresses only responses that it stores (docs/compression.md)";
        if let Some(gzip) = scope.one("gzip") {
            source.note(gzip, advice);
        }
        return;
    }
    compress(source, scope, route);
}

/// Types of the same scripts.
const SCRIPTS: &[&str] = &["text/javascript", "application/javascript", "application/x-javascript"];

/// Writes these settings for responses that pass through the cache.
pub(super) fn compress(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    if !scope.is_on("gzip") {
        return;
    }
    let mut types = vec!["text/html"];
    if let Some(list) = scope.one("gzip_types") {
        let is_media = |media: &str| {
            let valid = |c: char| c.is_ascii_alphanumeric() || "/.+-".contains(c);
            media.split('/').filter(|part| !part.is_empty()).count() == 2
                && media.chars().all(valid)
        };
        for media in list.args.iter().map(String::as_str) {
            match is_media(media) {
                true if types.contains(&media) => {}
                true => types.push(media),
                false => source.note(list, format!("left out: {media} is no media type")),
            }
        }
    }
    // Forebay's type of scripts is the first of these (RFC 9239).
    if types.iter().any(|media| SCRIPTS.contains(media)) && !types.contains(&SCRIPTS[0]) {
        types.push(SCRIPTS[0]);
    }
    route.texts("compress", &["gzip"]);
    route.texts("compress_types", &types);
    let least = scope.one("gzip_min_length").and_then(|length| size(length.arg(0))).unwrap_or(20);
    route.raw("compress_bytes_min", least.min(1 << 30).to_string());
}

/// A time of nginx, such as `1h` or `30`, with a unit.
pub(super) fn duration(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = text[..digits].parse().ok()?;
    let (count, unit) = match &text[digits..] {
        "" | "s" => (count, "s"),
        unit @ ("ms" | "m" | "h" | "d") => (count, unit),
        "w" => (count.checked_mul(7)?, "d"),
        "M" => (count.checked_mul(30)?, "d"),
        _ => return None,
    };
    let days = match unit {
        "ms" => count / 86_400_000,
        "s" => count / 86_400,
        "m" => count / 1440,
        "h" => count / 24,
        _ => count,
    };
    match (count, days) {
        (0, _) => Some("0s".to_owned()),
        (_, 365..) => Some("365d".to_owned()),
        _ => Some(format!("{count}{unit}")),
    }
}

/// A time of nginx in seconds, at most ten years.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        "M" => 2_592_000,
        "y" => 31_536_000,
        _ => return None,
    };
    count.checked_mul(factor).map(|seconds| seconds.min(315_360_000))
}

/// A size of nginx, such as `10m`, in bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let (count, unit) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    count.parse::<u64>().ok()?.checked_mul(unit)
}
