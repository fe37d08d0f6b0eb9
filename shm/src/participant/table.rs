//! The protocol of the participants' rows, over any words and any byte locks: `byte_lock.rs` has
//! the locks of a file, and the loom models have their own.
//!
//! | word of a row | written by | read by |
//! |---|---|---|
//! | state and generation | holder of the row's byte | all participants and tools |
//! | all other words | holder of the row's byte, while the row is free | all, only for display |
//!
//! Invariants:
//! - A row is taken only while its participant holds the row's byte, or after the participant died
//!   holding it.
//! - A (row, generation) that was dead once is never alive again.

use std::io;

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, acquire_fence, release, release_fence};

use crate::crash_point;

/// The number of words in a row: one cache line, though rows are hardly ever written.
pub(crate) const ROW_WORDS: usize = 8;
pub(crate) const STATE_WORD: usize = 0;
pub(crate) const PID_WORD: usize = 1;
pub(crate) const START_WORD: usize = 2;
pub(crate) const JOINED_WORD: usize = 3;

/// The states of a row, in the low half of its first word; the high half is the generation.
pub(crate) const FREE: u32 = 0;
pub(crate) const TAKEN: u32 = 1;
pub(crate) const SWEPT: u32 = 2;

/// The id of a participant. The next participant in the same row has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParticipantId {
    /// The participant's row in this table, and in every other table with one row for each
    /// participant.
    pub row: u32,
    /// The number of participants that have had this row, modulo 2^32.
    pub generation: u32,
}

/// Kernel locks on single bytes, one byte for each row. The kernel unlocks a byte when the
/// holder of the lock dies.
///
/// Unlocking a byte, explicitly or by death, synchronises with the next thread that locks the byte
/// and with every thread that learns that the byte is free, because the kernel locks and unlocks
/// bytes under an internal lock. But the kernel can report that a file has no locked byte at all
/// without taking the internal lock, so an inquiry has to make the kernel take it.
pub(crate) trait ByteLocks {
    /// A locked byte. Dropping the value unlocks the byte.
    type Held;

    /// Locks the byte of a row; `None` if it is locked already.
    fn try_lock(&self, row: u32) -> io::Result<Option<Self::Held>>;

    /// Whether the byte of this row is locked. Returns true if the system call fails: mistaking a
    /// living participant for a dead one is worse than waiting.
    fn is_locked(&self, row: u32) -> bool;
}

/// The number of attempts to read a row that changes while it is read.
const LOOKS_MAX: u32 = if cfg!(loom) { 2 } else { 16 };

/// The state of a row changed while the row was read.
struct RowChanged;

/// The facts about a participant that are shown to people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) pid: u64,
    pub(crate) start_ticks: u64,
    pub(crate) joined_ns: u64,
}

/// A row, as other participants and tools read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSeen {
    pub(crate) id: ParticipantId,
    pub(crate) is_swept: bool,
    pub(crate) is_locked: bool,
    pub(crate) facts: Facts,
}

/// The rows of all participants.
#[derive(Debug)]
pub(crate) struct Table<'a, W, B> {
    pub(crate) words: &'a W,
    pub(crate) bytes: &'a B,
    pub(crate) row_count: u32,
}

