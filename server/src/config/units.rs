//! Sizes and durations as people write them: `64KiB`, `1GiB`, `250ms`, `10s`, or a plain number.

/// Factor of each size unit, the largest first.
const SIZE_UNITS: &[(&str, u64)] =
    &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Milliseconds in each unit of time, the largest first.
const TIME_UNITS: &[(&str, u64)] =
    &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The reason why a text is not a quantity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnitError {
    /// The text does not begin with a digit, or contains more than a number and a unit.
    NotANumber,
    /// The unit is unknown. The suggestion, if any, is the whole quantity with a known unit.
    Unit(Option<String>),
    /// The value does not fit in 64 bits.
    TooLarge,
}

/// Parses a size, such as `64KiB` or `65536`, into bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    parse(text, SIZE_UNITS, "B")
}

/// Parses a duration, such as `10s`, into milliseconds; a number without a unit is in
/// `plain_unit`.
pub(crate) fn parse_duration(text: &str, plain_unit: &str) -> Result<u64, UnitError> {
    parse(text, TIME_UNITS, plain_unit)
}

/// Returns the number of bytes that a text with a decimal point or several units, such as `1.5GiB`,
/// means.
pub(crate) fn meant_bytes(text: &str) -> Option<u64> {
    sum(text, SIZE_UNITS)
}

/// Returns the milliseconds that a text with a decimal point, several units, weeks or years, such
/// as `1h30m`, means.
pub(crate) fn meant_duration(text: &str) -> Option<u64> {
    let mut units = TIME_UNITS.to_vec();
    units.extend([("w", 7 * 86_400_000), ("y", 365 * 86_400_000)]);
    sum(text, &units)
}

/// Returns the sum of quantities that follow one another.
fn sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let number = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, behind) = rest.split_at(number);
        let unit = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = behind.split_at(unit);
        let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let scaled = format!("{whole}{fraction}").parse::<u64>().ok()?.checked_mul(*factor)?;
        sum = sum.checked_add(scaled.is_multiple_of(scale).then_some(scaled / scale)?)?;
        rest = behind.trim_start();
    }
    Some(sum)
}

/// Writes a number of bytes in the largest unit that gives a whole number.
pub(crate) fn format_bytes(bytes: u64) -> String {
    format(bytes, SIZE_UNITS)
}

/// Writes a number of milliseconds in the largest unit that gives a whole number.
pub(crate) fn format_duration(ms: u64) -> String {
    format(ms, TIME_UNITS)
}

fn parse(text: &str, units: &[(&str, u64)], plain_unit: &str) -> Result<u64, UnitError> {
    let digit_count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digit_count);
    if digits.is_empty() || unit.contains(|c: char| !c.is_ascii_alphabetic() && c != ' ') {
        return Err(UnitError::NotANumber);
    }
    let unit = if unit.is_empty() { plain_unit } else { unit };
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        // A month is no unit, and its first letter would mean a minute.
        if unit.trim().to_ascii_lowercase().starts_with("mon") {
            let days = digits.parse::<u64>().ok().and_then(|months| months.checked_mul(30));
            return Err(UnitError::Unit(days.map(|days| format!("{days}d"))));
        }
        return Err(UnitError::Unit(meant(unit, units).map(|name| format!("{digits}{name}"))));
    };
    let number: u64 = digits.parse().map_err(|_| UnitError::TooLarge)?;
    number.checked_mul(*factor).ok_or(UnitError::TooLarge)
}

/// Guesses which known unit an unknown one, such as `kb`, `K`, ` MiB` or `sec`, means. Case is
/// ignored. Returns the unit with that name, else the unit with the same first letter. Words that
/// begin with `mil` mean `ms`, although `m` has the same first letter.
fn meant<'a>(unit: &str, units: &[(&'a str, u64)]) -> Option<&'a str> {
    let unit = unit.trim().to_ascii_lowercase();
    let same = |name: &&(&str, u64)| name.0.to_ascii_lowercase() == unit;
    let first = |name: &&(&str, u64)| {
        name.0.bytes().next().map(|byte| byte.to_ascii_lowercase()) == unit.bytes().next()
    };
    let milli = unit.starts_with("mil").then_some("ms");
    let by_name = units.iter().find(same).or_else(|| units.iter().find(first));
    milli.filter(|ms| units.iter().any(|(name, _)| name == ms)).or(by_name.map(|(name, _)| *name))
}

