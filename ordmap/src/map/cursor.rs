//! A cursor holds the entry at which it stands, so that it is there whatever happens to the map.
//!
//! It goes on along the nodes as long as those on its way are the ones of the tree; else it looks
//! for the key next to its own. So a change elsewhere in the map does not touch it.

use std::cmp::Ordering;

use super::entry::{Entry, NotHeld};
use super::reader::Reader;
use crate::error::MapError;
use crate::object::Stop;
use crate::tree::{Advanced, Node, Path, Sought, Way};

/// Stands at an entry of a map, or nowhere.
#[derive(Debug)]
pub struct Cursor<'m> {
    reader: Reader<'m>,
    shown: Option<Entry<'m>>,
    path: Path,
    /// When the path was found; `None`: there is none.
    epoch: Option<u64>,
}

impl<'m> Cursor<'m> {
    pub(super) fn new(reader: Reader<'m>) -> Cursor<'m> {
        Cursor { reader, shown: None, path: Path::new(), epoch: None }
    }

    /// The entry at which it stands.
    #[must_use]
    pub fn entry(&self) -> Option<&Entry<'m>> {
        self.shown.as_ref()
    }

    /// Gives the entry away, and the lease with it.
    #[must_use]
    pub fn into_entry(self) -> Option<Entry<'m>> {
        self.shown
    }

    /// Goes to the first entry.
    ///
    /// # Errors
    /// As [`next`](Cursor::next), also for all below.
    pub fn first(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go_to_end(Way::Down)
    }

    /// Goes to the last entry.
    pub fn last(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go_to_end(Way::Up)
    }

    /// Goes to the first entry whose key is not below this one.
    pub fn at_or_above(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Way::Up, true)
    }

    /// Goes to the first entry whose key is above this one.
    pub fn above(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Way::Up, false)
    }

    /// Goes to the last entry whose key is not above this one.
    pub fn at_or_below(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Way::Down, true)
    }

    /// Goes to the last entry whose key is below this one.
    pub fn below(&mut self, key: &[u8]) -> Result<Option<&Entry<'m>>, MapError> {
        self.seek(key, Way::Down, false)
    }

    /// Goes to the next entry; from nowhere to the first. At the end it stands nowhere.
    ///
    /// # Errors
    /// [`MapError::TooManyLeases`], [`MapError::Damaged`]; then it stands where it did.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from it")]
    pub fn next(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Way::Up)
    }

    /// Goes to the entry before; from nowhere to the last.
    ///
    /// # Errors
    /// As [`next`](Cursor::next).
    pub fn previous(&mut self) -> Result<Option<&Entry<'m>>, MapError> {
        self.go(Way::Down)
    }

    #[inline]
    pub(super) fn go(&mut self, way: Way) -> Result<Option<&Entry<'m>>, MapError> {
        let Some(shown) = &self.shown else {
            return self.go_to_end(opposite(way));
        };
        let native = match self.epoch {
            Some(epoch) => {
                let (reader, path) = (&self.reader, &mut self.path);
                reader.while_young(epoch, || native_step(reader, path, shown.key(), way))
            }
            None => Err(Stop::Changed.into()),
        };
        match native {
            Ok(next) => {
                self.shown = next;
                Ok(self.shown.as_ref())
            }
            Err(not) => {
                // The path may have moved half-way.
                self.epoch = None;
                if not != NotHeld::Stop(Stop::Changed) {
                    return Err(not.into());
                }
                let reader = self.reader;
                let found = find(&reader, shown.key(), way, false)?;
                Ok(self.stand_at(found))
            }
        }
    }

    fn seek(
        &mut self,
        key: &[u8],
        way: Way,
        may_equal: bool,
    ) -> Result<Option<&Entry<'m>>, MapError> {
        let found = find(&self.reader, key, way, may_equal)?;
        Ok(self.stand_at(found))
    }

    fn go_to_end(&mut self, end: Way) -> Result<Option<&Entry<'m>>, MapError> {
        let reader = self.reader;
        let found = reader.read(|| {
            let epoch = reader.epoch();
            let Some(path) = reader.tree.descend_to_end(opposite(end))? else {
                return Ok(None);
            };
            let entry = enter_at(&reader, &path, opposite(end))?;
            if !reader.tree.is_current(&path)? {
                return Err(Stop::Changed.into());
            }
            Ok(Some((entry, path, epoch)))
        })?;
        Ok(self.stand_at(found))
    }

    fn stand_at(&mut self, found: Option<(Entry<'m>, Path, u64)>) -> Option<&Entry<'m>> {
        self.shown = None;
        if let Some((entry, path, epoch)) = found {
            (self.path, self.epoch, self.shown) = (path, Some(epoch), Some(entry));
        }
        self.shown.as_ref()
    }
}

#[cfg(test)]
impl Cursor<'_> {
    /// It looks for its key at the next step.
    pub(super) fn forget_path_unless(&mut self, is_kept: bool) {
        self.epoch = self.epoch.filter(|_| is_kept);
    }
}

