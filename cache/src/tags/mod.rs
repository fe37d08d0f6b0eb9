//! Tags: names that a response has, by which it is purged and listed. This module is pure code.
//!
//! A record holds its tags as bytes: sorted, without duplicates, each after a byte with its length.
//! A purge holds an expression over tags as bytes, too, so the expression is evaluated on a
//! record's tags without decoding either.

mod expr;
mod parse;
mod record;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use expr::TagExpr;
pub(crate) use expr::{EncodedTagExpr, TagCandidates};
pub use parse::TagExprError;
pub(crate) use record::tags_of;
pub use record::{RecordTags, TagsError};

/// The longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 250;

/// The most tags of a response. Each tag is an entry of its own in the key index.
pub const TAGS_MAX: usize = 64;

/// The most tags in an expression: an evaluation keeps its operand stack in the 64 bits of one
/// word.
pub(crate) const TERMS_MAX: usize = 64;
