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

/// One thread's membership of a [`Region`]. It may move to another thread, but is used by one at a
/// time.
///
/// Dropping it counts as a death: the row waits for a sweep. Use [`leave`](Participant::leave)
/// after giving everything back. In a forked child, dropping or leaving changes nothing; the child
/// may do nothing else with a participant, nor anything with a guard.
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
    /// It holds its byte.
    Alive,
    /// The calling process does not see the participant's process, but the participant's byte is
    /// still held. Either a forked child that never executed another program holds it, or the
    /// participant's process is in another pid namespace.
    HeldByAnother,
    /// It has ended, and its row waits for a sweep.
    Dead,
    /// It has ended, and a sweep is cleaning up.
    Sweeping,
}

/// The facts about a participant that every process can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: ParticipantId,
    /// Its status.
    pub status: ParticipantStatus,
    /// Its process number.
    pub pid: u64,
    /// The start time of that process, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// The time at which it joined, in nanoseconds since boot.
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

    /// Frees the row. The participant must own nothing in the region any more, since no sweep would
    /// give it back.
    pub fn leave(self) {
        if self.held.is_ours() {
            self.region.table().leave(self.id, self.held);
        }
    }

    /// The region that it belongs to.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// A deputy, which takes locks for this participant in parts of the program that do not own it.
    pub fn deputy(&self) -> Deputy {
        Deputy { region: self.region.clone(), id: self.id }
    }
}

/// A handle on a participant for taking locks. It is useless once the participant has left.
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

/// Describes a row for people.
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
                write!(out, "the region has its maximum of {participants_max} participants already")
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
