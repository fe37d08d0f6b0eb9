//! One thread's part in the store.
//!
//! Everything here belongs to one thread: its row of pins, the segments that it appends to, the
//! pieces that it has lent. What it shares is in [`Shared`].
//!
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use forebay_shm::{JoinError, Liveness, Participant};

use super::appender::Appender;
use super::body_handle::BodyHandles;
use super::record_index::RecordIndex;
use super::record_keys::KeyIndexWriter;
use super::recover::Verifier;
use super::shared::Shared;
use crate::segment::SegmentQueue;

/// One thread's part in a [`Store`](crate::Store).
#[derive(Clone)]
pub struct StoreWorker {
    pub(crate) inner: Rc<WorkerInner>,
}

/// What belongs to one thread, on lines of its own.
#[repr(align(128))]
pub(crate) struct WorkerInner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) records: RecordIndex,
    pub(crate) appender: Appender,
    pub(crate) bodies: BodyHandles,
    /// Something may be left to be done: see [`StoreWorker::turn`].
    pub(crate) is_due: Cell<bool>,
    /// Segments that are drained waited for their pins when this thread last looked.
    pub(crate) sees_waiting: Cell<bool>,
    /// The time in Unix seconds, as it was last told.
    pub(crate) now: Cell<u64>,
    pub(crate) verifier: Verifier,
    pub(crate) keys: KeyIndexWriter,
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
        // SAFETY: the row is this new participant's, and `part` gives it back when everything else
        // of the worker is gone.
        let records = unsafe { RecordIndex::new(shared, row) }?;
        // SAFETY: it has no other part, and `Part` gives the row back after this one is gone.
        let key_index = unsafe { shared.key_index.join(&participant) };
        let key_index = key_index.map_err(|error| JoinError::Io(io::Error::other(error)))?;
        let worker = StoreWorker {
            inner: Rc::new(WorkerInner {
                shared: Arc::clone(shared),
                records,
                appender: Appender::new(shared, row),
                bodies: BodyHandles::new(shared, row),
                is_due: Cell::new(true),
                sees_waiting: Cell::new(false),
                now: Cell::new(0),
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
            while self.demote_orphans() {}
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
