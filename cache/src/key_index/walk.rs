//! Walks over primary keys: all keys with a prefix, or all keys that have records with one of some
//! tags.

use std::collections::VecDeque;
use std::ops::Bound;

use forebay_ordmap::MapError;
use forebay_ordmap::key::end_of_prefix;

use super::entry::{split_key_entry, tag_head, write_end_of};
use super::maps::{KeyIndexHandle, KeyMap};

/// The number of entries that one batch copies from a map. It is small, so that the copies are not
/// outdated.
const BATCH: usize = 64;

/// A walk over primary keys. It returns the keys in order, each once. A key that stays in the maps
/// during the walk is returned. A key that is inserted or removed during the walk may be returned
/// or not.
#[derive(Debug)]
pub(crate) struct KeyWalk {
    sources: Vec<WalkSource>,
}

/// The part of a walk that covers the entries of one tag, or the map of keys.
#[derive(Debug)]
struct WalkSource {
    which: KeyMap,
    /// The length of the part of an entry before the primary key: tag and NUL, or nothing.
    head_bytes: usize,
    /// The lower bound of the next batch.
    low: Bound<Vec<u8>>,
    high: Option<Vec<u8>>,
    batch: VecDeque<Vec<u8>>,
    /// The primary key that was added to the batch last: several entries may have the same primary
    /// key.
    last: Vec<u8>,
    is_through: bool,
}

impl KeyWalk {
    /// Walks over all primary keys that start with `within`, after `after`.
    pub(crate) fn over_keys(within: &[u8], after: Option<&[u8]>) -> KeyWalk {
        KeyWalk { sources: vec![WalkSource::new(KeyMap::Keys, Vec::new(), within, after)] }
    }

    /// Walks over the primary keys that have, or had, a record with one of these tags.
    pub(crate) fn over_tags<'a>(
        tags: impl IntoIterator<Item = &'a [u8]>,
        within: &[u8],
        after: Option<&[u8]>,
    ) -> KeyWalk {
        let source = |tag| WalkSource::new(KeyMap::Tags, tag_head(tag), within, after);
        KeyWalk { sources: tags.into_iter().map(source).collect() }
    }

    /// The next primary key; `None` at the end of the walk.
    ///
    /// # Errors
    /// [`MapError`]: a map cannot be read, and the remaining keys are unknown.
    pub(crate) fn next(&mut self, order: &KeyIndexHandle) -> Result<Option<Vec<u8>>, MapError> {
        for source in &mut self.sources {
            source.fill(order)?;
        }
        let all_hints = self.sources.iter().filter_map(|source| source.batch.front());
        let Some(lowest) = all_hints.min().cloned() else {
            return Ok(None);
        };
        for source in &mut self.sources {
            source.batch.pop_front_if(|key| *key == lowest);
        }
        Ok(Some(lowest))
    }
}

impl WalkSource {
    fn new(which: KeyMap, head: Vec<u8>, within: &[u8], after: Option<&[u8]>) -> WalkSource {
        let prefix = [&head[..], within].concat();
        let low = match after {
            Some(after) if after >= within => {
                let mut low = head.clone();
                write_end_of(&mut low, after);
                Bound::Excluded(low)
            }
            _ => Bound::Included(prefix.clone()),
        };
        let high = end_of_prefix(&prefix);
        let (head_bytes, batch, last) = (head.len(), VecDeque::new(), Vec::new());
        WalkSource { which, head_bytes, low, high, batch, last, is_through: false }
    }

    /// Fills the batch if it is empty, unless the map has no more entries.
    fn fill(&mut self, order: &KeyIndexHandle) -> Result<(), MapError> {
        while self.batch.is_empty() && !self.is_through {
            let low = self.low.as_ref().map(|low| &low[..]);
            let high = self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut scan = order.map(self.which)?.scan((low, high));
            let mut last = Vec::new();
            for _ in 0..BATCH {
                let Some((entry, _)) = scan.next()? else {
                    self.is_through = true;
                    break;
                };
                last.clear();
                last.extend_from_slice(entry);
                self.note(&last);
            }
            if !last.is_empty() {
                self.low = Bound::Excluded(last);
            }
        }
        Ok(())
    }

    /// Adds the primary key of an entry to the batch, unless it equals the key that was added last.
    fn note(&mut self, entry: &[u8]) {
        let primary = entry.get(self.head_bytes..).and_then(split_key_entry);
        if let Some((primary, _)) = primary
            && self.last != primary
        {
            self.last.clear();
            self.last.extend_from_slice(primary);
            self.batch.push_back(primary.to_vec());
        }
    }
}
