//! Body handles: parts of bodies that clients have still to read.
//!
//! A piece that is lent keeps its segment pinned. A client may take long, and the segment may be
//! wanted: then its owner [gives it up](WorkerInner::revoke_drained). What is unsent is copied to memory
//! of this process, as far as the share for such copies goes, and the others are lost: their
//! connections have to be reset.
//!
//! Bytes are borrowed under a [`SendGuard`], and nothing is given up while there is one.
//!
//! Invariants:
//! - A slot in state `Pinned` has one pin of this thread's row on its segment.
//! - The state of a slot changes only while nobody reads, by its own [`BodyHandle`] or when they
//!   are given up.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use forebay_sync::atomic::Relaxed;

use super::layout::row;
use super::worker::{StoreWorker, WorkerInner};
use crate::index::Hit;
use crate::segment::{Location, Record, SegmentPhase};

/// Says whose a lent piece is: the caller's number for a connection.
pub type ConnectionTag = u64;

/// All pieces that a thread has lent.
#[derive(Debug, Default)]
pub(crate) struct BodyHandles {
    slots: RefCell<Vec<Slot>>,
    /// The first slot that is free; each names the next one.
    free: Cell<Option<u32>>,
    /// How many slots are `Pinned`.
    pinned: Cell<u64>,
    /// How many [`SendGuard`]s there are.
    send_guards: Cell<u32>,
    /// Whose pieces were lost, until somebody asks.
    lost: RefCell<Vec<ConnectionTag>>,
}

/// On lines of its own: it is written with every hit, and its neighbour in memory may be another
/// thread's.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    piece: HandleState,
    /// What is left to be sent, in bytes of the record's body, or of the copy.
    left: Range<u32>,
    tag: ConnectionTag,
}

#[derive(Debug)]
enum HandleState {
    /// Nobody's; the next free slot.
    Free(Option<u32>),
    /// Of the record at this place, in a segment that is pinned for it.
    Pinned {
        location: Location,
        segment: u32,
    },
    Copied(Box<[u8]>),
    Revoked,
}

/// A part of a stored body, until it is sent.
///
/// It may be used, and dropped, by its thread only.
pub struct BodyHandle {
    inner: Rc<WorkerInner>,
    slot: u32,
}

/// Bytes that are copied out in one turn, and then to the end of the piece: some 50 µs.
const COPY_BYTES_MAX: usize = 256 * 1024;

/// How much was given up of what was wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevokeProgress {
    All,
    /// As much as one turn may copy.
    Some,
    Nothing,
}

/// Keeps what is lent where it is, for the time of a system call.
pub struct SendGuard<'w> {
    inner: &'w WorkerInner,
}

/// A lent piece is no longer there: it was given up, and there was no room for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked;

impl fmt::Display for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory of what was to be sent was needed for something else")
    }
}

impl std::error::Error for Revoked {}

impl BodyHandle {
    /// `record` is what `hit` names. What is beyond the body is left out.
    pub(crate) fn new(
        inner: &Rc<WorkerInner>,
        hit: &Hit<'_>,
        record: &Record<'_>,
        part: Range<u32>,
        tag: ConnectionTag,
    ) -> BodyHandle {
        let body_bytes = record.header.body_bytes;
        let left = part.start.min(body_bytes)..part.end.min(body_bytes);
        let segment = inner.shared.segments.geometry().segment_of(record.location);
        let piece = match segment.filter(|segment| inner.pin_again(*segment, hit)) {
            Some(segment) => HandleState::Pinned { location: record.location, segment },
            None => HandleState::Revoked,
        };
        let slot = inner.body_handles.put(Slot { piece, left, tag });
        BodyHandle { inner: Rc::clone(inner), slot }
    }

    /// How much of it is left.
    pub fn len(&self) -> usize {
        self.inner.body_handles.with(self.slot, |slot| slot.left.len())
    }

