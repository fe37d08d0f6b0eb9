//! What is asked of the purging thread, and what is heard of it.

use std::fmt;

use forebay_cache::{
    KeyIndexDamaged, PurgeBusy, PurgeResult, Selection, SelectionSize, WalkProgress,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::counters::Counter;

/// What is to be done with what is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeWork {
    /// Take it out, or if `is_soft` have it validated before it is used.
    Purge { is_soft: bool, counter: Counter },
    /// Count it.
    Weigh,
}

pub(super) struct PurgeJob {
    pub(super) selections: Vec<Selection>,
    pub(super) work: PurgeWork,
    pub(super) tell: UnboundedSender<PurgeEvent>,
}

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum PurgeEvent {
    /// It goes on; now and then.
    Progress(WalkProgress),
    /// It is done.
    Purged(PurgeResult),
    Counted(SelectionSize),
    Failed(PurgeError),
}

/// Why it is not done, or not to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeError {
    /// Too many others wait.
    Queue,
    Busy {
        busy: PurgeBusy,
        purged: u64,
    },
    KeyIndex(KeyIndexDamaged),
    /// An error of our own.
    Panicked,
    /// The server stops.
    Stopping,
}

impl fmt::Display for PurgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeError::Queue => f.write_str("too many other purges wait; try again"),
            PurgeError::Busy { busy, .. } => busy.fmt(f),
            PurgeError::KeyIndex(damaged) => damaged.fmt(f),
            PurgeError::Panicked => f.write_str("an error of this server's own ended the purge"),
            PurgeError::Stopping => f.write_str("the server stops"),
        }
    }
}

/// A purge that was asked for. It goes on if nobody listens.
#[derive(Debug)]
pub(crate) struct PurgeHandle {
    pub(super) told: UnboundedReceiver<PurgeEvent>,
}

impl PurgeHandle {
    /// What is heard of it next.
    pub(crate) async fn next(&mut self) -> PurgeEvent {
        self.told.recv().await.unwrap_or(PurgeEvent::Failed(PurgeError::Stopping))
    }

    /// How a purge has ended.
    ///
    /// # Errors
    /// [`PurgeError`].
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
