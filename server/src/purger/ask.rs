//! What is asked of the purging thread, and what is heard of it.

use std::fmt;

use forebay_cache::{
    KeyIndexDamaged, PurgeBusy, PurgeResult, Selection, SelectionSize, WalkProgress,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::counters::Counter;

/// What is to be done with what is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Take it out, or if `is_soft` have it validated before it is used.
    Purge { is_soft: bool, counter: Counter },
    /// Count it.
    Weigh,
}

pub(super) struct Job {
    pub(super) selections: Vec<Selection>,
    pub(super) work: Work,
    pub(super) tell: UnboundedSender<Told>,
}

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum Told {
    /// It goes on; now and then.
    WalkProgress(WalkProgress),
    /// It is done.
    Purged(PurgeResult),
    SelectionSize(SelectionSize),
    Failed(PurgeFailed),
}

/// Why it is not done, or not to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeFailed {
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

impl fmt::Display for PurgeFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeFailed::Queue => f.write_str("too many other purges wait; try again"),
            PurgeFailed::Busy { busy, .. } => busy.fmt(f),
            PurgeFailed::KeyIndex(damaged) => damaged.fmt(f),
            PurgeFailed::Panicked => f.write_str("an error of this server's own ended the purge"),
            PurgeFailed::Stopping => f.write_str("the server stops"),
        }
    }
}

/// A purge that was asked for. It goes on if nobody listens.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) told: UnboundedReceiver<Told>,
}

impl Asked {
    /// What is heard of it next.
    pub(crate) async fn next(&mut self) -> Told {
        self.told.recv().await.unwrap_or(Told::Failed(PurgeFailed::Stopping))
    }

    /// How a purge has ended.
    ///
    /// # Errors
    /// [`PurgeFailed`].
    pub(crate) async fn purged(mut self) -> Result<PurgeResult, PurgeFailed> {
        loop {
            match self.next().await {
                Told::Purged(purged) => return Ok(purged),
                Told::Failed(failed) => return Err(failed),
                Told::WalkProgress(_) | Told::SelectionSize(_) => {}
            }
        }
    }
}
