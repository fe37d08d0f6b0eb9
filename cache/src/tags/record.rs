//! The tags of one response.

use std::fmt;

use super::{TAG_BYTES_MAX, TAGS_MAX};

/// The encoded tags of a response: sorted, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordTags {
    bytes: Vec<u8>,
}

/// Why a response cannot be stored with its tags. Such a response is not stored at all: if one of
/// its tags were left out, a purge by that tag would miss the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagsError {
    /// There are too many tags.
    TooMany {
        /// The largest number of tags.
        max: usize,
    },
    /// A tag is too long.
    TooLong {
        /// The largest length of a tag, in bytes.
        max: usize,
    },
    /// A tag is empty, or contains a NUL.
    Malformed,
}

impl RecordTags {
    /// Makes tags from names in any order. Duplicates are dropped.
    ///
    /// # Errors
    /// See [`TagsError`].
    pub fn new<'a>(tags: impl IntoIterator<Item = &'a [u8]>) -> Result<RecordTags, TagsError> {
        let mut sorted = Vec::new();
        for tag in tags {
            check(tag)?;
            // Repetitions of a tag cost only a search.
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

    /// Copies the encoded tags of a record.
    pub(crate) fn of_record(bytes: &[u8]) -> RecordTags {
        RecordTags { bytes: bytes.to_vec() }
    }

    /// Returns these tags together with the encoded tags of a record.
    pub(crate) fn and(&self, bytes: &[u8]) -> Result<RecordTags, TagsError> {
        RecordTags::new(self.iter().chain(tags_of(bytes)))
    }

    /// Returns an empty list of tags.
    #[must_use]
    pub fn none() -> RecordTags {
        RecordTags::default()
    }

    /// Whether there are no tags.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The tags, in sorted order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        tags_of(&self.bytes)
    }

    /// The encoded tags, as a record holds them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Checks that these bytes can be a tag.
pub(super) fn check(tag: &[u8]) -> Result<(), TagsError> {
    if tag.is_empty() || tag.contains(&0) {
        return Err(TagsError::Malformed);
    }
    if tag.len() > TAG_BYTES_MAX {
        return Err(TagsError::TooLong { max: TAG_BYTES_MAX });
    }
    Ok(())
}

/// The tags in the encoded tags of a record, up to the first damage.
pub(crate) fn tags_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first()?;
        let (tag, behind) = behind.split_at_checked(usize::from(*length))?;
        rest = behind;
        Some(tag)
    })
}

/// Whether the encoded tags of a record include this tag.
pub(super) fn has_tag(bytes: &[u8], tag: &[u8]) -> bool {
    tags_of(bytes).any(|ours| ours == tag)
}

impl fmt::Display for TagsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TagsError::TooMany { max } => write!(out, "a response can have at most {max} tags"),
            TagsError::TooLong { max } => write!(out, "a tag can have at most {max} bytes"),
            TagsError::Malformed => out.write_str("a tag must not be empty or contain a NUL byte"),
        }
    }
}

impl std::error::Error for TagsError {}
