//! Suggestions for misspelt words, and for settings in the wrong section.

use strsim::osa_distance;

use super::setting::{RawValue, Setting, SettingScope};
use super::table::SITE_LISTEN;

/// Returns the word of `known` that is nearest to `word`, if they differ in at most a third of the
/// known word's letters, or in a single letter.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word of this length is far longer than every known word, so none is near.
    if word.len() > 64 {
        return None;
    }
    // Two neighbouring letters that are swapped count as one wrong letter.
    let distance = |candidate| (osa_distance(word, candidate), candidate);
    let (distance, candidate) = known.into_iter().map(distance).min()?;
    (distance <= (candidate.len() / 3).max(1)).then_some(candidate)
}

/// Returns the hint for a setting that is in the wrong section.
pub(super) fn belongs(setting: &Setting) -> &'static str {
    match setting.scope {
        SettingScope::File => "write this setting before the first section",
        SettingScope::Server if setting.name == SITE_LISTEN.name => {
            "write this setting before the first section or in [[site]]; a route is served at the \
             addresses of its site"
        }
        SettingScope::Server => "write this setting of the server before the first section",
        SettingScope::Site => "write this setting in [[site]]",
        SettingScope::PerSite => "write this setting before the first section or in [[site]]",
        SettingScope::Route => {
            "write this setting before the first section, in [[site]] or in [[site.route]]"
        }
        SettingScope::OneRoute => "write this setting in [[site.route]]",
        SettingScope::Everywhere => {
            "write this setting before the first section, in [[site]] or in [[site.route]]"
        }
    }
}

/// Returns the hint for a value of a wrong type, or out of range, that is a typical mistake with
/// the setting of this name.
pub(super) fn value_hint(setting: &str, value: RawValue<'_>) -> Option<&'static str> {
    Some(match (setting, value) {
        ("access_log", RawValue::Bool(true)) => {
            "for standard output, write \"-\"; for a file, its path"
        }
        ("https_redirect_port", RawValue::Bool(true)) => {
            "write 443, or the port of the `https` URL to which clients are sent"
        }
        ("https_redirect_port", RawValue::Bool(false)) => "write 0 for no redirect",
        ("hsts", RawValue::Bool(true)) => {
            "begin with a short time, such as \"max-age=300\": for this many seconds, browsers \
             refuse the site without TLS"
        }
        ("weight", RawValue::Integer(0)) => {
            "to give the origin no requests, leave it out; to keep it as a spare, write backup = \
             true"
        }
        _ => return None,
    })
}

/// Words of other servers and the settings that they mean.
const FOREIGN_WORDS: &[(&str, &str)] = &[
    ("backend", "origin"),
    ("backends", "origin"),
    ("upstream", "origin"),
    ("proxy_pass", "origin"),
    ("server_name", "names"),
    ("host", "names"),
    ("hosts", "names"),
    ("hostname", "names"),
    ("domain", "names"),
    ("domains", "names"),
    ("location", "path_prefix"),
    ("root", "files"),
    ("document_root", "files"),
    ("index", "files_index"),
    ("read_timeout", "origin_first_byte_ms_max"),
    ("proxy_read_timeout", "origin_first_byte_ms_max"),
    ("origin_read_timeout", "origin_first_byte_ms_max"),
    ("resolver", "dns_servers"),
    ("nameserver", "dns_servers"),
    ("nameservers", "dns_servers"),
    ("port", "listen"),
    ("bind", "listen"),
    ("address", "listen"),
    ("threads", "workers"),
    ("worker_processes", "workers"),
    ("memory", "cache_size"),
    ("ttl", "default_freshness_s"),
    ("default_ttl", "default_freshness_s"),
    ("grace", "stale_while_revalidate_s"),
    ("gzip", "compress"),
    ("brotli", "compress"),
    ("compression", "compress"),
    ("gunzip", "decompress"),
    ("decompression", "decompress"),
    ("ssl_certificate", "tls_cert"),
    ("certificate", "tls_cert"),
    ("ssl_certificate_key", "tls_key"),
    ("private_key", "tls_key"),
    ("auth_basic", "basic_auth"),
    ("auth_basic_user_file", "basic_auth"),
    ("allow", "allow_from"),
    ("deny", "deny_from"),
    ("limit_req", "rate_limit"),
    ("error_page", "error_pages"),
    ("client_max_body_size", "body_bytes_max"),
    ("return", "redirect"),
    ("health_check", "health_path"),
    ("algorithm", "balance"),
];

/// Returns the setting that other servers call `word`.
pub(crate) fn foreign_name(word: &str) -> Option<&'static str> {
    FOREIGN_WORDS.iter().find(|(foreign, _)| *foreign == word).map(|(_, setting)| *setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_mean_settings_and_are_none_themselves() {
        let names: Vec<_> = crate::config::all_settings().map(|setting| setting.name).collect();
        for (foreign, meant) in FOREIGN_WORDS {
            assert!(names.contains(meant) && !names.contains(foreign), "{foreign} {meant}");
        }
    }

    #[test]
    fn misspelt_words_find_their_neighbour_and_strange_ones_none() {
        let known = ["listen", "workers", "cache_size", "idle_ms_max", "head_ms_max"];
        let cases = [
            ("listne", Some("listen")),
            ("worker", Some("workers")),
            ("cache_sise", Some("cache_size")),
            ("idle_max", Some("idle_ms_max")),
            ("haed_ms_max", Some("head_ms_max")),
            ("colour", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, known), expected, "{word:?}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
