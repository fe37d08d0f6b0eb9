//! Jobs of the purge thread, and the events that it reports.

use std::fmt;

use forebay_cache::{
    KeyIndexDamaged, PurgeBusy, PurgeResult, Selection, SelectionSize, WalkProgress,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::kinds::PurgeKind;
use crate::counters::Counter;

/// The work to do with the selected records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeWork {
    /// Remove the records or, for a soft purge, mark them as stale, so that they are validated
    /// before use.
    Purge { kind: PurgeKind, counter: Counter },
    /// Count the records and their bytes, and collect some of their keys; remove nothing.
    Weigh,
}

pub(super) struct PurgeJob {
    pub(super) selections: Vec<Selection>,
    pub(super) work: PurgeWork,
    pub(super) tell: UnboundedSender<PurgeEvent>,
}

/// The progress or the outcome of a job.
#[derive(Debug)]
pub(crate) enum PurgeEvent {
    /// The job is running. A long job sends this event about every `PURGE_PROGRESS_MS`.
    Progress(WalkProgress),
    /// The purge is complete.
    Purged(PurgeResult),
    Counted(SelectionSize),
    Failed(PurgeError),
}

/// The reason why a job failed, or stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeError {
    /// The queue is full.
    Queue,
    Busy {
        busy: PurgeBusy,
        purged: u64,
    },
    KeyIndex(KeyIndexDamaged),
    /// The job panicked, which is a bug.
    Panicked,
    /// The server is stopping.
    Stopping,
}

impl fmt::Display for PurgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeError::Queue => {
                f.write_str("nothing was purged: too many purges are queued; try again")
            }
            PurgeError::Busy { busy, .. } => busy.fmt(f),
            PurgeError::KeyIndex(damaged) => damaged.fmt(f),
            PurgeError::Panicked => f.write_str("an internal error of this server ended the purge"),
            PurgeError::Stopping => {
                f.write_str("the purge did not complete, because the server is stopping")
            }
        }
    }
}

/// A handle to a queued job. The job continues if the handle is dropped.
#[derive(Debug)]
pub(crate) struct PurgeHandle {
    pub(super) told: UnboundedReceiver<PurgeEvent>,
}

impl PurgeHandle {
    /// Waits for the job's next event.
    pub(crate) async fn next(&mut self) -> PurgeEvent {
        self.told.recv().await.unwrap_or(PurgeEvent::Failed(PurgeError::Stopping))
    }

    /// Waits for the outcome of a purge.
    ///
    /// # Errors
    /// [`PurgeError`] says why the purge failed.
    pub(crate) async fn purged(mut self) -> Result<PurgeResult, PurgeError> {
        loop {
            match self.next().await {
                PurgeEvent::Purged(purged) => return Ok(purged),
                PurgeEvent::Failed(failed) => return Err(failed),
                PurgeEvent::Progress(_) | PurgeEvent::Counted(_) => {}
            }
        }
    }
}
