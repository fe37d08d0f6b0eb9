//! The protocol of the participants' rows, over any words and any locks of bytes: the mapped form
//! is in `byte_lock.rs`, models bring one of their own.
//!
//! | word of a row | written by | read by |
//! |---|---|---|
//! | state and generation | who holds the row's byte | anyone |
//! | the rest | who holds the row's byte, while the row is free | anyone, for people |
//!
//! Invariants:
//! - A row is taken only while its participant holds its byte, or died with it.
//! - (row, generation) is never alive again once it was dead.

use std::io;

use forebay_sync::Words;
use forebay_sync::atomic::{Relaxed, acquire_fence, release, release_fence};

use crate::crash_point;

/// Words of a row: one cache line, though rows are hardly ever written.
pub(crate) const ROW_WORDS: usize = 8;
pub(crate) const STATE_WORD: usize = 0;
pub(crate) const PID_WORD: usize = 1;
pub(crate) const START_WORD: usize = 2;
pub(crate) const JOINED_WORD: usize = 3;

/// The low half of a row's first word; the high half is the generation.
pub(crate) const FREE: u32 = 0;
pub(crate) const TAKEN: u32 = 1;
pub(crate) const SWEPT: u32 = 2;

/// Names a participant: the next one in the same row has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParticipantId {
    /// Which row of the table, and of every table that has one row a participant.
    pub row: u32,
    /// How many participants have had this row, modulo 2^32.
    pub generation: u32,
}

/// One lock for each row, which the kernel releases when its holder dies.
///
/// Unlocking, by hand or by death, synchronises with whoever locks next and with whoever learns
/// that the byte is free. The kernel locks and unlocks under one lock of its own; but that a file
/// has no locked byte at all, it tells without, so asking has to pass through that lock as well.
pub(crate) trait ByteLocks {
    /// Releases the byte when it is dropped.
    type Held;

    /// Locks the byte of a row, unless somebody has it.
    fn try_lock(&self, row: u32) -> io::Result<Option<Self::Held>>;

    /// Has somebody locked the byte of this row? Yes, when the system does not tell: to take a
    /// living one for dead is worse than to wait.
    fn is_locked(&self, row: u32) -> bool;
}

/// So often a row is looked at until it stands still.
const LOOKS_MAX: u32 = if cfg!(loom) { 2 } else { 16 };

/// The row got another state while it was looked at.
struct Changed;

/// What people want to know of a participant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) pid: u64,
    pub(crate) start_ticks: u64,
    pub(crate) joined_ns: u64,
}

/// How a row looks from outside.
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
    /// Takes the lowest free row; `None` if there is none. A dead participant's row is not free.
    pub(crate) fn join(&self, facts: Facts) -> io::Result<Option<(ParticipantId, B::Held)>> {
        for row in 0..self.row_count {
            if self.state(row).0 != FREE {
                continue;
            }
            let Some(held) = self.bytes.try_lock(row)? else {
                continue;
            };
            crash_point!("join.byte_locked");
            // Another one may have taken the row and died meanwhile: then it must be swept first.
            let (state, generation) = self.state(row);
            if state != FREE {
                continue;
            }
            // ORDER: pairs with `participants.facts`: who sees a fact of ours sees that the row was
            // free before.
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

    /// Gives the row back. Whoever leaves has given back everything else before.
    pub(crate) fn leave(&self, id: ParticipantId, held: B::Held) {
        self.set_state(id, FREE);
        crash_point!("leave.row_free");
        drop(held);
    }

    /// Is this participant alive? *No* is final, and makes everything visible that it stored.
    pub(crate) fn is_alive(&self, id: ParticipantId) -> bool {
        if id.row >= self.row_count {
            return false;
        }
        self.state(id.row) == (TAKEN, id.generation) && self.bytes.is_locked(id.row)
    }

    /// Cleans up after every dead participant that no other sweep has in hand; gives their number.
    /// A clean-up may run again for the same participant, when a sweeper died in it.
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

    /// Every row that is not free, each as it was at some moment.
    pub(crate) fn list(&self) -> Vec<RowSeen> {
        (0..self.row_count).filter_map(|row| self.look(row)).collect()
    }

    /// A row that changes hands at each look was free in between, and counts as free.
    fn look(&self, row: u32) -> Option<RowSeen> {
        (0..LOOKS_MAX).find_map(|_| self.look_once(row).ok()).flatten()
    }

    fn look_once(&self, row: u32) -> Result<Option<RowSeen>, Changed> {
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
        // ORDER: pairs with `participants.claim`: if a fact is the next participant's, the state
        // is no longer the one before.
        acquire_fence("participants.facts");
        if self.state(row) != (state, generation) {
            return Err(Changed);
        }
        let id = ParticipantId { row, generation };
        Ok(Some(RowSeen { id, is_swept: state == SWEPT, is_locked, facts }))
    }

    /// State and generation of a row.
    fn state(&self, row: u32) -> (u32, u32) {
        let word = self.row_word(row, STATE_WORD).load(Relaxed);
        // ORDER: pairs with `participants.state`: who sees that a participant is swept, or gone,
        // sees what it stored; who sees a taken row sees the facts in it. A fence, since on memory
        // that is only read no load but a relaxed one is promised to work.
        acquire_fence("participants.look");
        (word as u32, (word >> 32) as u32)
    }

    fn set_state(&self, id: ParticipantId, state: u32) {
        let word = u64::from(id.generation) << 32 | u64::from(state);
        // ORDER: pairs with `participants.look`. The sweeper saw the byte free, and with it all
        // that the dead one stored; it passes that on to who reads only this word.
        self.row_word(id.row, STATE_WORD).store(word, release("participants.state"));
    }

    fn row_word(&self, row: u32, word: usize) -> &forebay_sync::atomic::AtomicU64 {
        self.words.word(row as usize * ROW_WORDS + word)
    }
}
