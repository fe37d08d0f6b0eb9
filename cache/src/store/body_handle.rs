//! Body handles: the parts of stored bodies that clients still have to read.
//!
//! A [`BodyHandle`] keeps its segment pinned. If the reclaimer needs a segment that the handle of a
//! slow client pins, it asks the owner of the pin to [revoke](BodyHandles::revoke_drained) the
//! handle: the owner copies the unsent rest to memory of this process, within the budget for such
//! copies. If that budget has no room, the bytes are lost, and the connection has to be reset.
//!
//! The bytes of a handle are borrowed under a [`SendGuard`]. No handle is revoked while a send
//! guard of its thread exists.
//!
//! Invariants:
//! - A slot in state `Pinned` has one pin of this thread's row on its segment.
//! - The state of a slot in use changes only when its [`BodyHandle`] is dropped or revoked. It is
//!   revoked only while no send guard exists.
//! - `pinned_count` is the number of slots in state `Pinned`. The row's word `HANDLES` has the same
//!   value.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use forebay_shm::Area;
use forebay_sync::atomic::Relaxed;
use forebay_sync::pins::PinRow;

use super::layout::row;
use super::shared::Shared;
use super::worker::{OwnRow, StoreWorker, WorkerInner};
use crate::index::IndexHit;
use crate::segment::{Location, Record, SegmentPhase};

/// The caller's number for the connection that a body handle belongs to.
pub type ConnectionTag = u64;

/// All body handles of a thread.
#[derive(Debug)]
pub(crate) struct BodyHandles {
    shared: Arc<Shared>,
    /// The row whose pins hold the segments.
    row: OwnRow,
    slots: RefCell<Vec<Slot>>,
    /// The head of the free list; each free slot names the next one.
    free: Cell<Option<u32>>,
    /// The number of slots in state `Pinned`.
    pinned_count: Cell<u64>,
    /// The number of send guards that exist.
    guard_count: Cell<u32>,
    /// Connections whose handles were revoked without a copy and that are not reported yet.
    revoked: RefCell<Vec<ConnectionTag>>,
}

/// The state of a body handle. It is on cache lines of its own, because each hit writes it and the
/// memory beside it may belong to another thread.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    state: HandleState,
    /// The unsent part, as a range of the record's body or of the copy.
    unsent: Range<u32>,
    tag: ConnectionTag,
}

#[derive(Debug)]
enum HandleState {
    /// The slot is in the free list. The value is the next slot of the list.
    Free(Option<u32>),
    /// The bytes lie in the record at this location. The slot has a pin on its segment.
    Pinned {
        location: Location,
        segment: u32,
    },
    Copied(Box<[u8]>),
    Revoked,
}

/// A handle on a part of a stored body. It keeps the bytes until they are sent.
///
/// Only the thread that made the handle can use and drop it.
pub struct BodyHandle {
    inner: Rc<WorkerInner>,
    slot: u32,
}

/// Keeps the bytes of all body handles of a thread in place for the time of a system call.
pub struct SendGuard<'w> {
    inner: &'w WorkerInner,
}

/// The body is lost: its handle was revoked, and there was no room for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked;

impl fmt::Display for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache reclaimed this response while it was being sent")
    }
}

impl std::error::Error for Revoked {}

/// One turn of a worker stops copying after this many bytes, which takes some 50 µs. The last copy
/// may exceed the limit.
const COPY_BYTES_MAX: usize = 256 * 1024;

/// The result of revoking the handles that pin drained segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RevokeProgress {
    All,
    /// As many bytes were copied as one turn is allowed to copy; some handles are left.
    Some,
    /// No handle was revoked, because a send guard exists.
    Nothing,
}

impl BodyHandle {
    /// Makes a handle for a part of the body of `record`, which `hit` names. The part is limited to
    /// the end of the body.
    pub(crate) fn new(
        inner: &Rc<WorkerInner>,
        hit: &IndexHit<'_>,
        record: &Record<'_>,
        part: Range<u32>,
        tag: ConnectionTag,
    ) -> BodyHandle {
        let slot = inner.bodies.pin(&inner.records.pins, hit, record, part, tag);
        BodyHandle { inner: Rc::clone(inner), slot }
    }

