//! Matches values against the operands of conditions.

use std::{cell::RefCell, net::IpAddr};

use regex::bytes::{CaptureLocations, Regex};

use super::{
    buffers::{CaptureGroups, GROUP_COUNT},
    evaluate::SubjectValue,
};
use crate::ast::{AddressRange, Comparison, Matcher};

/// Whether the value matches. `text` is a buffer for values that are not text.
pub(super) fn holds(matcher: &Matcher, seen: SubjectValue<'_>, text: &mut Vec<u8>) -> bool {
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

/// Whether the text matches a regex. Stores the captured groups of a match, for later use.
pub(super) fn captures(
    regex: &Regex,
    locations: &RefCell<CaptureLocations>,
    seen: &[u8],
    captured: &mut CaptureGroups,
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

/// Returns a value as text. A value of another type is written to the buffer `text`.
pub(super) fn as_text<'v>(seen: SubjectValue<'v>, text: &'v mut Vec<u8>) -> &'v [u8] {
    if let SubjectValue::Text(seen) = seen {
        return seen;
    }
    text.clear();
    seen.write(text);
    text
}

fn is(seen: SubjectValue<'_>) -> bool {
    match seen {
        SubjectValue::Text(text) => !text.is_empty(),
        SubjectValue::Number(number) => number != 0,
        SubjectValue::Flag(flag) => flag,
        SubjectValue::Address(address) => address.is_some(),
    }
}

fn number(seen: SubjectValue<'_>) -> Option<i64> {
    match seen {
        SubjectValue::Number(number) => Some(number),
        SubjectValue::Text(text) => str::from_utf8(text).ok()?.parse().ok(),
        SubjectValue::Flag(flag) => Some(i64::from(flag)),
        SubjectValue::Address(_) => None,
    }
}

fn compare_number(how: Comparison, number: i64, with: i64) -> bool {
    match how {
        Comparison::Less => number < with,
        Comparison::Greater => number > with,
        _ => number == with,
    }
}

fn address(seen: SubjectValue<'_>) -> Option<IpAddr> {
    match seen {
        SubjectValue::Address(address) => address,
        SubjectValue::Text(text) => str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

fn within(ranges: &[AddressRange], address: IpAddr) -> bool {
    // A dual-stack socket shows IPv4 addresses in mapped form.
    let address = address.to_canonical();
    // All IPv4 addresses order before all IPv6 addresses, so a range of one family contains no
    // address of the other.
    ranges.iter().any(|range| (range.first..=range.last).contains(&address))
}

/// Compares two texts; `with` is in lower case if `nocase`.
#[inline]
pub(super) fn compare_text(how: Comparison, text: &[u8], with: &[u8], nocase: bool) -> bool {
    let same = |text: &[u8]| match nocase {
        true => text.eq_ignore_ascii_case(with),
        false => text == with,
    };
    if how == Comparison::Equal {
        return same(text);
    }
    match how {
        Comparison::Equal => same(text),
        Comparison::Less => order(text, with, nocase).is_lt(),
        Comparison::Greater => order(text, with, nocase).is_gt(),
        Comparison::Prefix => text.get(..with.len()).is_some_and(same),
        Comparison::Suffix => {
            text.len().checked_sub(with.len()).and_then(|at| text.get(at..)).is_some_and(same)
        }
        Comparison::Middle => with.is_empty() || text.windows(with.len()).any(same),
        Comparison::Extension => {
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
