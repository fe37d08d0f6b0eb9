//! Parts of the time, in UTC.

use crate::ast::TimePart;

const DAY_S: u64 = 86_400;

/// Returns a part of this Unix time.
pub(super) fn part_of(now: u64, part: TimePart) -> i64 {
    let days = now / DAY_S;
    let value = match part {
        TimePart::Epoch => now,
        TimePart::Hour => now % DAY_S / 3_600,
        TimePart::Minute => now % 3_600 / 60,
        // 1 January 1970 was a Thursday.
        TimePart::Weekday => (days + 4) % 7,
        TimePart::Year => civil(days).year,
        TimePart::Month => civil(days).month - 1,
        TimePart::Day => civil(days).day,
        TimePart::YearDay => civil(days).year_day,
    };
    i64::try_from(value).unwrap_or(i64::MAX)
}

struct CivilDate {
    year: u64,
    /// The month, 1 to 12.
    month: u64,
    /// The day of the month, 1 to 31.
    day: u64,
    /// The day of the year, 0 to 365.
    year_day: u64,
}

/// Converts a day counted from 1970 to a Gregorian date.
///
/// A year of this algorithm begins in March, so that the leap day is the last day of its year
/// (Howard Hinnant, "chrono-compatible low-level date algorithms", 2013).
fn civil(days: u64) -> CivilDate {
    const ERA_DAYS: u64 = 146_097;
    let shifted = days + 719_468;
    let day_of_era = shifted % ERA_DAYS;
    let leaps = day_of_era / 1_460;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leaps - day_of_era / 146_096) / 365;
    let march_day = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * march_day + 2) / 153;
    let day = march_day - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + shifted / ERA_DAYS * 400 + u64::from(month <= 2);
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let before_march = 59 + u64::from(is_leap);
    let year_day = if march_day >= 306 { march_day - 306 } else { march_day + before_march };
    CivilDate { year, month, day, year_day }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_time_agree_with_the_calendar() {
        // As printed by `date -u -d @N '+%Y %m %d %H %M %w %j'`, with the month and the day of the
        // year counted from 0.
        for (now, expected) in [
            (0, [1970, 0, 1, 0, 0, 4, 0]),
            (951_782_399, [2000, 1, 28, 23, 59, 1, 58]),
            (951_782_400, [2000, 1, 29, 0, 0, 2, 59]),
            (951_868_800, [2000, 2, 1, 0, 0, 3, 60]),
            (1_767_225_599, [2025, 11, 31, 23, 59, 3, 364]),
            (1_767_225_600, [2026, 0, 1, 0, 0, 4, 0]),
            (1_735_603_199, [2024, 11, 30, 23, 59, 1, 364]),
            (4_107_542_400, [2100, 2, 1, 0, 0, 1, 59]),
        ] {
            let parts = [
                TimePart::Year,
                TimePart::Month,
                TimePart::Day,
                TimePart::Hour,
                TimePart::Minute,
                TimePart::Weekday,
                TimePart::YearDay,
            ];
            assert_eq!(parts.map(|part| part_of(now, part)), expected, "{now}");
        }
        assert_eq!(part_of(12_345, TimePart::Epoch), 12_345);
    }
}
