//! Filters of rules: addresses and methods that may use them.

use std::fmt::Write;

use super::mapping::{AclFilter, MappingRule};
use super::source::TsSource;
use crate::toml::TomlTable;

/// Elements that `allow_from` and `deny_from` may have.
const ADDRESSES_MAX: usize = 256;

/// The methods that Traffic Server knows.
const METHODS: &[&str] =
    &["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PURGE", "PUSH", "PUT", "TRACE"];

/// A restriction that cannot be carried over.
pub(super) struct FilterRefusal;

/// Writes the filters of a rule: lists of addresses as settings, all others as header rules. Each
/// filter has to let a request pass.
pub(super) fn write(
    source: &TsSource,
    rule: &MappingRule,
    table: &mut TomlTable,
    rules: &mut Vec<String>,
) -> Result<(), FilterRefusal> {
    let (mut denied, mut text) = (Vec::new(), String::new());
    let mut allowed: Option<&[String]> = None;
    for filter in &rule.filters {
        if let Some(unknown) = &filter.unknown {
            // An empty text stands for a rule that is noted already.
            let message = format!("{unknown} has no counterpart");
            if unknown.is_empty() || source.refuse(&rule.at, &rule.directive, &message) {
                return Err(FilterRefusal);
            }
            continue;
        }
        let is_list = filter.methods.is_empty() && !filter.addresses.is_empty();
        let is_plain = is_list && filter.addresses.iter().all(|address| is_network(address));
        let has_room = filter.addresses.len() + denied.len() <= ADDRESSES_MAX;
        match (is_plain && has_room, filter.allows) {
            (true, true) if allowed.is_none() => allowed = Some(&filter.addresses),
            (true, false) => denied.extend(filter.addresses.iter().cloned()),
            _ => match rule_text(filter) {
                Some(rule) => text.push_str(&rule),
                None => {
                    let message = "the addresses or methods of a filter have no counterpart";
                    if source.refuse(&rule.at, &rule.directive, message) {
                        return Err(FilterRefusal);
                    }
                }
            },
        }
    }
    if let Some(allowed) = allowed {
        table.texts("allow_from", allowed);
    }
    if !denied.is_empty() {
        table.texts("deny_from", &denied);
    }
    if !text.is_empty() {
        rules.push(source.rules("filter", text));
    }
    Ok(())
}

/// A header rule that answers 403 to the requests that a filter does not let pass.
fn rule_text(filter: &AclFilter) -> Option<String> {
    // With another one, Traffic Server may also refuse requests with the usual methods.
    if !filter.methods.iter().all(|method| METHODS.contains(&method.as_str())) {
        return None;
    }
    let is_inverted = filter.addresses.iter().any(|address| address.starts_with('~'));
    if is_inverted && filter.addresses.len() > 1 {
        return None;
    }
    let addresses: Vec<_> =
        filter.addresses.iter().map(|address| address.trim_start_matches('~')).collect();
    if !addresses.iter().all(|address| is_range(address)) {
        return None;
    }
    let mut out = String::from("cond %{REMAP_PSEUDO_HOOK}\n");
    // `allow` refuses what one of its conditions does not have; `deny` what all of them have.
    let flags = |is_last: bool, inverted: bool| match (filter.allows, is_last, inverted) {
        (true, true, false) | (false, _, true) => " [NOT]",
        (true, true, true) | (false, _, false) => "",
        (true, false, false) => " [NOT,OR]",
        (true, false, true) => " [OR]",
    };
    if !filter.methods.is_empty() {
        let flags = flags(addresses.is_empty(), false);
        let _ = writeln!(out, "cond %{{METHOD}} ({}){flags}", filter.methods.join(","));
    }
    if !addresses.is_empty() {
        let flags = flags(true, is_inverted);
        let _ = writeln!(out, "cond %{{IP:CLIENT}} {{{}}}{flags}", addresses.join(","));
    }
    if filter.methods.is_empty() && addresses.is_empty() {
        if filter.allows {
            return Some(String::new());
        }
        out.push_str("cond %{TRUE}\n");
    }
    out.push_str("set-status 403 [L]\n");
    Some(out)
}

/// Whether a text is an address or a network.
pub(super) fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let most: u32 = if address.is_ipv4() { 32 } else { 128 };
    let Some(bits) = bits.parse::<u32>().ok().filter(|bits| *bits <= most) else { return false };
    let tail = match address {
        std::net::IpAddr::V4(address) => {
            u128::from(address.to_bits() & u32::MAX.checked_shr(bits).unwrap_or(0))
        }
        std::net::IpAddr::V6(address) => {
            address.to_bits() & u128::MAX.checked_shr(bits).unwrap_or(0)
        }
    };
    !text.contains('/') || tail == 0
}

/// Whether a text is an address, a network, or two addresses with a hyphen.
pub(super) fn is_range(text: &str) -> bool {
    let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    is_network(text)
        || text.split_once('-').is_some_and(|(from, to)| is_address(from) && is_address(to))
}
