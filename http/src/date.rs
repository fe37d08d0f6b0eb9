//! HTTP-date (RFC 9110 §5.6.7) as Unix seconds.

use std::{
    io::Write,
    time::{Duration, SystemTime},
};

/// Length of a date that [`write_date`] writes: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// The last second of the year 9999; later years need five digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// Parses any of the three formats; `None` for everything else, and for dates before 1970.
///
/// RFC 9111 §4.2: the names of days, months and the zone match in any case, and no zone other than
/// GMT is accepted. The name of the day adds nothing to the date, so a wrong one is accepted (RFC
/// 9110 §5.6.7 asks recipients to be lenient); any other deviation from the formats makes a date
/// invalid. A response with an invalid Expires counts as stale.
// RFC: 9111-4.2-1, 9111-4.2-3, 9111-4.2-4
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let text = DateText(value);
    imf_fixdate(text).or_else(|| rfc850_date(text)).or_else(|| asctime_date(text))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Parses the preferred format: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn imf_fixdate(mut text: DateText<'_>) -> Option<u64> {
    text.name(&DAYS)?;
    let (year, month, day, second) = text.day_first(" ", 4)?;
    unix_seconds(year, month, day, second)
}

/// Parses the format of RFC 850: `Sunday, 06-Nov-94 08:49:37 GMT`. Years from 70 on are in the 20th
/// century.
fn rfc850_date(mut text: DateText<'_>) -> Option<u64> {
    text.name(&LONG_DAYS)?;
    let (year, month, day, second) = text.day_first("-", 2)?;
    unix_seconds(if year < 70 { 2000 + year } else { 1900 + year }, month, day, second)
}

/// Parses the format of C's `asctime`: `Sun Nov  6 08:49:37 1994`.
fn asctime_date(mut text: DateText<'_>) -> Option<u64> {
    text.name(&DAYS)?;
    text.literal(" ")?;
    let month = text.name(&MONTHS)?;
    text.literal(" ")?;
    let day = match text.literal(" ") {
        Some(()) => text.digits(1)?,
        None => text.digits(2)?,
    };
    let second = text.time_of_day()?;
    text.literal(" ")?;
    let year = text.digits(4)?;
    text.end()?;
    unix_seconds(year, month, day, second)
}

/// The rest of a date that is being parsed.
#[derive(Clone, Copy)]
struct DateText<'a>(&'a [u8]);

impl DateText<'_> {
    /// Parses the text `expected`, ignoring case.
    fn literal(&mut self, expected: &str) -> Option<()> {
        let (text, rest) = self.0.split_at_checked(expected.len())?;
        if !text.eq_ignore_ascii_case(expected.as_bytes()) {
            return None;
        }
        self.0 = rest;
        Some(())
    }

    /// Parses one of these names and returns its index.
    fn name(&mut self, names: &[&str]) -> Option<u64> {
        names.iter().zip(0..).find_map(|(name, index)| self.literal(name).map(|()| index))
    }

    /// Parses a number of exactly `count` digits.
    fn digits(&mut self, count: usize) -> Option<u64> {
        let (text, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        text.iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
        })
    }

    /// Parses the rest of a date from the comma on, such as `, 06 Nov 1994 08:49:37 GMT`, to the
    /// end of the text. `separator` stands between day, month and year, and the year has
    /// `year_digits` digits. Returns the year, the month, the day and the second of the day.
    fn day_first(&mut self, separator: &str, year_digits: usize) -> Option<(u64, u64, u64, u64)> {
        self.literal(", ")?;
        let day = self.digits(2)?;
        self.literal(separator)?;
        let month = self.name(&MONTHS)?;
        self.literal(separator)?;
        let year = self.digits(year_digits)?;
        let second = self.time_of_day()?;
        self.literal(" GMT")?;
        self.end()?;
        Some((year, month, day, second))
    }

    /// Parses ` 08:49:37` and returns the second of the day.
    fn time_of_day(&mut self) -> Option<u64> {
        self.literal(" ")?;
        let hour = self.digits(2)?;
        self.literal(":")?;
        let minute = self.digits(2)?;
        self.literal(":")?;
        let second = self.digits(2)?;
        let is_valid = hour < 24 && minute < 60 && second < 60;
        is_valid.then_some((hour * 60 + minute) * 60 + second)
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Returns the Unix seconds of a date; `None` before 1970, and for a day that the month does not
/// have. `month` counts from 0, `day` from 1.
fn unix_seconds(year: u64, month: u64, day: u64, second: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_in_month = match month {
        1 if is_leap => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    };
    if year < 1970 || !(1..=days_in_month).contains(&day) {
        return None;
    }
    // Here a year begins in March, so that a leap day is the last day of its year.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    const DAYS_TO_1970: u64 = 719_468;
    Some((365 * year + leap_days + day_of_year - DAYS_TO_1970) * 86_400 + second)
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

    // RFC: 9111-4.2-1, 9111-4.2-3, 9111-4.2-4
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
            ("Mon, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Monday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Mon Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Mon Nov 06 08:49:37 1994", Some(784_111_777)),
            ("Abc, 06 Nov 1994 08:49:37 GMT", None),
            (", 06 Nov 1994 08:49:37 GMT", None),
            ("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400)),
            ("Thu, 29 Feb 2024 12:00:00 GMT", Some(1_709_208_000)),
            ("Wed, 29 Feb 2023 00:00:00 GMT", None),
            ("Mon, 29 Feb 2100 00:00:00 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Wed, 01 Jan 0000 00:00:00 GMT", None),
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
