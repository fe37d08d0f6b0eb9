//! Tags: names that a response carries, by which it is purged and listed. Pure.
//!
//! A record holds its tags as bytes, each with its length before it, sorted, each once; a purge
//! holds an expression over tags as bytes, too: they are what is compared.

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

/// The most tags of a response: each is an entry of its own in the order of tags.
pub const TAGS_MAX: usize = 64;

/// The most tags that an expression names: as many as a word has bits.
pub(crate) const TERMS_MAX: usize = 64;