    /// The number of bytes that are still to be sent.
    pub fn len(&self) -> usize {
        self.inner.bodies.with(self.slot, |slot| slot.unsent.len())
    }

    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Marks the next `bytes` bytes as sent.
    pub fn advance(&self, bytes: usize) {
        self.inner.bodies.with(self.slot, |slot| {
            let bytes = bytes.min(slot.unsent.len()) as u32;
            slot.unsent.start += bytes;
        });
    }

    /// The bytes that are still to be sent.
    ///
    /// # Errors
    /// The handle was revoked without a copy.
    pub fn bytes<'a>(&'a self, guard: &'a SendGuard<'_>) -> Result<&'a [u8], Revoked> {
        assert!(
            std::ptr::eq(&*self.inner, guard.inner),
            "the send guard belongs to another worker"
        );
        let bodies = &self.inner.bodies;
        let slots = bodies.slots.borrow();
        let Some(Slot { state, unsent, .. }) = slots.get(self.slot as usize) else {
            return Err(Revoked);
        };
        let unsent = unsent.start as usize..unsent.end as usize;
        let bytes: &[u8] = match state {
            HandleState::Pinned { location, .. } => {
                // SAFETY: the segment is pinned for this slot, and a word named the location under
                // a pin that was not lowered before this one was raised.
                let record = unsafe { bodies.shared.segments.record(*location) };
                record.map_err(|_| Revoked)?.body()
            }
            HandleState::Copied(copy) => copy,
            HandleState::Free(_) | HandleState::Revoked => return Err(Revoked),
        };
        let bytes = bytes.get(unsent).ok_or(Revoked)?;
        // SAFETY: the bytes lie in the region, in a segment that stays pinned, or in a box. Neither
        // changes while there is a `SendGuard`, which the result borrows, nor before this handle is
        // dropped.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) })
    }

    /// Whether the handle was revoked without a copy, so that its bytes are lost.
    pub fn is_revoked(&self) -> bool {
        self.inner.bodies.with(self.slot, |slot| matches!(slot.state, HandleState::Revoked))
    }
}

impl Drop for BodyHandle {
    fn drop(&mut self) {
        self.inner.bodies.release(&self.inner.records.pins, self.slot);
    }
}

impl fmt::Debug for BodyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyHandle").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Drop for SendGuard<'_> {
    fn drop(&mut self) {
        self.inner.bodies.guard_count.update(|count| count - 1);
    }
}

impl fmt::Debug for SendGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendGuard")
    }
}

impl StoreWorker {
    /// Makes a guard that keeps the bytes of all handles of this worker in place while they are
    /// borrowed.
    pub fn send_guard(&self) -> SendGuard<'_> {
        self.inner.bodies.guard_count.update(|count| count + 1);
        SendGuard { inner: &self.inner }
    }
}

impl BodyHandles {
    pub(crate) fn new(shared: &Arc<Shared>, row: OwnRow) -> BodyHandles {
        BodyHandles {
            shared: Arc::clone(shared),
            row,
            slots: RefCell::default(),
            free: Cell::new(None),
            pinned_count: Cell::new(0),
            guard_count: Cell::new(0),
            revoked: RefCell::default(),
        }
    }

    /// Fills a slot for a part of a record's body, and returns the index of the slot. Raises a pin
    /// for the slot on the record's segment, in addition to the pin of `hit`. If the row cannot
    /// pin the segment once more, the new handle counts as revoked.
    fn pin(
        &self,
        pins: &PinRow<Area>,
        hit: &IndexHit<'_>,
        record: &Record<'_>,
        part: Range<u32>,
        tag: ConnectionTag,
    ) -> u32 {
        let body_bytes = record.header.body_bytes;
        let unsent = part.start.min(body_bytes)..part.end.min(body_bytes);
        let segment = self.shared.segments.geometry().segment_of(record.location);
        let state = match segment.filter(|segment| self.pin_again(pins, *segment, hit)) {
            Some(segment) => HandleState::Pinned { location: record.location, segment },
            None => HandleState::Revoked,
        };
        self.put(Slot { state, unsent, tag })
    }

