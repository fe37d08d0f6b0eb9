//! The thread that purges by host, prefix and tags. Such a purge walks over everything that it
//! takes out, which may be all that is stored: no worker waits for that, nor does the control
//! thread. One purge follows the other.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_cache::{OrderDamaged, PurgeBusy, Purged, Selection, StoreWorker, Walked, Weighed};
use forebay_shm::CounterSlot;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{
    INVALIDATE_MS_MAX, PURGE_PROGRESS_MS, PURGE_SAMPLE_MAX, PURGER_NICENESS, PURGES_QUEUED_MAX,
    PURGES_RESERVED,
};

/// A way to the thread.
#[derive(Clone)]
pub(crate) struct Purger {
    jobs: SyncSender<Job>,
    left: Arc<Left>,
}

/// What waits or is under way.
#[derive(Debug, Default)]
struct Left {
    jobs: AtomicUsize,
    /// Those of them that are not only counts.
    purges: AtomicU64,
}

impl Left {
    /// Takes a place, if fewer than this are taken.
    fn take(&self, work: Work, places: usize) -> bool {
        if self.jobs.fetch_add(1, Relaxed) >= places {
            self.jobs.fetch_sub(1, Relaxed);
            return false;
        }
        self.purges.fetch_add(u64::from(work != Work::Weigh), Relaxed);
        true
    }

    fn give_back(&self, work: Work) {
        self.jobs.fetch_sub(1, Relaxed);
        self.purges.fetch_sub(u64::from(work != Work::Weigh), Relaxed);
    }
}

/// The thread; it ends when the last way to it is gone.
pub(crate) struct PurgerThread {
    jobs: SyncSender<Job>,
    left: Arc<Left>,
    thread: JoinHandle<()>,
}

/// What is to be done with what is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Take it out, or if `is_soft` have it validated before it is used.
    Purge { is_soft: bool, counter: Counter },
    /// Count it.
    Weigh,
}

struct Job {
    selections: Vec<Selection>,
    work: Work,
    tell: UnboundedSender<Told>,
}

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum Told {
    /// It goes on; now and then.
    Walked(Walked),
    /// It is done.
    Purged(Purged),
    Weighed(Weighed),
    Failed(PurgeFailed),
}

/// Why it is not done, or not to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgeFailed {
    /// Too many others wait.
    Queue,
    Busy {
        busy: PurgeBusy,
        purged: u64,
    },
    Order(OrderDamaged),
    /// An error of our own.
    Panicked,
    /// The server stops.
    Stopping,
}

impl fmt::Display for PurgeFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeFailed::Queue => f.write_str("too many other purges wait; try again"),
            PurgeFailed::Busy { busy, .. } => busy.fmt(f),
            PurgeFailed::Order(damaged) => damaged.fmt(f),
            PurgeFailed::Panicked => f.write_str("an error of this server's own ended the purge"),
            PurgeFailed::Stopping => f.write_str("the server stops"),
        }
    }
}

/// A purge that was asked for. It goes on if nobody listens.
#[derive(Debug)]
pub(crate) struct Asked {
    told: UnboundedReceiver<Told>,
}

impl Asked {
    /// What is heard of it next.
    pub(crate) async fn next(&mut self) -> Told {
        self.told.recv().await.unwrap_or(Told::Failed(PurgeFailed::Stopping))
    }

    /// How a purge has ended.
    ///
    /// # Errors
    /// [`PurgeFailed`].
    pub(crate) async fn purged(mut self) -> Result<Purged, PurgeFailed> {
        loop {
            match self.next().await {
                Told::Purged(purged) => return Ok(purged),
                Told::Failed(failed) => return Err(failed),
                Told::Walked(_) | Told::Weighed(_) => {}
            }
        }
    }
}

impl Purger {
    /// Has the work done, after what others have asked for.
    ///
    /// # Errors
    /// [`PurgeFailed::Queue`], or that the server stops.
    pub(crate) fn ask(&self, selections: Vec<Selection>, work: Work) -> Result<Asked, PurgeFailed> {
        self.ask_for(selections, work, PURGES_QUEUED_MAX)
    }

