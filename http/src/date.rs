//! HTTP-date (RFC 9110 §5.6.7) as Unix seconds.

use std::{
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Length of a date that [`write_date`] writes: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// Length of the longest date that is accepted: `Wednesday, 09-Nov-94 08:49:37 GMT`.
const DATE_BYTES_MAX: usize = 33;

/// The last second of the year 9999; later years need five digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// Parses any of the three formats; `None` for everything else, and for dates before 1970.
///
/// RFC 9111 §4.2: the names of days, months and the zone match in any case, and no zone other than
/// GMT is accepted. Any other deviation from the formats makes a date invalid. A response with an
/// invalid Expires counts as stale.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let mut buffer = [0; DATE_BYTES_MAX];
    let text = buffer.get_mut(..value.len())?;
    text.copy_from_slice(value);
    capitalise(text);
    // `httpdate` does not check the byte before the time in every format.
    if text.ends_with(b"GMT") && text.get(text.len().checked_sub(13)?) != Some(&b' ') {
        return None;
    }
    let date = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Converts `sun, 06 NOV 1994 08:49:37 gmt` to the usual case.
fn capitalise(text: &mut [u8]) {
    let mut is_inside_word = false;
    for byte in text.iter_mut() {
        if is_inside_word {
            byte.make_ascii_lowercase();
        } else {
            byte.make_ascii_uppercase();
        }
        is_inside_word = byte.is_ascii_alphabetic();
    }
    if let [.., g, m, t] = text
        && (*g, *m, *t) == (b'G', b'm', b't')
    {
        (*m, *t) = (b'M', b'T');
    }
}

/// Writes a date in the preferred format. Times after the year 9999 become its last second.
pub fn write_date(unix_s: u64) -> [u8; DATE_BYTES] {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(unix_s.min(LAST_SECOND));
    let mut date = [b' '; DATE_BYTES];
    let written = write!(&mut date[..], "{}", httpdate::HttpDate::from(time));
    debug_assert!(written.is_ok(), "an HTTP date is longer than {DATE_BYTES} bytes");
    date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_one_of_three_formats_in_any_case() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("sun, 06 NOV 1994 08:49:37 gmt", Some(784_111_777)),
            ("SUNDAY, 06-nov-94 08:49:37 Gmt", Some(784_111_777)),
            ("Wednesday, 09-Nov-94 08:49:37 GMT", Some(784_370_977)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(LAST_SECOND)),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 1994 08:49:37 AEST", None),
            ("Sun, 06 Nov 1994 08:49:37 +0000", None),
            ("Sun, 06 Nov 1994 08:49:37", None),
            ("Sun, 06 Nov 94 08:49:37 GMT", None),
            ("Sun 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06-Nov-1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 8:49:37 GMT", None),
            ("Sun, 6 Nov 1994 08:49:37 GMT", None),
            ("Sun,  06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06  Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("Sun, 06 Nov 1994 08.49.37 GMT", None),
            ("Sunday, 06-Nov-94X08:49:37 GMT", None),
            ("Mon, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("Wed, 31 Dec 1969 23:59:59 GMT", None),
            ("0", None),
            ("-1", None),
            ("", None),
            ("GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("S\u{fc}n, 06 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(parse_date(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_written_date_reads_back() {
        assert_eq!(&write_date(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        let days = (0..3_000).map(|day| day * 86_400 * 900 + 12_345);
        for unix_s in days.chain([0, LAST_SECOND]).filter(|unix_s| *unix_s <= LAST_SECOND) {
            assert_eq!(parse_date(&write_date(unix_s)), Some(unix_s));
        }
        assert_eq!(write_date(u64::MAX), write_date(LAST_SECOND));
    }
}
