//! Reclaiming segments. The holder of the eviction lock reclaims one segment at a time, in slices.
//! The table names the steps, and the state that a death after each step leaves to the next
//! reclaimer:
//!
//! | step | state after a death |
//! |---|---|
//! | `choose_victim`, then `DRAINING` names the segment | a sealed segment, to be drained |
//! | sealed → draining | a draining segment, none of whose records is drained |
//! | main queue: count records by use, up to `DRAINED_BYTES` | counting continues at that offset |
//! | move or remove each record, up to `DRAINED_BYTES` | draining continues at that offset |
//! | if words may remain: search the index, up to a bucket | the search continues at that bucket |
//! | clear `DRAINING` | a draining segment that no word names |
//! | barrier; if no pin is seen: free the segment | a free segment |
//!
//! Each step is complete before the word that records it is stored, so after a death a reader of
//! that word sees the completed step: [`DrainProgress`](crate::segment::DrainProgress) has the
//! orderings. The index words of records are removed before the offset passes the records, and all
//! words of the segment are removed before `DRAINING` is cleared.
//!
//! While enough segments are free, segments are reclaimed only to make room in the key index.
//! Pinned segments are passed over as long as there are others, and as long as fewer than a quarter
//! of all segments are pinned. Otherwise pinned segments are drained too, and the owners of the
//! pins are asked to revoke their body handles. Only a few drained segments may wait for their pins
//! at a time, because such a segment takes memory although no lookup finds records in it.

use std::cell::Cell;
use std::sync::Arc;

use forebay_shm::{Area, LockError, RobustGuard, SystemFutex};
use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::drain::DrainSlice;
use super::layout::word;
use super::put::FreeReserve;
use super::shared::Shared;
use super::worker::WorkerInner;
use crate::segment::SegmentPhase;

/// An append that finds no free segment runs at most this many slices in a row. The drain of one
/// segment takes fewer slices.
const SLICES_AT_ONCE: usize = 4096;

/// An append that finds no free segment yields at most this often to a reclaimer on another thread.
/// So many yields take some 100 µs if no other thread wants the processor.
const BUSY_MAX: usize = 256;

/// The time for which records wait until drained segments lose their pins. The wait is limited,
/// since the owner of a pin may have stopped for good.
const WAIT_SECONDS_MAX: u64 = 2;

/// The result of a slice of reclaiming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SliceOutcome {
    /// Enough segments are free.
    Enough,
    /// There is more to do.
    More,
    /// Another participant has the eviction lock.
    Busy,
    /// Nothing can be reclaimed now.
    Nothing,
}

/// The eviction lock, held by this thread. Methods that only its holder may call take a reference
/// to this guard.
#[derive(Debug)]
#[must_use = "the lock is free again as soon as this is dropped"]
pub(super) struct EvictionGuard<'w> {
    _guard: RobustGuard<'w, Area, SystemFutex>,
}

/// One thread's view of the segments to reclaim, and whether the thread has reclaiming to do.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    pub(super) shared: Arc<Shared>,
    /// Whether there may be segments to reclaim: see
    /// [`StoreWorker::turn`](crate::StoreWorker::turn).
    is_due: Cell<bool>,
    /// Whether drained segments were still pinned when this thread last looked.
    sees_waiting: Cell<bool>,
    /// The time of the last turn, in Unix seconds.
    now: Cell<u64>,
}

impl Reclaimer {
    pub(crate) fn new(shared: &Arc<Shared>) -> Reclaimer {
        let (is_due, sees_waiting, now) = (Cell::new(true), Cell::new(false), Cell::new(0));
        Reclaimer { shared: Arc::clone(shared), is_due, sees_waiting, now }
    }

    /// Makes the next turn reclaim.
    pub(crate) fn request(&self) {
        self.is_due.set(true);
    }

