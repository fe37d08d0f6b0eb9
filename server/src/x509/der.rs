//! Distinguished Encoding Rules (X.690): reading of elements.

/// Tags of DER (X.690 §8).
pub(super) mod tag {
    pub(in crate::x509) const INTEGER: u8 = 0x02;
    pub(in crate::x509) const BIT_STRING: u8 = 0x03;
    pub(in crate::x509) const OCTET_STRING: u8 = 0x04;
    pub(in crate::x509) const OBJECT_IDENTIFIER: u8 = 0x06;
    pub(in crate::x509) const UTF8_STRING: u8 = 0x0c;
    pub(in crate::x509) const PRINTABLE_STRING: u8 = 0x13;
    pub(in crate::x509) const IA5_STRING: u8 = 0x16;
    /// The two forms of a time.
    pub(in crate::x509) const TIMES: [u8; 2] = [0x17, 0x18];
    pub(in crate::x509) const ENUMERATED: u8 = 0x0a;
    pub(in crate::x509) const SEQUENCE: u8 = 0x30;
    pub(in crate::x509) const SET: u8 = 0x31;
    /// The first optional element of a sequence, such as the version of a certificate.
    pub(in crate::x509) const FIRST_OPTION: u8 = 0xa0;
    /// The extensions of a certificate.
    pub(in crate::x509) const EXTENSIONS: u8 = 0xa3;
}

/// Reads the elements of a piece of DER, one after the other.
#[derive(Clone, Copy)]
pub(super) struct DerElements<'a>(pub(super) &'a [u8]);

/// An element of DER.
#[derive(Clone, Copy)]
pub(super) struct DerElement<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// The element with its tag and length.
    pub(super) whole: &'a [u8],
}

impl<'a> DerElements<'a> {
    pub(super) fn peek(mut self) -> Option<DerElement<'a>> {
        self.next()
    }

    /// Returns the content of the next element; `None` if it has another tag.
    pub(super) fn next_of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|element| element.tag == tag).map(|element| element.content)
    }
}

/// Ends at the first malformed element.
impl<'a> Iterator for DerElements<'a> {
    type Item = DerElement<'a>;

    fn next(&mut self) -> Option<DerElement<'a>> {
        let all = self.0;
        self.0 = &[];
        let (&tag, rest) = all.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        let (whole, _) = all.split_at_checked(all.len() - after.len())?;
        self.0 = after;
        Some(DerElement { tag, content, whole })
    }
}

/// Returns all elements of a piece of DER; `None` if any of them is malformed.
pub(super) fn elements(der: &[u8]) -> Option<Vec<DerElement<'_>>> {
    let mut found = Vec::new();
    let mut left = DerElements(der);
    while !left.0.is_empty() {
        found.push(left.next()?);
    }
    Some(found)
}

/// Returns the Unix time in seconds of `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`.
pub(super) fn unix_time(text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        let part = digits.get(range)?;
        Some(part.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    };
    let (year, at) = match digits.len() {
        12 => (number(0..2)?, 2),
        14 => (number(0..4)?, 4),
        _ => return None,
    };
    let year = if at == 2 { year + if year < 50 { 2000 } else { 1900 } } else { year };
    let (month, day) = (number(at..at + 2)?, number(at + 2..at + 4)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    let seconds =
        number(at + 4..at + 6)? * 3600 + number(at + 6..at + 8)? * 60 + number(at + 8..at + 10)?;
    // Days since 1970 in the Gregorian calendar, with years that begin in March.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    days.checked_sub(719_469).map(|days| days * 86_400 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_certificates_are_unix_seconds() {
        for (text, expected) in [
            ("19700101000000Z", Some(0)),
            ("700101000001Z", Some(1)),
            ("000229120000Z", Some(951_825_600)),
            ("491231235959Z", Some(2_524_607_999)),
            ("20500101000000Z", Some(2_524_608_000)),
            ("20261125000000Z", Some(1_795_564_800)),
            ("2026112500000Z", None),
            ("00000101000000Z", None),
            ("00000301000000Z", None),
            ("99991231235959Z", Some(253_402_300_799)),
            ("20260025000000Z", None),
            ("20261325000000Z", None),
            ("20269925000000Z", None),
            ("20261125000000", None),
            ("", None),
        ] {
            assert_eq!(unix_time(text.as_bytes()), expected, "{text}");
        }
    }
}
