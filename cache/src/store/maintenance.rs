//! What a thread does for the store between two requests: in slices, so that nobody waits long.

use super::body_handle::ConnectionTag;
use super::reclaim::Slice;
use super::worker::{StoreWorker, WorkerInner};

impl StoreWorker {
    /// One slice of what is to be done: gives up what others want, reclaims while there is little
    /// room. `now` is in Unix seconds. `lost` hears whose pieces are lost, so that their
    /// connections can be reset.
    ///
    /// True if there is more to do: come again after the next request. Otherwise once in a while.
    pub fn turn(&self, now: u64, lost: impl FnMut(ConnectionTag)) -> bool {
        let inner = &self.inner;
        inner.now.set(now);
        let gives_up_more = inner.bodies.answer_revoke_request(&inner.records.pins)
            && inner.bodies.is_revoke_requested();
        inner.bodies.report_revoked(lost);
        let goes_on = inner.turn_slice(now);
        if gives_up_more {
            inner.is_due.set(true);
        }
        goes_on || gives_up_more
    }

    /// Is there something for [`turn`](StoreWorker::turn) to do at once?
    pub fn is_due(&self) -> bool {
        self.inner.is_due.get() || self.inner.records.access().has_orphans()
    }

    /// Checks what participants had open that died; gives the number of segments. Once a second is
    /// enough, and before the first request.
    pub fn mend(&self) -> u32 {
        self.inner.mend()
    }
}

impl WorkerInner {
    /// One slice of demoting, of reclaiming, or of verifying; is there more?
    fn turn_slice(&self, now: u64) -> bool {
        // Not whoever joined first: some only join to look, and have no turns.
        self.verifier.begin();
        if self.demote_orphans() {
            return true;
        }
        // Before room is made in the order: what is left over may be what fills it.
        let tidies = self.keys.sweep_slice(&self.records);
        if !self.is_due.get() && !self.sees_waiting.get() {
            return tidies || self.verifier.slice(&self.records);
        }
        match self.reclaim_slice(now) {
            Slice::More => true,
            Slice::Enough => {
                self.is_due.set(false);
                self.sees_waiting.set(self.waiting_count() > 0);
                self.verifier.is_running() || tidies
            }
            Slice::Busy | Slice::Nothing => tidies,
        }
    }
}
