//! The tags of one response.

use std::fmt;

use super::{TAG_BYTES_MAX, TAGS_MAX};

/// The tags of a response: sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordTags {
    bytes: Vec<u8>,
}

/// Why a response cannot be stored with its tags. Without one of them a purge would miss it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagsError {
    /// There are too many.
    TooMany {
        /// How many a response can have.
        max: usize,
    },
    /// One is too long.
    TooLong {
        /// How many bytes it can have.
        max: usize,
    },
    /// One is empty, or has a NUL.
    Malformed,
}

impl RecordTags {
    /// These tags, in any order, some perhaps more than once.
    ///
    /// # Errors
    /// [`TagsError`].
    pub fn new<'a>(tags: impl IntoIterator<Item = &'a [u8]>) -> Result<RecordTags, TagsError> {
        let mut sorted = Vec::new();
        for tag in tags {
            check(tag)?;
            // Who sends the same one over and over does not make this long.
            if let Err(at) = sorted.binary_search(&tag) {
                if sorted.len() == TAGS_MAX {
                    return Err(TagsError::TooMany { max: TAGS_MAX });
                }
                sorted.insert(at, tag);
            }
        }
        let mut bytes = Vec::with_capacity(sorted.iter().map(|tag| 1 + tag.len()).sum());
        for tag in sorted {
            bytes.push(tag.len() as u8);
            bytes.extend_from_slice(tag);
        }
        Ok(RecordTags { bytes })
    }

    /// No tags.
    #[must_use]
    pub fn none() -> RecordTags {
        RecordTags::default()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        tags_of(&self.bytes)
    }

    /// As a record holds them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Can this be a tag?
pub(super) fn check(tag: &[u8]) -> Result<(), TagsError> {
    if tag.is_empty() || tag.contains(&0) {
        return Err(TagsError::Malformed);
    }
    if tag.len() > TAG_BYTES_MAX {
        return Err(TagsError::TooLong { max: TAG_BYTES_MAX });
    }
    Ok(())
}

/// The tags that a record's bytes hold, up to the first damage.
pub(crate) fn tags_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first()?;
        let (tag, behind) = behind.split_at_checked(usize::from(*length))?;
        rest = behind;
        Some(tag)
    })
}

/// Is this one of a record's tags?
pub(super) fn has_tag(bytes: &[u8], tag: &[u8]) -> bool {
    tags_of(bytes).any(|ours| ours == tag)
}

impl fmt::Display for TagsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagsError::TooMany { max } => write!(out, "a response has at most {max} tags"),
            TagsError::TooLong { max } => write!(out, "a tag has at most {max} bytes"),
            TagsError::Malformed => out.write_str("a tag has bytes, and no NUL among them"),
        }
    }
}

impl std::error::Error for TagsError {}
