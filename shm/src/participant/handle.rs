//! A participant as the program sees it.

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

/// One thread's part in a [`Region`]: it may move to another thread but is used by one at a time.
///
/// Dropping it is a death: the row waits for a sweep. [`leave`](Participant::leave) is the way out
/// for who has given everything back. In a process that was forked off, dropping or leaving changes
/// nothing, and nothing else may be done with it, nor with a guard, there.
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

/// There is no place for another participant.
#[derive(Debug)]
pub enum JoinError {
    /// All rows are taken, by the living or by the dead: sweep, and try again.
    Full {
        /// How many rows there are.
        participants_max: u32,
    },
    /// The system refused.
    Io(io::Error),
}

/// How a participant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParticipantStatus {
    /// It holds its byte.
    Alive,
    /// Its process is gone as far as this one can see, but somebody holds its byte: a child that
    /// was forked off and never executed another program, or this is another pid namespace.
    HeldByAnother,
    /// It is gone, and its row waits for a sweep.
    Dead,
    /// It is gone, and a sweep is cleaning up.
    Sweeping,
}

/// A participant as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Which one.
    pub id: ParticipantId,
    /// How it is.
    pub status: ParticipantStatus,
    /// Its process.
    pub pid: u64,
    /// When that process started, in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
    /// When it joined, in nanoseconds since boot.
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

    /// Frees the row. Whoever leaves owns nothing in the region any more: what it did not give back
    /// would stay for ever, since nobody sweeps up after it.
    pub fn leave(self) {
        if self.held.is_ours() {
            self.region.table().leave(self.id, self.held);
        }
    }

    /// The region it takes part in.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Who locks in this participant's name: a part of its program that does not own it.
    pub fn deputy(&self) -> Deputy {
        Deputy { region: self.region.clone(), id: self.id }
    }
}

/// Stands for a participant where locks are taken. It is of no use when the participant has left.
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

/// What a row means to people.
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
                write!(out, "all {participants_max} rows for participants are taken")
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
