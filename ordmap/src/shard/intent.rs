//! One change of a tree: the objects that it makes, the store that publishes it, the objects that
//! it frees.
//!
//! | word | written | meaning |
//! |---|---|---|
//! | state | last | 0 idle; 1 new objects are being made; 2 about to be published, or published |
//! | news | before each object is taken | objects made for the change |
//! | slot, new | before state 2 | the slot that is stored into (0: the root's), and the value |
//! | olds, old entry | before state 2 | nodes and separators to be freed, entries for limbo |
//! | len after | before state 2 | entries in the map after the change |
//!
//! After a death, the next owner compares the slot with the intended value: if they are equal it
//! finishes the change, otherwise it frees the new objects. Each step may be repeated.
//!
//! The successor of a dead process sees its stores in the order in which the machine executed them;
//! [`step!`](crate::step) keeps the compiler from changing that order.

use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::limbo::Limbo;
use super::words::{
    EPOCH, EPOCH_CHANGES, INTENT_MAX, LEN, LEN_AFTER, NEW, NEWS, NEWS_COUNT, OLD_ENTRY, OLDS,
    OLDS_COUNT, SEQUENCE, SLOT, STATE, ShardWords,
};
use crate::object::{
    Allocator, EntryKind, EntryLayout, FreeObject, ObjectReadError, ObjectRef, ShardView, follow,
    publish,
};
use crate::tree::NodeImage;

const IDLE: u64 = 0;
const MAKING: u64 = 1;
const PUBLISHING: u64 = 2;

/// Why a change failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeError {
    /// There is no memory for the change.
    Full,
    /// The shard is corrupt.
    Damaged(&'static str),
}

impl From<ObjectReadError> for ChangeError {
    fn from(error: ObjectReadError) -> ChangeError {
        match error {
            ObjectReadError::Damaged(what) => ChangeError::Damaged(what),
            ObjectReadError::Changed => {
                ChangeError::Damaged("a shard changed while its lock was held")
            }
        }
    }
}

/// The slot by which a change is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotLocation {
    /// The root's slot.
    Root,
    /// A slot of a node, given by its index among the words of all objects.
    Word(usize),
}

/// A change that the owner of the lock is preparing. Dropping the value undoes the change.
#[derive(Debug)]
pub(crate) struct PendingChange<'a> {
    allocator: Allocator<'a>,
    shard: ShardWords<'a>,
    news: usize,
    olds: usize,
    /// Whether the thread was panicking when the change began; destructors may make changes then.
    has_panicked: bool,
}

impl<'a> PendingChange<'a> {
    /// Begins a change. No other change of the shard is in progress.
    pub(crate) fn begin(allocator: Allocator<'a>, shard: ShardWords<'a>) -> PendingChange<'a> {
        shard.store(NEWS_COUNT, 0);
        shard.store(OLDS_COUNT, 0);
        shard.store(OLD_ENTRY, 0);
        crate::step!("change.begun");
        shard.store(STATE, MAKING);
        let has_panicked = std::thread::panicking();
        PendingChange { allocator, shard, news: 0, olds: 0, has_panicked }
    }

    pub(crate) fn view(&self) -> ShardView<'a> {
        self.allocator.view
    }

    /// Writes a node.
    pub(crate) fn make_node(&mut self, image: &NodeImage) -> Result<ObjectRef, ChangeError> {
        let found = self.take(crate::tree::NODE_WORDS / 2)?;
        image.store(found.words, found.reference);
        Ok(found.reference)
    }

    /// Writes an entry or a separator.
    pub(crate) fn make_entry(
        &mut self,
        text: EntryKind,
        key: &[u8],
        value: &[u8],
    ) -> Result<ObjectRef, ChangeError> {
        let layout = EntryLayout::of(key.len(), value.len());
        let found = self.take(layout.units())?;
        layout.write(found.words, found.reference.generation(), text, key, value);
        Ok(found.reference)
    }

    fn take(&mut self, units: usize) -> Result<FreeObject<'a>, ChangeError> {
        if self.news == INTENT_MAX {
            return Err(ChangeError::Damaged("a change makes too many objects"));
        }
        let found = self.allocator.find(units)?.ok_or(ChangeError::Full)?;
        crate::step!("object.found");
        self.shard.store(NEWS + self.news, found.reference.word());
        crate::step!("object.noted");
        self.news += 1;
        self.shard.store(NEWS_COUNT, self.news as u64);
        crate::step!("object.counted");
        self.allocator.take(&found);
        crate::step!("object.taken");
        Ok(found)
    }

    /// Records an object that the change will unlink: a node or a separator, to be freed, or an
    /// entry, for limbo.
    pub(crate) fn retire(&mut self, old: ObjectRef) -> Result<(), ChangeError> {
        if self.olds == INTENT_MAX {
            return Err(ChangeError::Damaged("a change frees too many objects"));
        }
        self.shard.store(OLDS + self.olds, old.word());
        self.olds += 1;
        Ok(())
    }

    /// Publishes the change. `old_entry` is the entry that the change unlinks and that may be
    /// leased, or `NONE`.
    pub(crate) fn publish(
        self,
        place: SlotLocation,
        new: ObjectRef,
        old_entry: ObjectRef,
        len_after: u64,
    ) -> Result<(), ChangeError> {
        let shard = self.shard;
        let slot = slot_at(self.view(), shard, place)?;
        shard.store(OLD_ENTRY, old_entry.word());
        shard.store(LEN_AFTER, len_after);
        self.arm(place, new);
        publish(slot, new);
        crate::step!("change.published");
        shard.end_turn();
        let allocator = self.allocator;
        let limbo = Limbo::new(allocator, shard);
        std::mem::forget(self);
        finish(&allocator, shard, |old| match allocator.is_entry(old) {
            true => limbo.push(old),
            false => allocator.release(old),
        })?;
        if !old_entry.is_none() {
            limbo.push(old_entry)?;
        }
        crate::step!("change.in_limbo");
        shard.store(STATE, IDLE);
        crate::step!("change.done");
        Ok(())
    }

    /// Records the slot and the value that are about to be published, and begins a turn.
    fn arm(&self, place: SlotLocation, new: ObjectRef) {
        self.shard.store(SLOT, place.word());
        self.shard.store(NEW, new.word());
        self.shard.store(OLDS_COUNT, self.olds as u64);
        crate::step!("change.written");
        self.shard.store(STATE, PUBLISHING);
        crate::step!("change.armed");
        self.shard.begin_turn();
        crate::step!("change.turned");
    }

    /// Makes an entry that holds its own reference.
    #[cfg(all(test, loom))]
    pub(super) fn make_for_model(&mut self) -> Result<ObjectRef, ChangeError> {
        let found = self.take(2)?;
        crate::object::loom_tests::write_itself(found.words, found.reference);
        Ok(found.reference)
    }

    /// Stops as a killed process does, right before or after the publication.
    #[cfg(all(test, loom))]
    pub(super) fn die_for_model(self, place: SlotLocation, new: ObjectRef, is_published: bool) {
        self.arm(place, new);
        if is_published {
            publish(slot_at(self.view(), self.shard, place).unwrap(), new);
        }
        std::mem::forget(self);
    }

    fn undo(&self) -> Result<(), ObjectReadError> {
        for index in 0..self.news {
            self.allocator.release(ObjectRef::of_word(self.shard.load(NEWS + index)))?;
        }
        count_change(self.shard);
        crate::step!("change.undone");
        self.shard.store(STATE, IDLE);
        Ok(())
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        // If the change itself panics, the intent stays for the next owner of the lock.
        if std::thread::panicking() == self.has_panicked {
            // A failure to free is damage, which the audit reports.
            let _ = self.undo();
        }
    }
}

