//! HPACK, the compression of field lines (RFC 7541): a bounded decoder, and an encoder without
//! state.
//!
//! The decoder keeps the dynamic table that the client's encoder fills. The encoder never uses a
//! dynamic table: it writes references to the static table and literals without indexing, so a
//! block that is encoded once is valid on every connection.

mod decode;
mod dynamic_table;
mod encode;
mod huffman;
mod integer;
mod static_table;

pub use decode::{Decoder, HpackError};
pub use encode::{EMPTY_TABLE, encode_field, encode_known_field, encode_status};

/// Size of the decoder's dynamic table in bytes (RFC 7541 §4.1), the value that every client
/// assumes before it reads our settings. We never announce another size, so the client need not
/// acknowledge this one.
pub const TABLE_BYTES_MAX: usize = 4096;

/// The size that RFC 7541 §4.1 adds to the length of name and value of each field line.
pub const LINE_OVERHEAD_BYTES: usize = 32;

#[cfg(test)]
mod tests;
