//! Settings of routes that follow from the records, and from those that a rule overrides.

use super::records::RecordValues;
use crate::toml::{TomlTable, quote};

/// The values without effect, for a rule that lifts a setting of the server.
const RESETS: &[(&str, &str)] = &[
    ("cache", "true"),
    ("default_freshness_s", "0"),
    ("heuristic_s_max", "\"1h\""),
    ("status_freshness", "[]"),
    ("bypass_fields", "[]"),
    ("set_cookie", "\"strip\""),
    ("ignore_client_no_cache", "false"),
    ("override_freshness_s", "0"),
    ("stale_if_error_s", "0"),
    ("origin_host", "\"client\""),
    ("origin_connect_ms_max", "\"3s\""),
    ("origin_first_byte_ms_max", "\"30s\""),
    ("origin_idle_ms_max", "\"30s\""),
    ("body_bytes_max", "\"16GiB\""),
];

/// Statuses that are stored with `negative_caching_enabled`.
const NEGATIVE: &str = "204 305 403 404 405 414 500 501 502 503 504";

/// The settings of all routes. Defaults of Traffic Server that differ from those of Forebay, and
/// matter for the cache, are written too.
pub(super) fn of_route(records: &RecordValues) -> TomlTable {
    let mut table = TomlTable::default();
    let number = |name: &str, default| records.number(name, default);
    if number("url_remap.pristine_host_hdr", 0) == 0 {
        table.text("origin_host", "origin");
    }
    // No setting leaves out URLs with a query, or adds fields to Vary.
    let is_partly_cached = number("http.cache.cache_urls_that_look_dynamic", 1) == 0
        || number("http.cache.enable_default_vary_headers", 0) != 0;
    let is_never_cached =
        number("http.cache.http", 1) == 0 || number("http.cache.when_to_revalidate", 0) == 2;
    if is_never_cached || is_partly_cached {
        table.raw("cache", "false");
    }
    freshness(records, &mut table);
    if number("http.cache.ignore_client_no_cache", 1) != 0 {
        table.raw("ignore_client_no_cache", "true");
    }
    if number("http.cache.cache_responses_to_cookies", 1) != 1 {
        // The other values tell types of content apart; without them, fewer responses are stored.
        table.texts("bypass_fields", &["Cookie"]);
        table.text("set_cookie", "refuse");
    }
    let stale = number("http.cache.max_stale_age", 604_800);
    table.text("stale_if_unreachable_s", &seconds(stale));
    if number("http.negative_revalidating_enabled", 1) != 0 {
        let stale = number("http.negative_revalidating_lifetime", 1800).min(stale);
        table.text("stale_if_error_s", &seconds(stale));
    }
    for (name, settings) in [
        ("http.connect_attempts_timeout", &["origin_connect_ms_max"][..]),
        (
            "http.transaction_no_activity_timeout_out",
            &["origin_first_byte_ms_max", "origin_idle_ms_max"][..],
        ),
    ] {
        if let Some(value) = records.own_number(name) {
            settings.iter().for_each(|setting| table.text(setting, &timeout(value)));
        }
    }
    if let Some(bytes) = records.own_number("http.max_post_size").filter(|bytes| *bytes > 0) {
        table.raw("body_bytes_max", bytes.to_string());
    }
    table
}

fn freshness(records: &RecordValues, table: &mut TomlTable) {
    let number = |name: &str, default| records.number(name, default);
    let least = number("http.cache.heuristic_min_lifetime", 3600);
    let most = number("http.cache.heuristic_max_lifetime", 86_400);
    let factor = records.text("http.cache.heuristic_lm_factor", "0.10").parse().unwrap_or(0.10);
    let needed = number("http.cache.required_headers", 2);
    let revalidate = number("http.cache.when_to_revalidate", 0);
    let percent = match needed {
        1 if revalidate == 0 || revalidate == 3 => percent(factor),
        _ => 0,
    };
    table.raw("heuristic_percent", percent.to_string());
    if percent > 0 {
        table.text("heuristic_s_max", &seconds(most));
    }
    if needed <= 0 && revalidate != 1 && least > 0 {
        table.text("default_freshness_s", &seconds(least));
    }
    if number("http.negative_caching_enabled", 0) != 0 {
        let lifetime = seconds(number("http.negative_caching_lifetime", 1800));
        let list = records.text("http.negative_caching_list", NEGATIVE);
        let statuses = list.split_ascii_whitespace().filter_map(|word| word.parse::<u16>().ok());
        let is_error = |status: &u16| (400..600).contains(status);
        let lifetimes: Vec<_> =
            statuses.filter(is_error).map(|status| format!("{status}={lifetime}")).collect();
        table.texts("status_freshness", &lifetimes);
    }
}

/// The settings in which a route differs from the server.
pub(super) fn differences(server: &TomlTable, own: &TomlTable) -> Vec<(String, String)> {
    let changed = own.lines().filter(|(name, value)| server.value(name) != Some(value));
    let mut found: Vec<_> =
        changed.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for (name, _) in server.lines().filter(|(name, _)| !own.has(name)) {
        if let Some((_, reset)) = RESETS.iter().find(|(known, _)| *known == name) {
            found.push((name.to_owned(), (*reset).to_owned()));
        }
    }
    found
}

/// A share in percent.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn percent(factor: f64) -> u8 {
    (factor * 100.0).clamp(0.0, 100.0) as u8
}

/// A number of seconds as a duration of at most a year.
pub(super) fn seconds(value: i64) -> String {
    let value = value.clamp(0, 365 * 86_400);
    match value {
        0 => "0s".to_owned(),
        value if value % 86_400 == 0 => format!("{}d", value / 86_400),
        value if value % 3600 == 0 => format!("{}h", value / 3600),
        value if value % 60 == 0 => format!("{}m", value / 60),
        value => format!("{value}s"),
    }
}

/// A timeout; 0 stands for none, and becomes the longest one.
pub(super) fn timeout(value: i64) -> String {
    if value <= 0 { "1d".to_owned() } else { seconds(value.min(86_400)) }
}

/// A quoted number of bytes.
pub(super) fn bytes(value: i64) -> String {
    match value {
        value if value % (1 << 30) == 0 => quote(&format!("{}GiB", value >> 30)),
        value if value % (1 << 20) == 0 => quote(&format!("{}MiB", value >> 20)),
        value => value.to_string(),
    }
}
