//! A thread's maintenance of the store between two requests, in slices, so that no request waits
//! long.

use super::body_handle::ConnectionTag;
use super::reclaim::SliceOutcome;
use super::worker::{StoreWorker, WorkerInner};

impl StoreWorker {
    /// Runs one slice of maintenance: revokes body handles whose segments the reclaimer needs,
    /// cleans up, and reclaims segments if few are free. `now` is in Unix seconds. Calls `revoked`
    /// with each connection whose body is lost, so that the caller can reset the connection.
    ///
    /// Returns true if there is more to do: call this again after the next request. Otherwise call
    /// it from time to time.
    pub fn turn(&self, now: u64, revoked: impl FnMut(ConnectionTag)) -> bool {
        let inner = &self.inner;
        inner.reclaimer.set_now(now);
        let revokes_more = inner.bodies.answer_revoke_request(&inner.records.pins)
            && inner.bodies.is_revoke_requested();
        inner.bodies.report_revoked(revoked);
        let goes_on = inner.turn_slice(now);
        if revokes_more {
            inner.reclaimer.request();
        }
        goes_on || revokes_more
    }

    /// Calls `report` for each damaged record that this worker has removed since the last call,
    /// with the primary key if it is known. If there were very many, some are left out; the
    /// [statistics](crate::Stats::dropped_damaged) count all of them.
    pub fn report_damaged(&self, report: impl FnMut(Option<&[u8]>)) {
        self.inner.records.damaged.report(report);
    }

    /// Whether [`turn`](StoreWorker::turn) should be called without delay, because it has work.
    pub fn is_due(&self) -> bool {
        self.inner.reclaimer.is_due() || self.inner.records.access().has_orphans()
    }

    /// Checks the segments that dead participants had open, and returns their number. Call this
    /// before the first request, then once a second.
    pub fn mend(&self) -> u32 {
        self.inner.mend()
    }
}

impl WorkerInner {
    /// Runs one slice of cleaning up orphans, sweeping the key index, reclaiming, or verifying.
    /// Returns whether there is more to do.
    fn turn_slice(&self, now: u64) -> bool {
        // Verifying begins here and not when a thread joins, because some threads join only to
        // inspect the store and run no turns.
        self.verifier.begin();
        if self.clean_up_orphans() {
            return true;
        }
        // The sweep comes before reclaiming for the key index, because entries without a record may
        // fill the key index.
        let sweeps = self.keys.sweep_slice(&self.records);
        if !self.reclaimer.has_work() {
            return sweeps || self.verifier.slice(&self.records);
        }
        match self.reclaim_slice(now) {
            SliceOutcome::More => true,
            SliceOutcome::Enough => {
                self.reclaimer.finish();
                self.verifier.is_running() || sweeps
            }
            SliceOutcome::Busy | SliceOutcome::Nothing => sweeps,
        }
    }
}
