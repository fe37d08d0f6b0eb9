//! The encoder of header blocks, without a dynamic table.
//!
//! A block is valid on every connection and at every time, so the head of a stored response is
//! encoded once. A client that makes its decoder's table smaller expects one size update at the
//! start of the next block (RFC 7541 §4.2). In that case [`EMPTY_TABLE`] is written in front of the
//! block.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use forebay_http::fields::FieldId;

use super::integer;
use super::static_table::static_name;

/// The indexes of `www-authenticate` and of the other fields whose values are secrets. RFC 7541
/// §7.1.3: no next hop may index them either.
const NEVER_INDEXED: [u8; 5] = [23, 32, 49, 55, 61];

/// The index in the static table of each well-known field; 0 if it is not in the table.
#[expect(clippy::indexing_slicing, reason = "checked while compiling")]
const INDEX_OF_FIELD: [u8; FieldId::ALL.len()] = {
    let mut indexes = [0; FieldId::ALL.len()];
    let mut at = 0;
    while at < indexes.len() {
        if let Some(index) = static_name(FieldId::ALL[at].name().as_bytes()) {
            indexes[at] = index as u8;
        }
        at += 1;
    }
    indexes
};

/// The statuses in the static table, and their indexes.
const STATUSES: [(u16, u8); 7] =
    [(200, 8), (304, 11), (206, 10), (404, 13), (204, 9), (400, 12), (500, 14)];

/// Appends `:status`. It is the first line of the block of a response.
pub fn encode_status(out: &mut Vec<u8>, status: u16) {
    if let Some((_, index)) = STATUSES.iter().find(|(known, _)| *known == status) {
        out.push(0x80 | index);
        return;
    }
    let digits = [100, 10, 1].map(|unit| b'0' + (status / unit % 10) as u8);
    encode_field(out, b":status", &digits);
}

/// Appends one line. HTTP/2 permits only names in lower case, so the name is written in lower case.
pub fn encode_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    encode_known_field(out, FieldId::of(name), name, value);
}

/// Appends one line, in the same way as [`encode_field`]; `id` is that of the name.
pub fn encode_known_field(out: &mut Vec<u8>, id: FieldId, name: &[u8], value: &[u8]) {
    let index = match INDEX_OF_FIELD.get(id as usize) {
        Some(index) => *index,
        None => static_name(name).map_or(0, |index| index as u8),
    };
    if index == 0 {
        out.push(0x00);
        integer::put(out, 0x00, 7, name.len());
        out.extend(name.iter().map(u8::to_ascii_lowercase));
    } else {
        let pattern = if NEVER_INDEXED.contains(&index) { 0x10 } else { 0x00 };
        integer::put(out, pattern, 4, usize::from(index));
    }
    put_text(out, value);
}

/// The table size update that empties the table of the client's decoder (RFC 7541 §6.3).
pub const EMPTY_TABLE: [u8; 1] = [0x20];

/// RFC 7541 §5.2: writes a string literal as it is. The Huffman code would make a usual block a
/// sixth shorter, and cost more time than the rest of the encoder.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    integer::put(out, 0x00, 7, text.len());
    out.extend_from_slice(text);
}