    /// Is nothing left?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that the first bytes are sent.
    pub fn advance(&self, bytes: usize) {
        self.inner.body_handles.with(self.slot, |slot| {
            let bytes = bytes.min(slot.left.len()) as u32;
            slot.left.start += bytes;
        });
    }

    /// What is left of it.
    ///
    /// # Errors
    /// It was given up.
    pub fn bytes<'a>(&'a self, reading: &'a SendGuard<'_>) -> Result<&'a [u8], Revoked> {
        assert!(
            std::ptr::eq(&*self.inner, reading.inner),
            "the reading is of another thread's store"
        );
        let slots = self.inner.body_handles.slots.borrow();
        let Some(Slot { piece, left, .. }) = slots.get(self.slot as usize) else {
            return Err(Revoked);
        };
        let left = left.start as usize..left.end as usize;
        let bytes: &[u8] = match piece {
            HandleState::Pinned { location, .. } => {
                // SAFETY: the segment is pinned for this slot, and a word named the place under a
                // pin that was not lowered before this one was raised.
                let record = unsafe { self.inner.shared.segments.record(*location) };
                record.map_err(|_| Revoked)?.body()
            }
            HandleState::Copied(copy) => copy,
            HandleState::Free(_) | HandleState::Revoked => return Err(Revoked),
        };
        let bytes = bytes.get(left).ok_or(Revoked)?;
        // SAFETY: the bytes lie in the region, in a segment that stays pinned, or in a box. Neither
        // changes while there is a `SendGuard`, which the result borrows, nor before this is
        // dropped.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
    }

    /// Was it given up without a copy?
    pub fn is_revoked(&self) -> bool {
        self.inner.body_handles.with(self.slot, |slot| matches!(slot.piece, HandleState::Revoked))
    }
}

impl Drop for BodyHandle {
    fn drop(&mut self) {
        let piece = self.inner.body_handles.take(self.slot);
        self.inner.release_state(piece);
    }
}

impl fmt::Debug for BodyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyHandle").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Drop for SendGuard<'_> {
    fn drop(&mut self) {
        self.inner.body_handles.send_guards.update(|count| count - 1);
    }
}

impl fmt::Debug for SendGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendGuard")
    }
}

impl StoreWorker {
    /// Keeps what is lent where it is while its bytes are borrowed.
    pub fn send_guard(&self) -> SendGuard<'_> {
        self.inner.body_handles.send_guards.update(|count| count + 1);
        SendGuard { inner: &self.inner }
    }
}

impl WorkerInner {
    /// Gives up segments that are drained and only wait for their pins: what is lent of them is
    /// copied, or lost if the copies would take more than their share. Nothing while somebody
    /// reads.
    pub(crate) fn revoke_drained(&self) -> RevokeProgress {
        if self.body_handles.send_guards.get() > 0 {
            return RevokeProgress::Nothing;
        }
        let mut bytes_left = COPY_BYTES_MAX;
        let count = self.body_handles.slots.borrow().len();
        for slot in 0..count as u32 {
            if !self.is_wanted(slot) {
                continue;
            }
            if bytes_left == 0 {
                return RevokeProgress::Some;
            }
            let bytes = self.body_handles.with(slot, |slot| slot.left.len());
            match self.move_out(slot) {
                Some(tag) => self.body_handles.lost.borrow_mut().push(tag),
                None => bytes_left = bytes_left.saturating_sub(bytes),
            }
        }
        RevokeProgress::All
    }

    /// Does a piece keep a segment that is drained from being freed?
    fn is_wanted(&self, slot: u32) -> bool {
        let table = self.shared.segments.table();
        let is_drained = |segment| {
            table.state(segment).is_some_and(|state| state.phase == SegmentPhase::Draining)
        };
        self.body_handles.with(
            slot,
            |slot| matches!(slot.piece, HandleState::Pinned { segment, .. } if is_drained(segment)),
        )
    }

