//! The encoder of header blocks, without a dynamic table.
//!
//! A block is valid on every connection and at every time, so the head of a stored response is
//! encoded once. A client that makes its decoder's table smaller expects one size update at the
//! start of the next block (RFC 7541 §4.2). In that case [`EMPTY_TABLE`] is written in front of the
//! block.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::static_table::{static_name, static_value};
use super::{huffman, integer};

/// Fields whose values are secrets. RFC 7541 §7.1.3: no next hop may index them either.
const NEVER_INDEXED: [&[u8]; 5] =
    [b"authorization", b"cookie", b"proxy-authorization", b"set-cookie", b"www-authenticate"];

/// Appends `:status`. It is the first line of the block of a response.
pub fn encode_status(out: &mut Vec<u8>, status: u16) {
    let digits = [100, 10, 1].map(|unit| b'0' + (status / unit % 10) as u8);
    encode_field(out, b":status", &digits);
}

/// Appends one line. The name must be in lower case.
pub fn encode_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "HTTP/2 names are in lower case");
    let pattern = if NEVER_INDEXED.contains(&name) { 0x10 } else { 0x00 };
    let Some(index) = static_name(name) else {
        out.push(pattern);
        put_text(out, name);
        put_text(out, value);
        return;
    };
    if let Some(index) = static_value(index, value) {
        integer::put(out, 0x80, 7, index);
        return;
    }
    integer::put(out, pattern, 4, index);
    put_text(out, value);
}

/// The table size update that empties the table of the client's decoder (RFC 7541 §6.3).
pub const EMPTY_TABLE: [u8; 1] = [0x20];

/// RFC 7541 §5.2: writes a string literal in the shorter of its two forms.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let coded_len = huffman::encoded_len(text);
    if coded_len < text.len() {
        integer::put(out, 0x80, 7, coded_len);
        huffman::encode(text, out);
    } else {
        integer::put(out, 0x00, 7, text.len());
        out.extend_from_slice(text);
    }
}
