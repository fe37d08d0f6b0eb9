//! One thread's part in the store.
//!
//! Everything here belongs to one thread: its row of pins, the segments that it appends to, the
//! pieces that it has lent. What it shares is in [`Shared`].
//!
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use forebay_shm::{Area, JoinError, Liveness, Participant};
use forebay_sync::pins::PinRow;

use super::appender::Appender;
use super::body_handle::BodyHandles;
use super::key_index_sweep::KeyIndexSweep;
use super::record_access::RecordAccess;
use super::shared::Shared;
use crate::index::{Index, IndexKey, KeyHash, PinnedLocation};
use crate::key_index::KeyIndexHandle;
use crate::segment::Queue;

/// One thread's part in a [`Store`](crate::Store).
#[derive(Clone)]
pub struct StoreWorker {
    pub(crate) inner: Rc<WorkerInner>,
}

/// What belongs to one thread, on lines of its own.
#[repr(align(128))]
pub(crate) struct WorkerInner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pins: PinRow<Area>,
    pub(crate) index: Index<Area, RecordAccess>,
    pub(crate) appender: Appender,
    pub(crate) bodies: BodyHandles,
    /// Something may be left to be done: see [`StoreWorker::turn`].
    pub(crate) is_due: Cell<bool>,
    /// Segments that are drained waited for their pins when this thread last looked.
    pub(crate) sees_waiting: Cell<bool>,
    /// The time in Unix seconds, as it was last told.
    pub(crate) now: Cell<u64>,
    /// The segment and the offset from which on records are to be verified.
    pub(crate) verified: Cell<Option<(u32, u64)>>,
    /// For keys and other bytes that are needed for a moment.
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// How far this thread has swept the order, if it does.
    pub(crate) sweep: RefCell<Option<KeyIndexSweep>>,
    pub(crate) key_index: KeyIndexHandle,
    /// Last, so that the row is given back when nothing uses it any more.
    pub(crate) part: ParticipantGuard,
}

/// A participant that leaves at the end, unless its thread panics: then it counts as dead.
#[derive(Debug)]
pub(crate) struct ParticipantGuard(Option<Participant>);

impl ParticipantGuard {
    pub(crate) fn participant(&self) -> &Participant {
        #[expect(clippy::expect_used, reason = "it is taken in drop only")]
        self.0.as_ref().expect("it is there until it is dropped")
    }

    pub(crate) fn row(&self) -> u32 {
        self.participant().id().row
    }
}

impl Drop for ParticipantGuard {
    fn drop(&mut self) {
        if let Some(participant) = self.0.take()
            && !std::thread::panicking()
        {
            participant.leave();
        }
    }
}

impl StoreWorker {
    pub(crate) fn join(shared: &Arc<Shared>) -> Result<StoreWorker, JoinError> {
        let participant = shared.region.join()?;
        let row = participant.id().row;
        // SAFETY:
        // - The row is this participant's alone, and `Part` gives it back after `PinRow` is gone.
        // - All tables over the area are made in `Shared::over`, from one plan.
        let pins = unsafe { shared.pins.row(row as usize) }
            .ok_or(JoinError::Full { participants_max: shared.plan.rows })?;
        // SAFETY:
        // - All indices over this area are made here, from one plan and one seed; nothing else
        //   writes it.
        // - All rows are of the one table in the region. Segments are freed in `reclaim` only,
        //   after their words were taken out, the barrier, and a look at the column.
        // - A place is given to it in `put` and `reclaim` only: of a record just appended to an
        //   open segment of this thread, which seals it between two calls only.
        let index = unsafe {
            let words = shared.index_words.clone();
            Index::new(words, shared.plan.bucket_count, RecordAccess::new(shared))
        };
        let full = |_| JoinError::Full { participants_max: shared.plan.rows };
        let index = index.map_err(full)?;
        // SAFETY: it has no other part, and `Part` gives the row back after this one is gone.
        let key_index = unsafe { shared.key_index.join(&participant) };
        let key_index = key_index.map_err(|error| JoinError::Io(io::Error::other(error)))?;
        let worker = StoreWorker {
            inner: Rc::new(WorkerInner {
                shared: Arc::clone(shared),
                pins,
                index,
                appender: Appender::new(shared, row),
                bodies: BodyHandles::new(shared, row),
                is_due: Cell::new(true),
                sees_waiting: Cell::new(false),
                now: Cell::new(0),
                verified: Cell::new(None),
                scratch: RefCell::default(),
                sweep: RefCell::default(),
                key_index,
                part: ParticipantGuard(Some(participant)),
            }),
        };
        Ok(worker)
    }
}

impl WorkerInner {
    pub(crate) fn records(&self) -> &RecordAccess {
        self.index.records()
    }

    /// A key as the index knows it.
    #[inline]
    pub(crate) fn key<'a>(
        &'a self,
        key: &'a [u8],
    ) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool + 'a> {
        IndexKey::new(self.shared.hash(key), move |at| self.records().has_key(at, key))
    }

    /// The same with a hash that is known.
    pub(crate) fn key_of<'a>(
        &'a self,
        hash: KeyHash,
        key: &'a [u8],
    ) -> IndexKey<impl Fn(PinnedLocation<'_>) -> bool + 'a> {
        IndexKey::new(hash, move |at| self.records().has_key(at, key))
    }
}

impl Drop for WorkerInner {
    fn drop(&mut self) {
        if let Some((segment, _)) = self.verified.get() {
            self.shared.leave_verifying(segment);
        }
        self.abandon_sweep();
        if !std::thread::panicking() {
            while self.demote_orphans() {}
            self.appender.seal(Queue::Small);
            self.appender.seal(Queue::Main);
        }
    }
}

impl fmt::Debug for StoreWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWorker").field("row", &self.inner.part.row()).finish_non_exhaustive()
    }
}
