//! Selects stored responses through the admin interface, and prints refusals, sizes and times.

use clap::ArgMatches;
use serde_json::Value;

/// Arguments of commands that are passed to the admin interface as query parameters of the same
/// names.
const VALUES: [&str; 5] = ["host", "prefix", "tag", "site", "after"];

/// Returns the query for the selection, such as `?host=…`; empty if no such argument was given.
pub(super) fn query(args: &ArgMatches, more: &[(&str, Option<String>)]) -> String {
    let text = |name: &str| args.try_get_one::<String>(name).ok().flatten().cloned();
    let values = VALUES.iter().map(|name| (*name, text(name))).chain(more.iter().cloned());
    let parts = values.filter_map(|(name, value)| Some(format!("{name}={}", encoded(&value?))));
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

/// Percent-encodes every byte other than the unreserved characters of RFC 3986.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Returns the message for a refused request. It names the rejected argument and marks the place of
/// the error in its value.
pub(super) fn refusal(args: &ArgMatches, body: &str) -> String {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let Some(error) = answer["error"].as_str() else {
        return body.trim_end().to_owned();
    };
    let Some(argument) = answer["argument"].as_str() else {
        return error.to_owned();
    };
    let said = format!("--{argument}: {error}");
    let value = args.try_get_one::<String>(argument).ok().flatten();
    let at = answer["at"].as_u64().and_then(|at| usize::try_from(at).ok());
    match (value, at) {
        (Some(value), Some(at)) => format!("{said}\n{}", with_caret(value, at)),
        (Some(value), None) => format!("{said}: {value}"),
        (None, _) => said,
    }
}

/// Returns the value, and below it a line with a caret under the byte `at`.
fn with_caret(value: &str, at: usize) -> String {
    let shown: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let before = value.get(..value.floor_char_boundary(at)).unwrap_or_default();
    format!("  {shown}\n  {}^", " ".repeat(before.chars().count()))
}

/// Returns a size with a binary unit.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// Returns a time in its largest useful unit, with a minus sign if it is negative.
pub(super) fn time(seconds: i64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.unsigned_abs();
    // A unit is used for times of at least twice its length.
    let unit = UNITS.iter().find(|(unit, _)| seconds >= 2 * unit);
    let (unit, name) = unit.copied().unwrap_or((1, "s"));
    format!("{sign}{}{name}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caret_marks_the_error_in_a_value() {
        for (value, at, expected) in [
            ("a and", 5, "  a and\n       ^"),
            ("ä or", 3, "  ä or\n    ^"),
            ("\u{1b}[2J", 0, "   [2J\n  ^"),
            ("", 0, "  \n  ^"),
            ("a", 99, "  a\n   ^"),
        ] {
            assert_eq!(with_caret(value, at), expected);
        }
    }

    #[test]
    fn sizes_and_times_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_572_864, "1.5 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        for (seconds, expected) in [
            (0, "0s"),
            (1, "1s"),
            (119, "119s"),
            (120, "2m"),
            (-300, "-5m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (-200_000, "-2d"),
            (i64::MIN, "-106751991167300d"),
        ] {
            assert_eq!(time(seconds), expected);
        }
    }

    #[test]
    fn a_query_can_hold_any_text() {
        assert_eq!(encoded("a b&c=%/é\""), "a%20b%26c%3D%25%2F%C3%A9%22");
    }
}