    /// The same for somebody who may be anybody: some places are left to operators.
    ///
    /// # Errors
    /// [`PurgeFailed::Queue`], or that the server stops.
    pub(crate) fn ask_for_client(
        &self,
        selections: Vec<Selection>,
        work: Work,
    ) -> Result<Asked, PurgeFailed> {
        self.ask_for(selections, work, PURGES_QUEUED_MAX - PURGES_RESERVED)
    }

    fn ask_for(
        &self,
        selections: Vec<Selection>,
        work: Work,
        places: usize,
    ) -> Result<Asked, PurgeFailed> {
        if !self.left.take(work, places) {
            return Err(PurgeFailed::Queue);
        }
        let (tell, told) = unbounded_channel();
        let sent = self.jobs.try_send(Job { selections, work, tell });
        if sent.is_err() {
            self.left.give_back(work);
        }
        match sent {
            Ok(()) => Ok(Asked { told }),
            Err(TrySendError::Full(_)) => Err(PurgeFailed::Queue),
            Err(TrySendError::Disconnected(_)) => Err(PurgeFailed::Stopping),
        }
    }
}

impl PurgerThread {
    /// Starts the thread; `join` takes part in the store for it.
    ///
    /// # Errors
    /// The thread can't be made, or can't take part.
    pub(crate) fn start<E: From<std::io::Error> + Send + 'static>(
        join: impl FnOnce() -> Result<StoreWorker, E> + Send + 'static,
        counters: CounterSlot,
    ) -> Result<PurgerThread, E> {
        let (jobs, received) = sync_channel(PURGES_QUEUED_MAX);
        let left = Arc::new(Left::default());
        let left_there = Arc::clone(&left);
        let (up, is_up) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("purger".to_owned()).spawn(move || {
            // Who serves comes first. It is only a wish.
            let _ = rustix::process::nice(PURGER_NICENESS);
            let joined = join();
            let store = match joined {
                Ok(store) => store,
                Err(error) => return drop(up.send(Err(error))),
            };
            drop(up.send(Ok(())));
            let count = |counter: Counter| counters.add(counter.index(), 1);
            work(&received, &left_there, count, |job| do_job(&store, job, &counters));
        })?;
        let ended = |_| Err(std::io::Error::other("the purging thread has ended").into());
        is_up.recv().unwrap_or_else(ended)?;
        Ok(PurgerThread { jobs, left, thread })
    }

    /// A way to it.
    pub(crate) fn purger(&self) -> Purger {
        Purger { jobs: self.jobs.clone(), left: Arc::clone(&self.left) }
    }

    /// Lets it end, and waits for that for so long; returns how many purges are left undone.
    pub(crate) async fn finish(self, ms_max: u64, poll: Duration) -> u64 {
        drop(self.jobs);
        let deadline_ms = clock::monotonic_ms() + ms_max;
        while !self.thread.is_finished() && clock::monotonic_ms() < deadline_ms {
            tokio::time::sleep(poll).await;
        }
        self.left.purges.load(Relaxed)
    }
}

/// A panic ends one job, not those that follow.
fn work(
    jobs: &Receiver<Job>,
    left: &Left,
    count: impl Fn(Counter),
    mut do_job: impl FnMut(&Job) -> Told,
) {
    while let Ok(job) = jobs.recv() {
        let told = catch_unwind(AssertUnwindSafe(|| do_job(&job))).unwrap_or_else(|_| {
            count(Counter::PurgesFailed);
            Event::PurgeFailed.log(&format_args!("panic: {}", described(&job.selections)));
            Told::Failed(PurgeFailed::Panicked)
        });
        left.give_back(job.work);
        // Who asked may have gone.
        let _ = job.tell.send(told);
    }
}