    /// Raises a second pin on the segment that `hit` pins; the second pin stays when `hit` is
    /// dropped. Returns false if this row cannot pin the segment once more.
    fn pin_again(&self, pins: &PinRow<Area>, segment: u32, hit: &IndexHit<'_>) -> bool {
        debug_assert_eq!(
            self.shared.plan.geometry.segment_of(Location(hit.at().location())),
            Some(segment)
        );
        assert_eq!(pins.row(), self.row.number() as usize, "the pins belong to another row");
        // The pin of `hit` keeps the segment from being freed, so there is nothing to check again.
        let pin = pins.pin(segment as usize, || true);
        let is_pinned = pin.map(|pin| pin.keep()).is_ok();
        if is_pinned {
            self.set_pinned_count(self.pinned_count.get() + 1);
        }
        is_pinned
    }

    /// Sets the count of pinned slots here and in the row. The reclaimer reads the row's count to
    /// decide whether to look at the row's pins.
    fn set_pinned_count(&self, count: u64) {
        self.pinned_count.set(count);
        self.shared.row_word(self.row.number(), row::HANDLES).store(count, Relaxed);
    }

    /// Whether the reclaimer has asked this thread to revoke body handles.
    pub(crate) fn is_revoke_requested(&self) -> bool {
        self.shared.row_word(self.row.number(), row::REVOKE).load(Relaxed) != 0
    }

    /// Revokes the handles that the reclaimer waits for. Returns whether the call dealt with a
    /// request: false if there is no request, or if a send guard exists. If there are more bytes to
    /// copy than one turn is allowed to copy, the request stays for the next turn.
    pub(crate) fn answer_revoke_request(&self, pins: &PinRow<Area>) -> bool {
        self.answer_request_by(|| self.revoke_drained(pins))
    }

    /// Does the same as [`answer_revoke_request`](Self::answer_revoke_request), but calls `revoke`
    /// to revoke handles. Takes the request from the row before that call, so that a request that
    /// arrives during the call stays for the next turn.
    pub(super) fn answer_request_by(&self, revoke: impl FnOnce() -> RevokeProgress) -> bool {
        if !self.is_revoke_requested() {
            return false;
        }
        let word = self.shared.row_word(self.row.number(), row::REVOKE);
        let request = word.swap(0, Relaxed);
        let progress = revoke();
        if progress != RevokeProgress::All {
            // This may overwrite a newer request, which does no harm: a scan does not depend on the
            // request that it answers.
            word.store(request, Relaxed);
        }
        progress != RevokeProgress::Nothing
    }

    /// Revokes the handles that keep drained segments pinned. Copies the unsent rest of each. If
    /// there is no room for a copy, the rest is lost, and the connection is noted for
    /// [`report_revoked`](Self::report_revoked).
    pub(crate) fn revoke_drained(&self, pins: &PinRow<Area>) -> RevokeProgress {
        if self.guard_count.get() > 0 {
            return RevokeProgress::Nothing;
        }
        let mut bytes_left = COPY_BYTES_MAX;
        let count = self.slots.borrow().len();
        for slot in 0..count as u32 {
            if !self.pins_drained(slot) {
                continue;
            }
            if bytes_left == 0 {
                return RevokeProgress::Some;
            }
            let bytes = self.with(slot, |slot| slot.unsent.len());
            match self.revoke(pins, slot) {
                Some(tag) => self.revoked.borrow_mut().push(tag),
                None => bytes_left = bytes_left.saturating_sub(bytes),
            }
        }
        RevokeProgress::All
    }

    /// Whether the handle in a slot keeps a drained segment from being freed.
    fn pins_drained(&self, slot: u32) -> bool {
        let table = self.shared.segments.table();
        let is_drained = |segment| {
            table.state(segment).is_some_and(|state| state.phase == SegmentPhase::Draining)
        };
        self.with(
            slot,
            |slot| matches!(slot.state, HandleState::Pinned { segment, .. } if is_drained(segment)),
        )
    }

