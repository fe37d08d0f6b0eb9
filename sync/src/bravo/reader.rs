//! The reader's side: claiming a slot, clearing it, and switching the bias on.

use lock_api::RawRwLock;

use super::state::{self, BIAS};
use super::{Bravo, Claim, SlotTable, clock, table};
use crate::atomic::{Relaxed, acquire, release};

impl<R: RawRwLock, S: SlotTable> Bravo<R, S> {
    /// Claims a slot for a reader and returns the slot's index. `None` means that the reader must
    /// take the underlying lock.
    #[inline(always)]
    pub(super) fn enter(&self) -> Option<u32> {
        let word = self.state.load(Relaxed);
        if word & BIAS == 0 {
            return None;
        }
        let slot = table::claim(&self.table, word)?;
        // ORDER: pairs with the barrier in `revoke`. A reader writes its slot, then reads the bias;
        // a writer switches the bias off, then reads the slots. One of them sees the other.
        state::barrier(word).light("bravo.enter");
        // ORDER: pairs with the release in `rebias`, and with the fence before `give_up`: we see
        // the writes of earlier writers.
        if self.state.load(acquire("bravo.check")) == word {
            return Some(slot);
        }
        self.leave(slot);
        None
    }

    /// Empties the slot that `enter` claimed for this lock.
    #[inline(always)]
    pub(super) fn leave(&self, slot: u32) {
        // ORDER: pairs with the acquire in `drain`: the writer comes after our reads. A reader
        // whose check failed needs the release too: the writer also comes after the reads of the
        // slot's reader before it.
        table::slot(&self.table, slot).store(0, release("bravo.leave"));
    }

    /// Switches the bias on, unless it is inhibited. The caller holds the underlying lock for
    /// reading.
    pub(super) fn rebias(&self) {
        let word = self.state.load(Relaxed);
        if word & BIAS != 0 || self.is_inhibited() {
            return;
        }
        let biased = if word == 0 { state::first_word(S::Claim::barrier()) } else { word } | BIAS;
        // ORDER: pairs with the acquire in `enter`: readers by slot come after the writers before
        // us. If the swap fails, another reader has done the same.
        let order = release("bravo.rebias");
        let _ = self.state.compare_exchange(word, biased, order, Relaxed);
    }

    /// Whether the last revocation was too recent to switch the bias on. After a first revocation
    /// most calls return true without reading the clock, since that costs as much as taking the
    /// lock.
    fn is_inhibited(&self) -> bool {
        let until_ns = self.inhibit_until.load(Relaxed);
        until_ns != 0 && (!clock::is_turn() || clock::now_ns() < until_ns)
    }

    /// Whether a slot shows this lock now.
    pub(super) fn has_slot(&self) -> bool {
        let word = self.state.load(Relaxed);
        word != 0 && table::slots(&self.table).any(|slot| slot.load(Relaxed) == word | BIAS)
    }
}