impl SlotLocation {
    fn word(self) -> u64 {
        match self {
            SlotLocation::Root => 0,
            SlotLocation::Word(index) => index as u64,
        }
    }

    fn of_word(word: u64) -> SlotLocation {
        if word == 0 { SlotLocation::Root } else { SlotLocation::Word(word as usize) }
    }
}

fn slot_at<'a>(
    view: ShardView<'a>,
    shard: ShardWords<'a>,
    place: SlotLocation,
) -> Result<&'a AtomicU64, ObjectReadError> {
    match place {
        SlotLocation::Root => Ok(shard.word(super::words::ROOT)),
        SlotLocation::Word(index) => {
            view.data_word(index).ok_or(ObjectReadError::Damaged("a slot lies outside of the data"))
        }
    }
}

/// Performs the steps that follow a publication. The caller handles the old entry ([`OLD_ENTRY`])
/// itself. `let_go` frees an unlinked object, or moves it to limbo.
fn finish(
    allocator: &Allocator<'_>,
    shard: ShardWords<'_>,
    mut let_go: impl FnMut(ObjectRef) -> Result<(), ObjectReadError>,
) -> Result<(), ObjectReadError> {
    debug_assert!(allocator.owner > 0);
    shard.store(LEN, shard.load(LEN_AFTER));
    count_change(shard);
    crate::step!("change.counted");
    for index in 0..(shard.load(OLDS_COUNT) as usize).min(INTENT_MAX) {
        let_go(ObjectRef::of_word(shard.load(OLDS + index)))?;
        crate::step!("change.old_freed");
    }
    Ok(())
}

/// Counts a change that frees memory. Every [`EPOCH_CHANGES`] changes it raises the epoch, from
/// which a reader sees that a generation may have wrapped around since its read began.
fn count_change(shard: ShardWords<'_>) {
    let sequence = shard.load(SEQUENCE).wrapping_add(1);
    shard.store(SEQUENCE, sequence);
    if sequence.is_multiple_of(EPOCH_CHANGES) {
        shard.store(EPOCH, shard.load(EPOCH).wrapping_add(1));
    }
}

/// Finishes or undoes the change of a dead owner, and rebuilds all derived state.
pub(crate) fn repair(
    allocator: Allocator<'_>,
    shard: ShardWords<'_>,
) -> Result<(), ObjectReadError> {
    let state = shard.load(STATE);
    let limbo = Limbo::new(allocator, shard);
    let place = SlotLocation::of_word(shard.load(SLOT));
    let is_published = state == PUBLISHING
        && follow(slot_at(allocator.view, shard, place)?).word() == shard.load(NEW);
    if is_published {
        finish(&allocator, shard, |old| match allocator.is_entry(old) {
            true => limbo.push_again(old),
            false => allocator.release_again(old),
        })?;
        limbo.push_again(ObjectRef::of_word(shard.load(OLD_ENTRY)))?;
        crate::step!("repair.finished");
    } else if state != IDLE {
        for index in 0..(shard.load(NEWS_COUNT) as usize).min(INTENT_MAX) {
            allocator.release_again(ObjectRef::of_word(shard.load(NEWS + index)))?;
            crate::step!("repair.undoing");
        }
        count_change(shard);
    }
    shard.end_turn();
    shard.store(STATE, IDLE);
    crate::step!("repair.settled");
    limbo.repair();
    allocator.rebuild()?;
    let repaired = shard.load(super::words::REPAIRED).wrapping_add(1);
    shard.store(super::words::REPAIRED, repaired);
    crate::step!("repair.rebuilt");
    Ok(())
}

/// Whether no change of the shard is in progress.
pub(crate) fn is_idle(shard: ShardWords<'_>) -> bool {
    shard.word(STATE).load(Relaxed) == IDLE
}