fn do_job(store: &StoreWorker, job: &Job, counters: &CounterSlot) -> Told {
    match job.work {
        Work::Purge { is_soft, counter } => {
            let (purged, failed) = purge(job, INVALIDATE_MS_MAX, |selection, progress| {
                store.purge_selected(selection, is_soft, &mut |walked| progress.tell(walked))
            });
            counters.add(counter.index(), purged.records);
            let Some(busy) = failed else {
                return Told::Purged(purged);
            };
            counters.add(Counter::PurgesBusy.index(), 1);
            Event::PurgeBusy.log(&described(&job.selections));
            Told::Failed(PurgeFailed::Busy { busy, purged: purged.records })
        }
        Work::Weigh => match weigh(store, job) {
            Ok(weighed) => Told::Weighed(weighed),
            Err(damaged) => Told::Failed(PurgeFailed::Order(damaged)),
        },
    }
}

/// What was taken out, and why not all of it; each part is tried for so long.
fn purge(
    job: &Job,
    tried_ms: u64,
    mut purge_part: impl FnMut(&Selection, &mut Progress<'_>) -> Result<Purged, PurgeBusy>,
) -> (Purged, Option<PurgeBusy>) {
    let mut sum = Purged::default();
    let mut progress = Progress::new(&job.tell);
    for selection in &job.selections {
        let deadline_ms = clock::monotonic_ms() + tried_ms;
        let purged = loop {
            match purge_part(selection, &mut progress) {
                Ok(purged) => break purged,
                // It has waited already.
                Err(PurgeBusy) if clock::monotonic_ms() < deadline_ms => {}
                Err(busy) => return (sum, Some(busy)),
            }
        };
        sum.records += purged.records;
        sum.flights += purged.flights;
        sum.bytes += purged.bytes;
        progress.end_part(Walked { records: sum.records, bytes: sum.bytes, ..progress.last });
    }
    (sum, None)
}

fn weigh(store: &StoreWorker, job: &Job) -> Result<Weighed, OrderDamaged> {
    let mut sum = Weighed::default();
    let mut progress = Progress::new(&job.tell);
    for selection in &job.selections {
        let wanted = PURGE_SAMPLE_MAX - sum.sample.len();
        let tell = &mut |walked: &Walked| progress.tell(walked);
        let weighed = store.weigh_selected(selection, wanted, tell)?;
        sum.walked.resources += weighed.walked.resources;
        sum.walked.records += weighed.walked.records;
        sum.walked.bytes += weighed.walked.bytes;
        sum.sample.extend(weighed.sample);
        progress.end_part(sum.walked);
    }
    Ok(sum)
}

/// Tells how far a job has come, over all its parts and not too often.
struct Progress<'a> {
    to: &'a UnboundedSender<Told>,
    told_ms: u64,
    /// What the parts before have walked.
    before: Walked,
    last: Walked,
}

impl<'a> Progress<'a> {
    fn new(to: &'a UnboundedSender<Told>) -> Progress<'a> {
        let nothing = Walked::default();
        Progress { to, told_ms: clock::monotonic_ms(), before: nothing, last: nothing }
    }

    fn tell(&mut self, walked: &Walked) {
        let Walked { resources, records, bytes } = self.before;
        self.last = Walked {
            resources: resources + walked.resources,
            records: records + walked.records,
            bytes: bytes + walked.bytes,
        };
        // Here it holds no lock of the order: who has to give up the processor with one keeps all
        // that store from theirs.
        std::thread::yield_now();
        let now_ms = clock::monotonic_ms();
        if now_ms - self.told_ms >= PURGE_PROGRESS_MS {
            self.told_ms = now_ms;
            let _ = self.to.send(Told::Walked(self.last));
        }
    }

    fn end_part(&mut self, walked: Walked) {
        (self.before, self.last) = (walked, walked);
    }
}

/// For the log.
fn described(selections: &[Selection]) -> String {
    let one = |selection: &Selection| {
        let tags = selection.tags.as_ref().map(|tags| format!(" with tags {tags}"));
        format!("{}{}", selection.within.escape_ascii(), tags.unwrap_or_default())
    };
    let more = selections.len().saturating_sub(1);
    let first = selections.first().map(one).unwrap_or_default();
    if more == 0 { first } else { format!("{first} and {more} more") }
}

#[cfg(test)]
#[path = "purger_tests.rs"]
mod tests;
