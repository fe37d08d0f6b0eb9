//! The names and paths of a profile, each read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plain::plain_text;
use super::{ProfileBytes, ProfileError};
use crate::profile::plan::ProfilePlan;
use crate::profile::shared::TEXT_BYTES_MAX;

/// The largest amount of text that is kept, in bytes; the size of the profile's text is a limit
/// too. No two texts of a sound profile overlap, so they fit into the profile's text. In a damaged
/// profile, overlapping texts could repeat the same bytes for each row.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Reads the texts of a profile, and keeps those that were read.
pub(super) struct Texts<'a, B: ?Sized> {
    bytes: &'a B,
    /// The offset of the text in the profile.
    start: u64,
    byte_count: u64,
    /// The number of bytes that may still be kept.
    room: usize,
    known: BTreeMap<u64, Arc<str>>,
    none: Arc<str>,
    /// The number of texts that were dropped because the limit was reached.
    pub(super) rejected: u64,
}

impl<'a, B: ProfileBytes + ?Sized> Texts<'a, B> {
    pub(super) fn of(bytes: &'a B, plan: &ProfilePlan) -> Texts<'a, B> {
        Texts {
            bytes,
            start: plan.text_start() as u64 * 8,
            byte_count: plan.text_bytes.into(),
            room: KEPT_BYTES_MAX.min(plan.text_bytes as usize),
            known: BTreeMap::new(),
            none: Arc::default(),
            rejected: 0,
        }
    }

    /// The text that a word of a row names; empty if the word names no text, or if the limit of
    /// kept text is reached.
    pub(super) fn at(&mut self, word: u64) -> Result<Arc<str>, ProfileError> {
        if let Some(known) = self.known.get(&word) {
            return Ok(Arc::clone(known));
        }
        let (offset, byte_count) = (word & u64::from(u32::MAX), word >> 32);
        let byte_count = byte_count.min(TEXT_BYTES_MAX as u64);
        if byte_count == 0 || offset + byte_count > self.byte_count {
            return Ok(Arc::clone(&self.none));
        }
        let Some(room) = self.room.checked_sub(byte_count as usize) else {
            self.rejected = self.rejected.saturating_add(1);
            return Ok(Arc::clone(&self.none));
        };
        self.room = room;
        let mut read = [0; TEXT_BYTES_MAX];
        let read = read.get_mut(..byte_count as usize).unwrap_or_default();
        self.bytes.read(self.start + offset, read)?;
        let text: Arc<str> = text_of(read).into();
        self.known.insert(word, Arc::clone(&text));
        Ok(text)
    }
}

/// The text up to the first zero byte. Bytes that are not UTF-8, and characters that a terminal
/// would obey, are replaced.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    plain_text(&String::from_utf8_lossy(bytes))
}
