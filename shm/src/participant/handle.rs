//! The handle of a participant.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use super::byte_lock::HeldByte;
use super::table::{Facts, ParticipantId, RowSeen};
use super::token::RegionId;
use crate::process::start_ticks;
use crate::region::Region;
use crate::robust_lock::Liveness;

/// One thread's membership of a [`Region`]. A participant may move to another thread, but only one
/// thread uses it at a time.
///
/// Dropping a participant counts as its death, and its row waits for a sweep. A thread that has
/// released everything in the region calls [`leave`](Participant::leave) instead. In a forked
/// child, dropping or leaving changes nothing. The child must not do anything else with a
/// participant, and must not use a guard.
///
/// ```compile_fail
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<forebay_shm::Participant>();
/// ```
#[derive(Debug)]
pub struct Participant {
    region: Region,
    id: ParticipantId,
    held: HeldByte,
    one_thread: PhantomData<Cell<()>>,
}

/// Why a thread cannot join.
#[derive(Debug)]
pub enum JoinError {
    /// All rows are taken, by living or dead participants: sweep, and try again.
    Full {
        /// The number of rows.
        participants_max: u32,
    },
    /// The system refused.
    Io(io::Error),
}

/// The status of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParticipantStatus {
    /// The participant is alive, and holds its byte.
    Alive,
    /// The calling process does not see the participant's process, but the participant's byte is
    /// still held. Either a forked child that never executed another program holds it, or the
    /// participant's process is in another pid namespace.
    HeldByAnother,
    /// The participant has ended, and its row waits for a sweep.
    Dead,
    /// The participant has ended, and a sweep is cleaning up after it.
    Sweeping,
}

/// The facts about a participant that every process can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The id of the participant.
    pub id: ParticipantId,
    /// The status of the participant.
    pub status: ParticipantStatus,
    /// The process number of the participant's process.
    pub pid: u64,
    /// The start time of that process, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The time at which the participant joined, in nanoseconds since boot.
    pub joined_ns: u64,
}

impl Participant {
    pub(crate) fn join(region: &Region) -> Result<Participant, JoinError> {
        let pid = u64::from(std::process::id());
        let facts =
            Facts { pid, start_ticks: start_ticks(pid).unwrap_or(0), joined_ns: since_boot_ns() };
        match region.table().join(facts) {
            Ok(Some((id, held))) => {
                Ok(Participant { region: region.clone(), id, held, one_thread: PhantomData })
            }
            Ok(None) => Err(JoinError::Full { participants_max: region.participants_max() }),
            Err(error) => Err(JoinError::Io(error)),
        }
    }

    /// Leaves the region and frees the row. The participant must not own anything in the region any
    /// more, since no sweep would release it.
    pub fn leave(self) {
        if self.held.is_ours() {
            self.region.table().leave(self.id, self.held);
        }
    }

    /// The region to which the participant belongs.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Makes a deputy, with which code that does not own the participant takes locks for it.
    pub fn deputy(&self) -> Deputy {
        Deputy { region: self.region.clone(), id: self.id }
    }
}

/// A handle on a participant for taking locks. It must not be used after the participant has left.
#[derive(Clone, Debug)]
pub struct Deputy {
    region: Region,
    id: ParticipantId,
}

impl Liveness for Deputy {
    fn region_id(&self) -> RegionId {
        self.region.id()
    }

    fn id(&self) -> ParticipantId {
        self.id
    }

    fn is_alive(&self, id: ParticipantId) -> bool {
        self.region.table().is_alive(id)
    }
}

impl Liveness for Participant {
    fn region_id(&self) -> RegionId {
        self.region.id()
    }

    fn id(&self) -> ParticipantId {
        self.id
    }

    fn is_alive(&self, id: ParticipantId) -> bool {
        self.region.table().is_alive(id)
    }
}

/// Describes a row as a [`Listed`] participant, for display.
pub(crate) fn describe(row: RowSeen) -> Listed {
    let is_there = start_ticks(row.facts.pid) == Some(row.facts.start_ticks);
    let status = match (row.is_locked, row.is_swept) {
        (true, true) => ParticipantStatus::Sweeping,
        (true, false) if is_there => ParticipantStatus::Alive,
        (true, false) => ParticipantStatus::HeldByAnother,
        (false, _) => ParticipantStatus::Dead,
    };
    Listed {
        id: row.id,
        status,
        pid: row.facts.pid,
        start_ticks: row.facts.start_ticks,
        joined_ns: row.facts.joined_ns,
    }
}

/// Nanoseconds since boot, sleep included: all processes see the same clock.
pub(crate) fn since_boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.unsigned_abs().saturating_mul(1_000_000_000) + now.tv_nsec.unsigned_abs()
}

impl fmt::Display for JoinError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Full { participants_max } => {
                write!(
                    out,
                    "the region has its maximum of {participants_max} participants already; try \
                     again when one has left"
                )
            }
            JoinError::Io(source) => write!(out, "cannot lock a row for a participant: {source}"),
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JoinError::Full { .. } => None,
            JoinError::Io(source) => Some(source),
        }
    }
}
