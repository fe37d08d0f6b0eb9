//! Marks that tell clients apart.

/// Digits of the number in a mark, and of its checksum.
const DIGITS: usize = 8;

/// The marks of one test. A mark is `m` and two times eight hexadecimal digits: a number and its
/// checksum, so that a mutation does not make one mark into another.
pub(crate) struct Marks {
    key: u64,
}

impl Marks {
    /// Makes the marks of a test; `key` makes them differ from the marks of other runs.
    pub(crate) fn new(key: u64) -> Marks {
        Marks { key }
    }

    /// Returns the mark with this number.
    pub(crate) fn number(&self, number: u64) -> String {
        format!("m{:08x}{:08x}", number as u32, self.checksum(number as u32))
    }

    /// Returns every mark in `bytes`, in order.
    pub(crate) fn found_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = String> + 'a {
        let windows = bytes.windows(1 + 2 * DIGITS).filter(|window| window[0] == b'm');
        windows.filter_map(|window| {
            let text = std::str::from_utf8(window).ok()?;
            let number = u32::from_str_radix(text.get(1..=DIGITS)?, 16).ok()?;
            let mark = self.number(number.into());
            (mark == text).then_some(mark)
        })
    }

    fn checksum(&self, number: u32) -> u32 {
        let mixed = (u64::from(number) ^ self.key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
    }
}

#[test]
fn a_mark_is_found_and_a_changed_mark_is_not() {
    let marks = Marks::new(7);
    let (one, two) = (marks.number(1), marks.number(2));
    let text = format!("m{one}, {two}{}", &one[..16]);
    assert_eq!(marks.found_in(text.as_bytes()).collect::<Vec<_>>(), [one.clone(), two.clone()]);
    let spliced = format!("{}{}", &one[..9], &two[9..]);
    assert_eq!(marks.found_in(spliced.as_bytes()).count(), 0);
}