    /// Whether a slice was requested.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.get()
    }

    /// Whether the next turn has a slice of reclaiming to run.
    pub(crate) fn has_work(&self) -> bool {
        self.is_due.get() || self.sees_waiting.get()
    }

    /// Clears the request, since enough segments are free.
    pub(crate) fn finish(&self) {
        self.is_due.set(false);
        self.sees_waiting.set(self.waiting_count() > 0);
    }

    pub(crate) fn set_now(&self, now: u64) {
        self.now.set(now);
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    /// The number of segments that should be free: one for each queue of each worker, and the
    /// reserve.
    pub(super) fn free_target(&self) -> u32 {
        let segments = self.shared.plan.geometry.segment_count();
        let FreeReserve(reserve) = FreeReserve::FOR_MOVES;
        (2 * self.shared.config.worker_count + reserve).clamp(2, segments / 4)
    }

    /// Whether a segment is free beyond the reserve.
    pub(crate) fn has_free(&self, FreeReserve(reserve): FreeReserve) -> bool {
        self.free_count(reserve + 1) > reserve
    }

    /// Counts the free segments, up to `enough`.
    pub(super) fn free_count(&self, enough: u32) -> u32 {
        let free =
            self.shared.segments.table().segments_where(|state| state.phase == SegmentPhase::Free);
        free.take(enough as usize).count() as u32
    }

    pub(super) fn word(&self, number: usize) -> &AtomicU64 {
        self.shared.store.word(number)
    }

    /// The segment that is being drained, if there is one.
    pub(super) fn draining(&self) -> Option<u32> {
        self.shared.drain.segment()
    }

    /// Whether a record may wait longer until drained segments lose their pins. The time limit
    /// starts with the first record that waits, and is reset only when no drained segment waits. So
    /// a stopped process that owns a pin delays the others only once.
    pub(super) fn may_wait_for_pins(&self, now: u64) -> bool {
        let since = self.word(word::WAITS_SINCE);
        if self.waiting_count() == 0 {
            since.store(0, Relaxed);
            return false;
        }
        let began = since.load(Relaxed);
        // A time later than `now` is from another process's clock.
        if began == 0 || began > now {
            since.store(now, Relaxed);
            return true;
        }
        now - began < WAIT_SECONDS_MAX
    }
}

impl WorkerInner {
    /// Reclaims until a segment is free beyond the reserve, for an append that found none. Returns
    /// whether such a segment is free.
    pub(crate) fn reclaim_now(&self, reserve: FreeReserve) -> bool {
        self.free_waiting();
        let mut busy_left = BUSY_MAX;
        for _ in 0..SLICES_AT_ONCE {
            if self.reclaimer.has_free(reserve) {
                return true;
            }
            let slice = self.reclaim_slice(self.reclaimer.now());
            match slice {
                SliceOutcome::More => {}
                SliceOutcome::Nothing if self.bodies.answer_revoke_request(&self.records.pins) => {}
                SliceOutcome::Busy if busy_left > 0 => {
                    busy_left -= 1;
                    std::thread::yield_now();
                }
                SliceOutcome::Busy | SliceOutcome::Enough | SliceOutcome::Nothing => break,
            }
        }
        self.reclaimer.has_free(reserve)
    }

    /// Takes the eviction lock, unless another participant has it.
    #[track_caller]
    fn try_eviction_lock(&self) -> Result<Option<EvictionGuard<'_>>, LockError> {
        let guard = self.shared.eviction_lock.try_lock(self.part.participant())?;
        Ok(guard.map(|mut guard| {
            if guard.must_repair() {
                // After a death, the drain can continue from every step: see the table of this
                // module.
                guard.repaired();
            }
            EvictionGuard { _guard: guard }
        }))
    }

    /// Frees drained segments that are no longer pinned.
    fn free_waiting(&self) {
        if let Ok(Some(lock)) = self.try_eviction_lock() {
            self.reclaimer.free_drained(&lock);
        }
    }

    /// Runs one slice of reclaiming. `now` is in Unix seconds.
    pub(crate) fn reclaim_slice(&self, now: u64) -> SliceOutcome {
        if self.keys.is_short() {
            return self.reclaim_for_key_index(now);
        }
        self.reclaim_towards(self.reclaimer.free_target(), now)
    }

    /// Runs one slice of reclaiming to make room in the key index, however many segments are free.
    pub(crate) fn reclaim_for_key_index(&self, now: u64) -> SliceOutcome {
        let segments = self.shared.plan.geometry.segment_count();
        self.reclaim_towards(self.reclaimer.free_count(segments) + 1, now)
    }

    /// Runs one slice on the way to `free_target` free segments.
    pub(crate) fn reclaim_towards(&self, free_target: u32, now: u64) -> SliceOutcome {
        let reclaimer = &self.reclaimer;
        let lock = match self.try_eviction_lock() {
            Ok(Some(lock)) => lock,
            Ok(None) => return SliceOutcome::Busy,
            // This thread holds the lock already: it is moving a record and finds no segment for
            // it.
            Err(_) => return SliceOutcome::Nothing,
        };
        // A drain that has begun is continued first, because a look at all segments costs more than
        // a slice.
        if let Some(segment) = reclaimer.draining() {
            return DrainSlice::new(self, &lock, segment, now).run();
        }
        reclaimer.free_drained(&lock);
        if reclaimer.draining().is_some() {
            return SliceOutcome::More;
        }
        if reclaimer.free_count(free_target) >= free_target {
            return SliceOutcome::Enough;
        }
        match reclaimer.choose(now) {
            Some(victim) => DrainSlice::begin(self, &lock, victim, now),
            None => SliceOutcome::Nothing,
        }
    }
}
