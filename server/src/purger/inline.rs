//! A substitute for the purge thread. It runs its jobs on the thread of a simulation.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use forebay_cache::StoreWorker;
use forebay_shm::CounterSlot;

use super::handle::PurgeJob;
use super::job::do_job;
use super::thread::{Purger, PurgerState};
use crate::limits::PURGES_QUEUED_MAX;

/// Runs queued jobs when the simulation requests it.
pub(crate) struct InlinePurger {
    jobs: Receiver<PurgeJob>,
    queued: Arc<PurgerState>,
}

impl InlinePurger {
    pub(crate) fn new() -> (Purger, InlinePurger) {
        let (sender, jobs) = sync_channel(PURGES_QUEUED_MAX);
        let queued = Arc::new(PurgerState::default());
        (Purger { jobs: sender, left: Arc::clone(&queued) }, InlinePurger { jobs, queued })
    }

    /// Runs all queued jobs.
    pub(crate) fn run_pending(&self, store: &StoreWorker, counters: &CounterSlot) {
        while let Ok(job) = self.jobs.try_recv() {
            let event = do_job((store, &self.queued.kinds), &job, counters);
            self.queued.give_back(job.work);
            // Sending fails if the requester is gone.
            let _ = job.tell.send(event);
        }
    }
}