    /// Calls `report` once with each connection whose handle was revoked without a copy.
    pub(crate) fn report_revoked(&self, report: impl FnMut(ConnectionTag)) {
        let tags = self.revoked.take();
        tags.into_iter().for_each(report);
    }

    /// Copies the unsent rest of a handle and lowers its pin. Returns the connection's tag if there
    /// was no room for the copy.
    fn revoke(&self, pins: &PinRow<Area>, slot: u32) -> Option<ConnectionTag> {
        debug_assert_eq!(
            self.guard_count.get(),
            0,
            "no handle is revoked while a send guard exists"
        );
        let copy = self.copy_unsent(slot);
        let (old, lost) = self.with(slot, |slot| {
            let lost = copy.is_none().then_some(slot.tag);
            let state = match copy {
                Some(copy) => {
                    slot.unsent = 0..copy.len() as u32;
                    HandleState::Copied(copy)
                }
                None => HandleState::Revoked,
            };
            (std::mem::replace(&mut slot.state, state), lost)
        });
        self.end(pins, old);
        self.shared.events.count_revoked(lost.is_some());
        lost
    }

    fn copy_unsent(&self, slot: u32) -> Option<Box<[u8]>> {
        let (location, unsent) = self.with(slot, |slot| match slot.state {
            HandleState::Pinned { location, .. } => Some((location, slot.unsent.clone())),
            _ => None,
        })?;
        if !self.shared.charge_copy(u64::from(unsent.end - unsent.start)) {
            return None;
        }
        // SAFETY: as in `BodyHandle::bytes`.
        let record = unsafe { self.shared.segments.record(location) }.ok();
        let bytes = record.and_then(|record| {
            Some(Box::from(record.body().get(unsent.start as usize..unsent.end as usize)?))
        });
        if bytes.is_none() {
            self.shared.release_copy(u64::from(unsent.end - unsent.start));
        }
        bytes
    }

    /// Frees the slot of a handle that is dropped.
    fn release(&self, pins: &PinRow<Area>, slot: u32) {
        let state = self.take(slot);
        debug_assert!(
            !matches!(state, HandleState::Free(_)),
            "a slot in the free list has no body handle"
        );
        self.end(pins, state);
    }

    /// Lowers the pin of a slot's former state, or returns the bytes of its copy to the budget.
    fn end(&self, pins: &PinRow<Area>, state: HandleState) {
        match state {
            HandleState::Pinned { segment, .. } => {
                assert_eq!(
                    pins.row(),
                    self.row.number() as usize,
                    "the pins belong to another row"
                );
                // SAFETY: the pin was kept in `pin_again`, and the slot no longer stands for it.
                unsafe { pins.unpin(segment as usize) };
                debug_assert!(self.pinned_count.get() > 0, "each pin of a slot is counted");
                self.set_pinned_count(self.pinned_count.get() - 1);
            }
            HandleState::Copied(copy) => self.shared.release_copy(copy.len() as u64),
            HandleState::Free(_) | HandleState::Revoked => {}
        }
    }

    fn put(&self, slot: Slot) -> u32 {
        let mut slots = self.slots.borrow_mut();
        let Some(number) = self.free.get() else {
            slots.push(slot);
            return (slots.len() - 1) as u32;
        };
        let old = std::mem::replace(&mut slots[number as usize], slot);
        debug_assert!(matches!(old.state, HandleState::Free(_)), "a slot in the free list is free");
        self.free.set(match old.state {
            HandleState::Free(next) => next,
            // Not reached: slots in the free list are free.
            _ => None,
        });
        number
    }

    fn take(&self, number: u32) -> HandleState {
        let next = HandleState::Free(self.free.replace(Some(number)));
        self.with(number, |slot| std::mem::replace(&mut slot.state, next))
    }

    fn with<T>(&self, number: u32, change: impl FnOnce(&mut Slot) -> T) -> T {
        change(&mut self.slots.borrow_mut()[number as usize])
    }
}
