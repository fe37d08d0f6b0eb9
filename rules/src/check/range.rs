//! Checks address ranges: `{10.0.0.0/8,192.0.2.1-192.0.2.9,::1}`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{ast::AddressRange, diagnostic::Diagnostic, lex::SourceWord};

/// Reads the ranges between the braces.
pub(crate) fn ranges(inside: &SourceWord) -> Result<Vec<AddressRange>, Diagnostic> {
    let mut list = Vec::new();
    let mut begin = 0;
    for text in inside.as_str().split(',') {
        let end = begin + text.len();
        let indent = text.len() - text.trim_start().len();
        let trimmed = begin + indent..begin + indent + text.trim().len();
        list.push(range(&inside.part(trimmed))?);
        begin = end + 1;
    }
    Ok(list)
}

fn range(word: &SourceWord) -> Result<AddressRange, Diagnostic> {
    let text = word.as_str();
    if let Some((network, bits)) = text.split_once('/') {
        let first = address(word, network)?;
        return in_network(word, first, bits);
    }
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (address(word, first)?, address(word, last)?),
        None => (address(word, text)?, address(word, text)?),
    };
    if first.is_ipv4() != last.is_ipv4() {
        return Err(Diagnostic::error(word.at, "a range cannot mix IPv4 and IPv6 addresses"));
    }
    if first > last {
        return Err(Diagnostic::error(word.at, "this range ends before it begins"));
    }
    Ok(AddressRange { first, last })
}

fn address(word: &SourceWord, text: &str) -> Result<IpAddr, Diagnostic> {
    text.parse().map_err(|_| {
        let shown = if text.is_empty() { "nothing" } else { text };
        Diagnostic::error(word.at, format!("expected an address, found {shown}")).hint(
            "write 10.0.0.0/8, 192.0.2.1-192.0.2.9 or ::1, for example; names are not resolved",
        )
    })
}

fn in_network(word: &SourceWord, address: IpAddr, bits: &str) -> Result<AddressRange, Diagnostic> {
    let max: u32 = if address.is_ipv4() { 32 } else { 128 };
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let Some(bits) = bits.parse().ok().filter(|bits: &u32| digits && *bits <= max) else {
        let message = format!("a network has 0 to {max} bits, not {bits}");
        return Err(Diagnostic::error(word.at, message));
    };
    Ok(network(address, bits))
}

/// Returns the range of all addresses that have the same first `bits` bits as `address`.
pub(crate) fn network(address: IpAddr, bits: u32) -> AddressRange {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(bits).unwrap_or(0);
            let first = address.to_bits() & !host;
            AddressRange {
                first: Ipv4Addr::from_bits(first).into(),
                last: Ipv4Addr::from_bits(first | host).into(),
            }
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(bits).unwrap_or(0);
            let first = address.to_bits() & !host;
            AddressRange {
                first: Ipv6Addr::from_bits(first).into(),
                last: Ipv6Addr::from_bits(first | host).into(),
            }
        }
    }
}
