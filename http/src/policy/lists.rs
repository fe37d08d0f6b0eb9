//! Comma-separated lists (RFC 9110 §5.6.1) whose members may contain quoted strings, and numbers in
//! them.
//!
//! Each line of a field is parsed separately: a quoted string never extends into the next line. A
//! quote that is never closed is an ordinary character, so it cannot hide a directive after it. The
//! cost is linear in the length of any value.

use crate::bytes::{decimal, trim_space};

/// The members of one line, trimmed; skips empty ones.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    split(value).filter(|member| !member.is_empty())
}

/// The members of one line, trimmed, including empty ones: at least one.
pub(crate) fn split(value: &[u8]) -> ListElements<'_> {
    ListElements { rest: Some(value), quotes: true }
}

/// Iterator of [`split`].
#[derive(Clone, Debug)]
pub(crate) struct ListElements<'a> {
    rest: Option<&'a [u8]>,
    /// False after a quote that is never closed.
    quotes: bool,
}

impl<'a> Iterator for ListElements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (member, tail) = rest.split_at_checked(self.member_end(rest))?;
        self.rest = tail.split_first().map(|(_comma, after)| after);
        Some(trim_space(member))
    }
}

impl ListElements<'_> {
    fn member_end(&mut self, rest: &[u8]) -> usize {
        let mut index = 0;
        while let Some(byte) = rest.get(index) {
            match byte {
                b',' => return index,
                b'"' if self.quotes => {
                    match quoted_len(rest.get(index + 1..).unwrap_or_default()) {
                        Some(len) => index += len,
                        None => self.quotes = false,
                    }
                }
                _ => {}
            }
            index += 1;
        }
        index
    }
}

/// The length of a quoted string without its opening quote, but with its closing one (RFC 9110
/// §5.6.4).
fn quoted_len(rest: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// Parses a number that consists of digits only, clamped to `u64::MAX`; `None` for anything else.
///
/// For numbers that are meaningful even if they are too large, unlike a length.
pub(crate) fn saturating_decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| decimal(digits).unwrap_or(u64::MAX))
}
