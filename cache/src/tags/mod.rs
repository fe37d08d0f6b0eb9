//! Tags: names of a response, by which it is purged and listed. Pure code.
//!
//! A record holds its tags as bytes, each with its length before it, sorted and without duplicates.
//! A purge holds an expression over tags as bytes, too, so the two can be compared directly.

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

/// The longest tag.
pub const TAG_BYTES_MAX: usize = 250;

/// The most tags of a response: each is an entry of its own in the key index.
pub const TAGS_MAX: usize = 64;

/// The most tags in an expression: the bits of a word.
pub(crate) const TERMS_MAX: usize = 64;
