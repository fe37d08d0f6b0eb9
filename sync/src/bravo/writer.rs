//! The writer's side: switching the bias off, and waiting until no slot shows the lock.

use lock_api::RawRwLock;

use super::state::{self, BIAS};
use super::wait::{Backoff, Patience};
use super::{Bravo, SlotTable, clock, table};
use crate::atomic::{Relaxed, acquire};

impl<R: RawRwLock, S: SlotTable> Bravo<R, S> {
    /// Switches the bias off and waits for the readers in slots. The caller has just taken the
    /// underlying lock for writing. Returns false if the patience ends first; then the bias is on
    /// again.
    #[inline]
    pub(super) fn revoke(&self, patience: Patience) -> bool {
        let word = self.state.load(Relaxed);
        word & BIAS == 0 || self.revoke_bias(word, patience)
    }

    /// Does the same as `revoke`, but releases the underlying lock and returns `None` if the
    /// patience ends first.
    #[inline]
    pub(super) fn try_revoke(
        &self,
        exclusive: R::ExclusiveGuard,
        patience: Patience,
    ) -> Option<R::ExclusiveGuard> {
        if self.revoke(patience) {
            return Some(exclusive);
        }
        // SAFETY: this is the guard of the lock that the caller has just taken.
        unsafe { self.underlying.unlock_exclusive(exclusive) };
        None
    }

    #[cold]
    fn revoke_bias(&self, word: u64, patience: Patience) -> bool {
        let start_ns = clock::now_ns();
        self.state.store(word & !BIAS, Relaxed);
        // ORDER: pairs with the barrier in `enter`.
        state::barrier(word).heavy("bravo.revoke");
        if !self.drain(word, patience) {
            self.give_up(word);
            return false;
        }
        self.inhibit(start_ns);
        true
    }

    /// Keeps the bias off for a multiple of the length of this revocation.
    fn inhibit(&self, start_ns: u64) {
        let end_ns = clock::now_ns();
        let inhibit_ns = (end_ns - start_ns).saturating_mul(self.inhibit_factor.into());
        let until_ns = if inhibit_ns == 0 { 0 } else { end_ns.saturating_add(inhibit_ns) };
        self.inhibit_until.store(until_ns, Relaxed);
    }

    /// Waits until each slot was seen without the word of this lock. One look at a slot is enough,
    /// since no further reader can enter. Returns false if the patience ends first.
    fn drain(&self, word: u64, patience: Patience) -> bool {
        let mut backoff = Backoff::new(patience);
        table::slots(&self.table).all(|slot| {
            loop {
                // ORDER: pairs with the release in `leave`: we come after the reader's reads.
                if slot.load(acquire("bravo.drain")) != word {
                    return true;
                }
                if !backoff.wait() {
                    return false;
                }
            }
        })
    }

    /// Switches the bias on again. A reader still has a slot, and the next writer would not wait
    /// for that reader if the bias stayed off.
    fn give_up(&self, word: u64) {
        // A reader that finds this word comes after the writers before us although the store is
        // relaxed: the fence in `revoke_bias` comes before the store and makes it a release.
        self.state.store(word, Relaxed);
    }
}
