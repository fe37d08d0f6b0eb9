//! Finds texts that no address matches. Addresses are compared as texts, in their canonical form.

use std::net::IpAddr;

use super::{Mismatch, TextComparison};
use crate::{
    ast::{AddressKind, Comparison},
    check::range::network,
};

/// Returns a warning if no value of `IP:…` or `INBOUND:…-ADDR` matches this text.
pub(super) fn never(which: AddressKind, how: TextComparison, text: &str) -> Option<Mismatch> {
    if how.compare != Comparison::Equal {
        return never_part(how, text);
    }
    let may_be_empty = matches!(which, AddressKind::Server | AddressKind::Outbound);
    if text.is_empty() && may_be_empty {
        return None;
    }
    match text.parse::<IpAddr>() {
        Ok(address) => other_form(address, how, text),
        Err(_) => Some(no_address(text)),
    }
}

/// Returns a warning if no value of `CIDR`, an address reduced to its first bits, matches this
/// text.
pub(super) fn never_cidr(bits: (u8, u8), how: TextComparison, text: &str) -> Option<Mismatch> {
    if how.compare != Comparison::Equal {
        return never_part(how, text);
    }
    let (address, has_bits) = match text.split_once('/') {
        Some((address, _)) => (address, true),
        None => (text, false),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Some((
            format!("{text:?} is not an address"),
            "write an address, such as =10.0.0.0".into(),
        ));
    };
    let address = address.to_canonical();
    let left = if address.is_ipv4() { bits.0 } else { bits.1 };
    let first = network(address, u32::from(left)).first;
    if has_bits {
        let message = "the value is an address without a prefix length".into();
        return Some((message, format!("write ={first}")));
    }
    if first != address {
        let message = format!("the address is reduced to {left} bits, but the operand has more");
        return Some((message, format!("write ={first}")));
    }
    other_form(address, how, text)
}

/// Returns a warning if the text is not the canonical form of the address: `2001:db8::1` for
/// `2001:DB8::1` (RFC 5952), or `10.0.0.1` for `::ffff:10.0.0.1`.
fn other_form(address: IpAddr, how: TextComparison, text: &str) -> Option<Mismatch> {
    let canonical = address.to_canonical().to_string();
    let same = match how.nocase {
        true => canonical.eq_ignore_ascii_case(text),
        false => canonical == text,
    };
    (!same).then(|| {
        let message =
            "addresses are compared as texts, and this is not the canonical form of the address"
                .into();
        (message, format!("write {canonical}, or a range, which takes any form: {{{text}}}"))
    })
}

fn no_address(text: &str) -> Mismatch {
    let is_address = |text: &str| text.trim().parse::<IpAddr>().is_ok();
    let first = text.split(['/', '-']).next().unwrap_or_default();
    let hint = match text.contains(['/', '-']) && is_address(first) {
        true => format!("write networks and ranges in braces: {{{text}}}"),
        false => {
            "write an address, such as 192.0.2.1 or 2001:db8::1; names are not looked up".into()
        }
    };
    (format!("{text:?} is not an address"), hint)
}

/// Returns a warning if no address contains this text, for comparisons such as `[PRE]`.
fn never_part(how: TextComparison, text: &str) -> Option<Mismatch> {
    let occurs = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'f' | b'.' | b':' => true,
        b'A'..=b'F' => how.nocase,
        _ => false,
    };
    if text.bytes().all(occurs) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let hint = match lower.bytes().all(occurs) {
        true => lower,
        false => "write networks and ranges in braces: %{IP:CLIENT} {10.0.0.0/8}".into(),
    };
    Some((format!("no address contains {text:?}"), hint))
}