impl<W: Words, B: ByteLocks> Table<'_, W, B> {
    /// Takes the lowest free row whose byte is not locked; `None` if there is none. The row of a
    /// dead participant is not free.
    pub(crate) fn join(&self, facts: Facts) -> io::Result<Option<(ParticipantId, B::Held)>> {
        for row in 0..self.row_count {
            if self.state(row).0 != FREE {
                continue;
            }
            let Some(held) = self.bytes.try_lock(row)? else {
                continue;
            };
            crash_point!("join.byte_locked");
            // Another participant may have taken the row and died in between: then the row must be
            // swept first.
            let (state, generation) = self.state(row);
            if state != FREE {
                continue;
            }
            // ORDER: pairs with `participants.facts`: a thread that sees a fact of ours sees that
            // the row was free before.
            release_fence("participants.claim");
            self.row_word(row, PID_WORD).store(facts.pid, Relaxed);
            self.row_word(row, START_WORD).store(facts.start_ticks, Relaxed);
            self.row_word(row, JOINED_WORD).store(facts.joined_ns, Relaxed);
            crash_point!("join.row_written");
            let id = ParticipantId { row, generation: generation.wrapping_add(1) };
            self.set_state(id, TAKEN);
            crash_point!("join.taken");
            return Ok(Some((id, held)));
        }
        Ok(None)
    }

    /// Frees the row of a participant that leaves. The participant has released everything else
    /// before.
    pub(crate) fn leave(&self, id: ParticipantId, held: B::Held) {
        self.set_state(id, FREE);
        crash_point!("leave.row_free");
        drop(held);
    }

    /// Whether a participant is alive. `false` is final, and everything that the dead participant
    /// stored is then visible to the caller.
    pub(crate) fn is_alive(&self, id: ParticipantId) -> bool {
        if id.row >= self.row_count {
            return false;
        }
        self.state(id.row) == (TAKEN, id.generation) && self.bytes.is_locked(id.row)
    }

    /// Cleans up after every dead participant that no other sweep is working on. Returns the number
    /// of these participants. If a sweeper dies during a clean-up, the clean-up runs again for the
    /// same participant.
    pub(crate) fn sweep(&self, mut clean_up: impl FnMut(ParticipantId)) -> io::Result<u32> {
        let mut swept_count = 0;
        for row in 0..self.row_count {
            if self.state(row).0 == FREE || self.bytes.is_locked(row) {
                continue;
            }
            let Some(held) = self.bytes.try_lock(row)? else {
                continue;
            };
            crash_point!("sweep.byte_locked");
            let (state, generation) = self.state(row);
            if state == FREE {
                continue;
            }
            let dead = ParticipantId { row, generation };
            self.set_state(dead, SWEPT);
            crash_point!("sweep.marked");
            clean_up(dead);
            crash_point!("sweep.cleaned");
            self.set_state(dead, FREE);
            crash_point!("sweep.row_free");
            drop(held);
            swept_count += 1;
        }
        Ok(swept_count)
    }

    /// All rows that are not free, each as it was at some moment.
    pub(crate) fn list(&self) -> Vec<RowSeen> {
        (0..self.row_count).filter_map(|row| self.look(row)).collect()
    }

    /// Reads a row; `None` if it is free. A row that changes during each attempt was free in
    /// between, and counts as free.
    fn look(&self, row: u32) -> Option<RowSeen> {
        (0..LOOKS_MAX).find_map(|_| self.look_once(row).ok()).flatten()
    }

    fn look_once(&self, row: u32) -> Result<Option<RowSeen>, RowChanged> {
        let (state, generation) = self.state(row);
        if state == FREE {
            return Ok(None);
        }
        let facts = Facts {
            pid: self.row_word(row, PID_WORD).load(Relaxed),
            start_ticks: self.row_word(row, START_WORD).load(Relaxed),
            joined_ns: self.row_word(row, JOINED_WORD).load(Relaxed),
        };
        let is_locked = self.bytes.is_locked(row);
        // ORDER: pairs with `participants.claim`: if a fact is that of the next participant, the
        // state has changed, too.
        acquire_fence("participants.facts");
        if self.state(row) != (state, generation) {
            return Err(RowChanged);
        }
        let id = ParticipantId { row, generation };
        Ok(Some(RowSeen { id, is_swept: state == SWEPT, is_locked, facts }))
    }

    /// The state and the generation of a row.
    fn state(&self, row: u32) -> (u32, u32) {
        let word = self.row_word(row, STATE_WORD).load(Relaxed);
        // ORDER: pairs with `participants.state`: a thread that sees a participant swept or gone
        // sees what the participant stored; a thread that sees a taken row sees the facts in the
        // row. This is a fence because only relaxed loads are guaranteed to work on read-only
        // memory.
        acquire_fence("participants.look");
        (word as u32, (word >> 32) as u32)
    }

    fn set_state(&self, id: ParticipantId, state: u32) {
        let word = u64::from(id.generation) << 32 | u64::from(state);
        // ORDER: pairs with `participants.look`. The sweeper saw the byte free, and with it
        // everything that the dead participant stored; it passes that on to threads that read only
        // this word.
        self.row_word(id.row, STATE_WORD).store(word, release("participants.state"));
    }

    fn row_word(&self, row: u32, word: usize) -> &forebay_sync::atomic::AtomicU64 {
        self.words.word(row as usize * ROW_WORDS + word)
    }
}
