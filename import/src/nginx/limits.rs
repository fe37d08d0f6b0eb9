//! `client_max_body_size` and timeouts.

use super::caching::{duration, size};
use super::scope::BlockScope;
use super::source::NginxSource;
use crate::toml::TomlTable;

/// Default of `client_max_body_size`.
const BODY_BYTES: u64 = 1 << 20;
/// The value 0 of `client_max_body_size`: as large as Forebay permits.
const BODY_BYTES_ANY: u64 = 1 << 50;

/// Timeouts of origins and of origins that speak gRPC, and the settings that take their places.
const TIMEOUTS: &[([&str; 2], &[&str])] = &[
    (["proxy_connect_timeout", "grpc_connect_timeout"], &["origin_connect_ms_max"]),
    (
        ["proxy_read_timeout", "grpc_read_timeout"],
        &["origin_first_byte_ms_max", "origin_idle_ms_max"],
    ),
];

/// Writes the limits of a location to its route.
pub(super) fn write(source: &NginxSource<'_>, scope: &BlockScope<'_>, route: &mut TomlTable) {
    let bytes = match scope.one("client_max_body_size").map(|one| (one, size(one.arg(0)))) {
        None => BODY_BYTES,
        Some((_, Some(0))) => BODY_BYTES_ANY,
        Some((_, Some(bytes))) => bytes.min(BODY_BYTES_ANY),
        Some((directive, None)) => {
            source.note(directive, "left out: the size cannot be read, so it is nginx's default");
            BODY_BYTES
        }
    };
    route.raw("body_bytes_max", bytes.to_string());
    for (names, settings) in TIMEOUTS {
        let name = names[usize::from(scope.is_grpc())];
        let Some(directive) = scope.one(name) else { continue };
        match duration(directive.arg(0)).as_deref().and_then(milliseconds) {
            Some(time @ 1..=86_400_000) => {
                settings.iter().for_each(|setting| route.text(setting, &format!("{time}ms")));
            }
            _ => source.note(directive, "left out: a timeout is from 1ms to 1d"),
        }
    }
}

fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let factor = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 86_400_000,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(factor)
}
