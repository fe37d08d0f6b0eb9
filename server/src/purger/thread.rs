//! The purge thread, its queue, and handles for queueing jobs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_cache::{Selection, StoreWorker};
use forebay_shm::CounterSlot;
use forebay_sync::profile::with_known_stack;
use tokio::sync::mpsc::unbounded_channel;

use super::handle::{PurgeError, PurgeEvent, PurgeHandle, PurgeJob, PurgeWork};
use super::job::{described, do_job};
use super::kinds::PurgeKinds;

use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::key::DamagedKey;
use crate::limits::{PURGER_NICENESS, PURGES_QUEUED_MAX, PURGES_RESERVED};

/// A handle for queueing jobs for the purge thread.
#[derive(Clone)]
pub(crate) struct Purger {
    pub(super) jobs: SyncSender<PurgeJob>,
    pub(super) left: Arc<PurgerState>,
}

/// The state that the purge thread shares with its handles: the number of jobs that are queued or
/// running, and the kinds of the last purges.
#[derive(Debug, Default)]
pub(super) struct PurgerState {
    pub(super) jobs: AtomicUsize,
    /// Number of purges among the queued and running jobs; the other jobs only count records.
    pub(super) purges: AtomicU64,
    pub(super) kinds: PurgeKinds,
}

impl PurgerState {
    /// Counts a new job, unless `places` or more jobs are queued or running. Returns whether the
    /// job was counted.
    fn take(&self, work: PurgeWork, places: usize) -> bool {
        if self.jobs.fetch_add(1, Relaxed) >= places {
            self.jobs.fetch_sub(1, Relaxed);
            return false;
        }
        self.purges.fetch_add(u64::from(work != PurgeWork::Weigh), Relaxed);
        true
    }

    pub(super) fn give_back(&self, work: PurgeWork) {
        self.jobs.fetch_sub(1, Relaxed);
        self.purges.fetch_sub(u64::from(work != PurgeWork::Weigh), Relaxed);
    }
}

/// The control thread's handle to the purge thread. The thread ends when this handle and all
/// [`Purger`]s are dropped.
pub(crate) struct PurgerThread {
    jobs: SyncSender<PurgeJob>,
    left: Arc<PurgerState>,
    thread: JoinHandle<()>,
}

impl Purger {
    /// Queues a job.
    ///
    /// # Errors
    /// [`PurgeError::Queue`] if the queue is full; [`PurgeError::Stopping`] if the thread has
    /// ended.
    pub(crate) fn ask(
        &self,
        selections: Vec<Selection>,
        work: PurgeWork,
    ) -> Result<PurgeHandle, PurgeError> {
        self.ask_for(selections, work, PURGES_QUEUED_MAX)
    }

    /// Queues a job on behalf of a client. Some queue slots are reserved for operators.
    ///
    /// # Errors
    /// [`PurgeError::Queue`] if the part of the queue for clients is full; [`PurgeError::Stopping`]
    /// if the thread has ended.
    pub(crate) fn ask_for_client(
        &self,
        selections: Vec<Selection>,
        work: PurgeWork,
    ) -> Result<PurgeHandle, PurgeError> {
        self.ask_for(selections, work, PURGES_QUEUED_MAX - PURGES_RESERVED)
    }

    /// The kinds of the last purges of this process.
    pub(crate) fn kinds(&self) -> &PurgeKinds {
        &self.left.kinds
    }

    fn ask_for(
        &self,
        selections: Vec<Selection>,
        work: PurgeWork,
        places: usize,
    ) -> Result<PurgeHandle, PurgeError> {
        if !self.left.take(work, places) {
            return Err(PurgeError::Queue);
        }
        let (tell, told) = unbounded_channel();
        let sent = self.jobs.try_send(PurgeJob { selections, work, tell });
        if sent.is_err() {
            self.left.give_back(work);
        }
        match sent {
            Ok(()) => Ok(PurgeHandle { told }),
            Err(TrySendError::Full(_)) => Err(PurgeError::Queue),
            Err(TrySendError::Disconnected(_)) => Err(PurgeError::Stopping),
        }
    }
}

impl PurgerThread {
    /// Starts the thread; `join` attaches it to the store.
    ///
    /// # Errors
    /// The thread cannot be created, or cannot attach to the store.
    pub(crate) fn start<E: From<std::io::Error> + Send + 'static>(
        join: impl FnOnce() -> Result<StoreWorker, E> + Send + 'static,
        counters: CounterSlot,
    ) -> Result<PurgerThread, E> {
        let (jobs, received) = sync_channel(PURGES_QUEUED_MAX);
        let left = Arc::new(PurgerState::default());
        let left_there = Arc::clone(&left);
        let (up, is_up) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("purger".to_owned()).spawn(move || {
            // Workers have priority. If the kernel refuses the niceness, the purge thread runs at
            // normal priority.
            let _ = rustix::process::nice(PURGER_NICENESS);
            let joined = join();
            let store = match joined {
                Ok(store) => store,
                Err(error) => return drop(up.send(Err(error))),
            };
            drop(up.send(Ok(())));
            let count = |counter: Counter| counters.add(counter.index(), 1);
            with_known_stack(|| {
                work(&received, &left_there, count, |job| {
                    let done = do_job((&store, &left_there.kinds), job, &counters);
                    store.report_damaged(|key| Event::RecordDamaged.log(&DamagedKey(key)));
                    done
                });
            });
        })?;
        let ended =
            |_| Err(std::io::Error::other("the purge thread ended before it was ready").into());
        is_up.recv().unwrap_or_else(ended)?;
        Ok(PurgerThread { jobs, left, thread })
    }

    /// Returns a handle for queueing jobs for the thread.
    pub(crate) fn purger(&self) -> Purger {
        Purger { jobs: self.jobs.clone(), left: Arc::clone(&self.left) }
    }

    /// Lets the thread end, and waits for that, but at most `ms_max` milliseconds. Returns the
    /// number of unfinished purges.
    pub(crate) async fn finish(self, ms_max: u64, poll: Duration) -> u64 {
        drop(self.jobs);
        let deadline_ms = clock::monotonic_ms() + ms_max;
        while !self.thread.is_finished() && clock::monotonic_ms() < deadline_ms {
            tokio::time::sleep(poll).await;
        }
        self.left.purges.load(Relaxed)
    }
}

/// Runs jobs until the last sender is dropped. A panic ends only the job that caused it.
pub(super) fn work(
    jobs: &Receiver<PurgeJob>,
    left: &PurgerState,
    count: impl Fn(Counter),
    mut do_job: impl FnMut(&PurgeJob) -> PurgeEvent,
) {
    while let Ok(job) = jobs.recv() {
        let told = catch_unwind(AssertUnwindSafe(|| do_job(&job))).unwrap_or_else(|_| {
            count(Counter::PurgesFailed);
            Event::PurgeFailed.log(&format_args!("panic: {}", described(&job.selections)));
            PurgeEvent::Failed(PurgeError::Panicked)
        });
        left.give_back(job.work);
        // The handle may have been dropped.
        let _ = job.tell.send(told);
    }
}
