//! Lists of selectors. A selector is a byte string that a caller makes from a request and one of
//! the sets of field names in a base record; it selects one variant. A request has a selector for
//! each set.
//!
//! The module does not interpret selectors. Selectors for different sets of field names have to
//! differ.

/// The number of bytes of the little-endian length that comes before each selector.
const LENGTH_BYTES: usize = 4;

/// Appends a selector, which `write` appends to the list. Returns the position of the selector.
pub fn push_selector(list: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let at = list.len();
    list.extend_from_slice(&[0; LENGTH_BYTES]);
    write(list);
    let length = (list.len() - at - LENGTH_BYTES) as u32;
    if let Some(bytes) = list.get_mut(at..at + LENGTH_BYTES) {
        bytes.copy_from_slice(&length.to_le_bytes());
    }
    at + LENGTH_BYTES
}

/// Iterates over the selectors of a list.
pub fn selectors(list: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = list;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (selector, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        rest = after;
        Some(selector)
    })
}

/// Returns a list of one selector.
pub fn selector_list(selector: &[u8]) -> Vec<u8> {
    let mut list = Vec::new();
    push_selector(&mut list, |list| list.extend_from_slice(selector));
    list
}
