//! One thread's handle on the store.
//!
//! | part | owns |
//! |---|---|
//! | [`RecordIndex`] | the thread's view of the index, and its row of pins |
//! | [`Appender`] | the segments that the thread appends to |
//! | [`BodyHandles`] | bodies that clients still read |
//! | [`KeyIndexWriter`] | the handle on the key index, the pending insert, the sweep |
//! | [`Reclaimer`] | the thread's view of free and drained segments |
//! | [`Verifier`] | the check of records that were stored before this process attached |
//!
//! Operations that need several of these parts, such as storing a record, are methods of
//! [`WorkerInner`]. State that threads and processes share is in [`Shared`].

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use forebay_shm::{JoinError, Liveness, Participant};

use super::appender::Appender;
use super::body_handle::BodyHandles;
use super::reclaim::Reclaimer;
use super::record_index::RecordIndex;
use super::record_keys::KeyIndexWriter;
use super::shared::Shared;
use super::verify::Verifier;
use crate::segment::SegmentQueue;

/// One thread's handle on a [`Store`](crate::Store).
#[derive(Clone)]
pub struct StoreWorker {
    pub(crate) inner: Rc<WorkerInner>,
}

/// The parts that belong to one thread, on cache lines of their own.
#[repr(align(128))]
pub(crate) struct WorkerInner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) records: RecordIndex,
    pub(crate) appender: Appender,
    pub(crate) bodies: BodyHandles,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) verifier: Verifier,
    pub(crate) keys: KeyIndexWriter,
    /// This is the last field, so that the row is given back after all parts that use it are
    /// dropped.
    pub(crate) part: ParticipantGuard,
}

/// The row of this thread's participant. The parts of a [`WorkerInner`] are made with it, and their
/// unsafe code relies on no other thread using the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRow {
    row: u32,
    /// Not `Send`: the row belongs to one thread.
    of_thread: PhantomData<*const ()>,
}

impl OwnRow {
    /// # Safety
    /// - The participant is this thread's, and no other thread uses its row.
    /// - The participant leaves only after everything that was made with the result is dropped.
    unsafe fn new(participant: &Participant) -> OwnRow {
        OwnRow { row: participant.id().row, of_thread: PhantomData }
    }

    /// The index of the row.
    pub(crate) fn number(self) -> u32 {
        self.row
    }
}

/// A participant that leaves the region when this guard is dropped. If the thread panics, the
/// participant does not leave: it counts as dead, and another participant cleans up after it.
#[derive(Debug)]
pub(crate) struct ParticipantGuard(Option<Participant>);

impl ParticipantGuard {
    pub(crate) fn participant(&self) -> &Participant {
        #[expect(clippy::expect_used, reason = "the participant is taken in drop only")]
        self.0.as_ref().expect("a participant guard holds its participant until it is dropped")
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
        // SAFETY:
        // - The participant is new, and this thread keeps it.
        // - `part` gives the row back after everything else of the worker is dropped.
        let row = unsafe { OwnRow::new(&participant) };
        // SAFETY: the row is new, so it has no other `RecordIndex`.
        let records = unsafe { RecordIndex::new(shared, row) }?;
        // SAFETY: the participant has no other handle, and `part` gives the row back after this
        // one is gone.
        let key_index = unsafe { shared.key_index.join(&participant) };
        let key_index = key_index.map_err(|error| JoinError::Io(io::Error::other(error)))?;
        let worker = StoreWorker {
            inner: Rc::new(WorkerInner {
                shared: Arc::clone(shared),
                records,
                appender: Appender::new(shared, row),
                bodies: BodyHandles::new(shared, row),
                reclaimer: Reclaimer::new(shared),
                verifier: Verifier::new(shared),
                keys: KeyIndexWriter::new(shared, key_index, row),
                part: ParticipantGuard(Some(participant)),
            }),
        };
        Ok(worker)
    }
}

impl Drop for WorkerInner {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            while self.clean_up_orphans() {}
            self.appender.seal(SegmentQueue::Small);
            self.appender.seal(SegmentQueue::Main);
        }
    }
}

impl fmt::Debug for StoreWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWorker").field("row", &self.inner.part.row()).finish_non_exhaustive()
    }
}
