//! The thread that purges by host, prefix and tags. Such a purge walks over everything that it
//! takes out, which may be all that is stored: no worker waits for that, nor does the control
//! thread. One purge follows the other.

use std::fmt;
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
};

/// A way to the thread.
#[derive(Clone)]
pub(crate) struct Purger {
    jobs: SyncSender<Job>,
}

/// The thread; it ends when the last way to it is gone.
pub(crate) struct PurgerThread {
    jobs: SyncSender<Job>,
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
    Busy(PurgeBusy),
    Order(OrderDamaged),
    /// The server stops.
    Stopping,
}

impl fmt::Display for PurgeFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PurgeFailed::Queue => f.write_str("too many other purges wait; try again"),
            PurgeFailed::Busy(busy) => busy.fmt(f),
            PurgeFailed::Order(damaged) => damaged.fmt(f),
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
        let (tell, told) = unbounded_channel();
        match self.jobs.try_send(Job { selections, work, tell }) {
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
            work(&store, &received, &counters);
        })?;
        let ended = |_| Err(std::io::Error::other("the purging thread has ended").into());
        is_up.recv().unwrap_or_else(ended)?;
        Ok(PurgerThread { jobs, thread })
    }

    /// A way to it.
    pub(crate) fn purger(&self) -> Purger {
        Purger { jobs: self.jobs.clone() }
    }

    /// Lets it end, and waits for that for so long.
    pub(crate) async fn finish(self, ms_max: u64, poll: Duration) {
        drop(self.jobs);
        let deadline_ms = clock::monotonic_ms() + ms_max;
        while !self.thread.is_finished() && clock::monotonic_ms() < deadline_ms {
            tokio::time::sleep(poll).await;
        }
    }
}

fn work(store: &StoreWorker, jobs: &Receiver<Job>, counters: &CounterSlot) {
    while let Ok(job) = jobs.recv() {
        let told = match job.work {
            Work::Purge { is_soft, counter } => {
                let (purged, failed) = purge(store, &job, is_soft);
                counters.add(counter.index(), purged.records);
                match failed {
                    None => Told::Purged(purged),
                    Some(busy) => {
                        counters.add(Counter::PurgesBusy.index(), 1);
                        Event::PurgeBusy.log(&described(&job.selections));
                        Told::Failed(PurgeFailed::Busy(busy))
                    }
                }
            }
            Work::Weigh => match weigh(store, &job) {
                Ok(weighed) => Told::Weighed(weighed),
                Err(damaged) => Told::Failed(PurgeFailed::Order(damaged)),
            },
        };
        // Who asked may have gone.
        let _ = job.tell.send(told);
    }
}

/// What was taken out, and why not all of it.
fn purge(store: &StoreWorker, job: &Job, is_soft: bool) -> (Purged, Option<PurgeBusy>) {
    let mut sum = Purged::default();
    let mut progress = Progress::new(&job.tell);
    let deadline_ms = clock::monotonic_ms() + INVALIDATE_MS_MAX;
    for selection in &job.selections {
        let purged = loop {
            match store.purge_selected(selection, is_soft, &mut |walked| progress.tell(walked)) {
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
