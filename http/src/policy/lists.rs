//! Comma-separated lists (RFC 9110 §5.6.1) whose members may contain quoted strings, and the
//! numbers in such lists.
//!
//! Each line of a field is parsed separately: a quoted string never extends into the next line. A
//! quote that is never closed is an ordinary character, so it cannot hide a directive after it. The
//! cost is linear in the length of any value.

use crate::bytes::{decimal, trim_space};

/// Iterates over the trimmed members of one line, skipping empty members.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    split(value).filter(|member| !member.is_empty())
}

/// Iterates over the trimmed members of one line, including empty members. There is at least one
/// member.
pub(crate) fn split(value: &[u8]) -> ListElements<'_> {
    ListElements { rest: Some(value), quotes: true }
}

/// Returns the length of the first member of a line, with the space around it.
pub(crate) fn first_len(value: &[u8]) -> usize {
    split(value).member_end(value)
}

/// The iterator that [`split`] returns.
#[derive(Clone, Debug)]
pub(crate) struct ListElements<'a> {
    rest: Option<&'a [u8]>,
    /// Whether a quote begins a quoted string: false after a quote that is never closed.
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

/// Returns the length of a quoted string without its opening quote, but with its closing quote (RFC
/// 9110 §5.6.4); `None` if it has no closing quote.
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
/// Use this only for numbers that keep their meaning when clamped, unlike a body length.
// RFC: 9110-14.1.2-1
pub(crate) fn saturating_decimal(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| decimal(digits).unwrap_or(u64::MAX))
}