    /// Tells whose pieces were lost.
    pub(crate) fn report_revoked(&self, lost: impl FnMut(ConnectionTag)) {
        let tags = self.body_handles.lost.take();
        tags.into_iter().for_each(lost);
    }

    /// Pins a segment that is pinned by a hit once more, for longer.
    fn pin_again(&self, segment: u32, hit: &IndexHit<'_>) -> bool {
        debug_assert_eq!(
            self.shared.plan.geometry.segment_of(Location(hit.at().location())),
            Some(segment)
        );
        // With the hit's pin up nobody can reclaim the segment, so there is nothing to look at.
        let pin = self.pins.pin(segment as usize, || true);
        let is_pinned = pin.map(|pin| pin.keep()).is_ok();
        if is_pinned {
            self.tell_pinned(self.body_handles.pinned.get() + 1);
        }
        is_pinned
    }

    /// Lets who reclaims know whether it is worth looking at what we pin.
    fn tell_pinned(&self, pieces: u64) {
        self.body_handles.pinned.set(pieces);
        self.row_word(row::HANDLES).store(pieces, Relaxed);
    }

    /// Copies what is left of a piece, or loses it; whose it was, in that case.
    fn move_out(&self, slot: u32) -> Option<ConnectionTag> {
        let copy = self.copy_left(slot);
        let (old, lost) = self.body_handles.with(slot, |slot| {
            let lost = copy.is_none().then_some(slot.tag);
            let piece = match copy {
                Some(copy) => {
                    slot.left = 0..copy.len() as u32;
                    HandleState::Copied(copy)
                }
                None => HandleState::Revoked,
            };
            (std::mem::replace(&mut slot.piece, piece), lost)
        });
        self.release_state(old);
        self.shared.events.given_up(lost.is_some());
        lost
    }

    fn copy_left(&self, slot: u32) -> Option<Box<[u8]>> {
        let (location, left) = self.body_handles.with(slot, |slot| match slot.piece {
            HandleState::Pinned { location, .. } => Some((location, slot.left.clone())),
            _ => None,
        })?;
        if !self.shared.charge_copy(u64::from(left.end - left.start)) {
            return None;
        }
        // SAFETY: as in `BodyHandle::bytes`.
        let record = unsafe { self.shared.segments.record(location) }.ok();
        let bytes = record.and_then(|record| {
            Some(Box::from(record.body().get(left.start as usize..left.end as usize)?))
        });
        if bytes.is_none() {
            self.shared.release_copy(u64::from(left.end - left.start));
        }
        bytes
    }

    /// Lowers the pin of a piece, or frees its copy.
    fn release_state(&self, piece: HandleState) {
        match piece {
            HandleState::Pinned { segment, .. } => {
                // SAFETY: its pin was kept in `pin_again`, and the slot that stood for it is gone.
                unsafe { self.pins.unpin(segment as usize) };
                self.tell_pinned(self.body_handles.pinned.get() - 1);
            }
            HandleState::Copied(copy) => self.shared.release_copy(copy.len() as u64),
            HandleState::Free(_) | HandleState::Revoked => {}
        }
    }
}

impl BodyHandles {
    fn put(&self, slot: Slot) -> u32 {
        let mut slots = self.slots.borrow_mut();
        let Some(number) = self.free.get() else {
            slots.push(slot);
            return (slots.len() - 1) as u32;
        };
        let old = std::mem::replace(&mut slots[number as usize], slot);
        self.free.set(match old.piece {
            HandleState::Free(next) => next,
            // Not reached: what is in the list is free.
            _ => None,
        });
        number
    }

    fn take(&self, number: u32) -> HandleState {
        let next = HandleState::Free(self.free.replace(Some(number)));
        self.with(number, |slot| std::mem::replace(&mut slot.piece, next))
    }

    fn with<T>(&self, number: u32, change: impl FnOnce(&mut Slot) -> T) -> T {
        change(&mut self.slots.borrow_mut()[number as usize])
    }
}
