//! Does a value have to be what a condition says?

use std::{cell::RefCell, net::IpAddr};

use regex::bytes::{CaptureLocations, Regex};

use super::{
    buffers::{Captured, GROUP_COUNT},
    look::Seen,
};
use crate::ast::{AddressRange, Compare, Matcher};

/// Does the condition hold for this value? `text` is a buffer for values that are no text.
pub(super) fn holds(matcher: &Matcher, seen: Seen<'_>, text: &mut Vec<u8>) -> bool {
    match matcher {
        Matcher::Is => is(seen),
        Matcher::Number { how, with } => {
            number(seen).is_some_and(|number| compare_number(*how, number, *with))
        }
        Matcher::NumberSet(set) => number(seen).is_some_and(|number| set.contains(&number)),
        Matcher::Ranges(ranges) => address(seen).is_some_and(|address| within(ranges, address)),
        Matcher::Text { how, with, nocase } => {
            compare_text(*how, as_text(seen, text), with, *nocase)
        }
        Matcher::TextSet { how, with, nocase } => {
            let text = as_text(seen, text);
            with.iter().any(|with| compare_text(*how, text, with, *nocase))
        }
        Matcher::Regex(regex) => regex.is_match(as_text(seen, text)),
    }
}

/// The same for a regex of which somebody may want to know what it has found.
pub(super) fn captures(
    regex: &Regex,
    locations: &RefCell<CaptureLocations>,
    seen: &[u8],
    captured: &mut Captured,
) -> bool {
    let mut locations = locations.borrow_mut();
    if regex.captures_read(&mut locations, seen).is_none() {
        return false;
    }
    captured.clear();
    for number in 0..GROUP_COUNT.min(locations.len()) {
        let Some((start, end)) = locations.get(number) else {
            continue;
        };
        let kept = captured.bytes.len() as u32;
        captured.bytes.extend_from_slice(seen.get(start..end).unwrap_or_default());
        captured.groups[number] = (kept, captured.bytes.len() as u32);
    }
    true
}

/// A value as text; one that is no text is written into the buffer.
pub(super) fn as_text<'v>(seen: Seen<'v>, text: &'v mut Vec<u8>) -> &'v [u8] {
    if let Seen::Text(seen) = seen {
        return seen;
    }
    text.clear();
    seen.write(text);
    text
}

fn is(seen: Seen<'_>) -> bool {
    match seen {
        Seen::Text(text) => !text.is_empty(),
        Seen::Number(number) => number != 0,
        Seen::Flag(flag) => flag,
        Seen::Address(address) => address.is_some(),
    }
}

fn number(seen: Seen<'_>) -> Option<i64> {
    match seen {
        Seen::Number(number) => Some(number),
        Seen::Text(text) => str::from_utf8(text).ok()?.parse().ok(),
        Seen::Flag(flag) => Some(i64::from(flag)),
        Seen::Address(_) => None,
    }
}

fn compare_number(how: Compare, number: i64, with: i64) -> bool {
    match how {
        Compare::Less => number < with,
        Compare::Greater => number > with,
        _ => number == with,
    }
}

fn address(seen: Seen<'_>) -> Option<IpAddr> {
    match seen {
        Seen::Address(address) => address,
        Seen::Text(text) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn within(ranges: &[AddressRange], address: IpAddr) -> bool {
    // A socket that takes both families shows IPv4 addresses mapped.
    let address = address.to_canonical();
    // Addresses of one family sort among themselves.
    ranges.iter().any(|range| (range.first..=range.last).contains(&address))
}

/// `with` is in lower case if `nocase`.
#[inline]
pub(super) fn compare_text(how: Compare, text: &[u8], with: &[u8], nocase: bool) -> bool {
    let same = |text: &[u8]| match nocase {
        true => text.eq_ignore_ascii_case(with),
        false => text == with,
    };
    if how == Compare::Equal {
        return same(text);
    }
    match how {
        Compare::Equal => same(text),
        Compare::Less => order(text, with, nocase).is_lt(),
        Compare::Greater => order(text, with, nocase).is_gt(),
        Compare::Prefix => text.get(..with.len()).is_some_and(same),
        Compare::Suffix => {
            text.len().checked_sub(with.len()).and_then(|at| text.get(at..)).is_some_and(same)
        }
        Compare::Middle => with.is_empty() || text.windows(with.len()).any(same),
        Compare::Extension => {
            let dot = text.iter().rposition(|byte| *byte == b'.');
            dot.and_then(|dot| text.get(dot + 1..)).is_some_and(same)
        }
    }
}

fn order(text: &[u8], with: &[u8], nocase: bool) -> std::cmp::Ordering {
    match nocase {
        true => text.iter().map(u8::to_ascii_lowercase).cmp(with.iter().copied()),
        false => text.cmp(with),
    }
}