/// Holds the entry where a path ends, in a leaf that it has entered, or in which it has moved.
#[inline]
fn hold_at<'m>(
    reader: &Reader<'m>,
    leaf: &Node<'m>,
    path: &Path,
    way: Way,
    is_entered: bool,
) -> Result<Entry<'m>, NotHeld> {
    let entry = leaf.settle(leaf.slot(path.index()))?;
    reader.tree.prefetch(leaf, path, way, is_entered);
    let entry = Entry::hold(reader, entry)?;
    reader.mark_held(&entry);
    Ok(entry)
}

/// The same in a leaf that is not known yet.
fn enter_at<'m>(reader: &Reader<'m>, path: &Path, way: Way) -> Result<Entry<'m>, NotHeld> {
    let leaf = reader.tree.leaf_of(path)?;
    hold_at(reader, &leaf, path, way, true)
}

/// A slot that names a wrong entry must not send a cursor back, which might then go on for ever.
#[inline]
fn check_order(from: &[u8], way: Way, may_equal: bool, to: &[u8]) -> Result<(), Stop> {
    let is_beyond = match (from.cmp(to), way) {
        (Ordering::Less, Way::Up) | (Ordering::Greater, Way::Down) => true,
        (Ordering::Equal, _) => may_equal,
        _ => false,
    };
    if is_beyond { Ok(()) } else { Err(Stop::Damaged("keys are out of order")) }
}

/// The entry beside the one where a path ends, which has this key.
#[inline]
fn native_step<'m>(
    reader: &Reader<'m>,
    path: &mut Path,
    key: &[u8],
    way: Way,
) -> Result<Option<Entry<'m>>, NotHeld> {
    let leaf = reader.tree.leaf_of(path)?;
    let before = *path;
    let advanced = reader.tree.advance(&leaf, path, way)?;
    let entry = match advanced {
        Advanced::Within => Some(hold_at(reader, &leaf, path, way, false)?),
        Advanced::Beyond => Some(enter_at(reader, path, way)?),
        Advanced::Nowhere => None,
    };
    if !reader.tree.is_adjacent(&before, path, advanced)? {
        return Err(Stop::Changed.into());
    }
    leaf.settle(Ok(()))?;
    if let Some(entry) = &entry {
        check_order(key, way, false, entry.key())?;
    }
    Ok(entry)
}

/// The entry next to a key, with the path to it.
fn find<'m>(
    reader: &Reader<'m>,
    key: &[u8],
    way: Way,
    may_equal: bool,
) -> Result<Option<(Entry<'m>, Path, u64)>, MapError> {
    reader.read(|| {
        let epoch = reader.epoch();
        let Some(sought) = reader.tree.seek(key, way, may_equal)? else {
            return Ok(None);
        };
        let Sought { before, path, advanced } = sought;
        let is_there = advanced != Advanced::Nowhere;
        let entry = if is_there { Some(enter_at(reader, &path, way)?) } else { None };
        if !reader.tree.is_adjacent(&before, &path, advanced)? {
            return Err(Stop::Changed.into());
        }
        if let Some(entry) = &entry {
            check_order(key, way, may_equal, entry.key())?;
        }
        Ok(entry.map(|entry| (entry, path, epoch)))
    })
}

fn opposite(way: Way) -> Way {
    match way {
        Way::Up => Way::Down,
        Way::Down => Way::Up,
    }
}
