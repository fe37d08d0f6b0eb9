//! What a thread does for the store between two requests: in slices, so that nobody waits long.

use super::lend::Tag;
use super::reclaim::Slice;
use super::worker::StoreWorker;

impl StoreWorker {
    /// One slice of what is to be done: gives up what others want, reclaims while there is little
    /// room. `now` is in Unix seconds. `lost` hears whose pieces are lost, so that their
    /// connections can be reset.
    ///
    /// True if there is more to do: come again after the next request. Otherwise once in a while.
    pub fn turn(&self, now: u64, lost: impl FnMut(Tag)) -> bool {
        let own = &self.own;
        own.now.set(now);
        own.answer_asked();
        own.tell_lost(lost);
        // Not whoever joined first: some only join to look, and have no turns.
        if own.shared.begins_verifying() {
            own.verified.set(Some((0, 0)));
        }
        if own.demote_orphans() {
            return true;
        }
        if !own.is_due.get() && !own.sees_waiting.get() {
            return own.verify_slice();
        }
        match own.reclaim_slice(now) {
            Slice::More => true,
            Slice::Enough => {
                own.is_due.set(false);
                own.sees_waiting.set(own.waiting_count() > 0);
                own.verified.get().is_some()
            }
            Slice::Busy | Slice::Nothing => false,
        }
    }

    /// Is there something for [`turn`](StoreWorker::turn) to do at once?
    pub fn is_due(&self) -> bool {
        self.own.is_due.get() || self.own.reach().has_orphans()
    }

    /// Checks what participants had open that died; gives the number of segments. Once a second is
    /// enough, and before the first request.
    pub fn mend(&self) -> u32 {
        self.own.mend()
    }
}