fn format(value: u64, units: &[(&str, u64)]) -> String {
    let whole = |(_, factor): &&(&str, u64)| value != 0 && value.is_multiple_of(*factor);
    match units.iter().find(whole) {
        Some((name, factor)) => format!("{}{name}", value / factor),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meaning_of_other_spellings_is_found() {
        let sizes = [("1.5GiB", Some(1536 << 20)), ("0.3KiB", None), ("1.5", None), ("GiB", None)];
        for (text, expected) in sizes {
            assert_eq!(meant_bytes(text), expected, "{text}");
        }
        let times = [("1h30m", Some(5_400_000)), ("1h 30m", Some(5_400_000)), ("1.5s", Some(1500))];
        for (text, expected) in times.into_iter().chain([("2w", Some(1_209_600_000)), ("1q", None)])
        {
            assert_eq!(meant_duration(text), expected, "{text}");
        }
        assert_eq!(meant_duration("1.99999999999999999999999s"), None);
        assert_eq!(meant_duration("99999999999999999999y"), None);
    }

    #[test]
    fn quantities_are_read_with_and_without_unit() {
        let unit = |text: &str| Err(UnitError::Unit(Some(text.to_owned())));
        let sizes = [
            ("0", Ok(0)),
            ("4096", Ok(4096)),
            ("1B", Ok(1)),
            ("64KiB", Ok(65_536)),
            ("1GiB", Ok(1 << 30)),
            ("16777215TiB", Ok(16_777_215 << 40)),
            ("16777216TiB", Err(UnitError::TooLarge)),
            ("99999999999999999999", Err(UnitError::TooLarge)),
            ("", Err(UnitError::NotANumber)),
            ("KiB", Err(UnitError::NotANumber)),
            ("-1", Err(UnitError::NotANumber)),
            ("1.5GiB", Err(UnitError::NotANumber)),
            ("1_000", Err(UnitError::NotANumber)),
            ("64kb", unit("64KiB")),
            ("64 KiB", unit("64KiB")),
            ("1G", unit("1GiB")),
            ("10s", Err(UnitError::Unit(None))),
        ];
        for (text, expected) in sizes {
            assert_eq!(parse_bytes(text), expected, "{text:?}");
        }
        let durations = [
            ("250", Ok(250)),
            ("250ms", Ok(250)),
            ("10s", Ok(10_000)),
            ("1m", Ok(60_000)),
            ("2d", Ok(172_800_000)),
            ("10sec", unit("10s")),
            ("5 minutes", unit("5m")),
            ("5 millis", unit("5ms")),
            ("5MS", unit("5ms")),
            ("1KiB", Err(UnitError::Unit(None))),
        ];
        for (text, expected) in durations {
            assert_eq!(parse_duration(text, "ms"), expected, "{text:?}");
        }
        assert_eq!(parse_duration("3", "s"), Ok(3000));
    }

    #[test]
    fn quantities_are_shown_in_the_largest_whole_unit() {
        let cases = [(0, "0"), (1, "1B"), (1025, "1025B"), (65_536, "64KiB"), (3 << 40, "3TiB")];
        for (value, expected) in cases {
            assert_eq!(format_bytes(value), expected);
            assert_eq!(parse_bytes(expected), Ok(value));
        }
        let cases = [(0, "0"), (250, "250ms"), (10_000, "10s"), (60_000, "1m"), (90_000, "90s")];
        for (value, expected) in cases {
            assert_eq!(format_duration(value), expected);
            assert_eq!(parse_duration(expected, "ms"), Ok(value));
        }
    }
}
