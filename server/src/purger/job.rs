//! Runs a job of the purge thread, one selection after the other, and reports the progress.

use forebay_cache::{
    KeyIndexDamaged, PurgeBusy, PurgeResult, Selection, SelectionSize, StoreWorker, WalkProgress,
};
use forebay_shm::CounterSlot;
use tokio::sync::mpsc::UnboundedSender;

use super::handle::{PurgeError, PurgeEvent, PurgeJob, PurgeWork};
use super::kinds::{PurgeKind, PurgeKinds};
use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::limits::{INVALIDATE_MS_MAX, PURGE_PROGRESS_MS, PURGE_SAMPLE_MAX};

pub(super) fn do_job(
    (store, kinds): (&StoreWorker, &PurgeKinds),
    job: &PurgeJob,
    counters: &CounterSlot,
) -> PurgeEvent {
    match job.work {
        PurgeWork::Purge { kind, counter } => {
            let is_soft = kind == PurgeKind::Soft;
            let (purged, failed) = purge(job, INVALIDATE_MS_MAX, |selection, progress| {
                let tell = &mut |walked: &WalkProgress| progress.tell(walked);
                let purged = store.purge_selected(selection, is_soft, tell)?;
                kinds.note(purged.number, kind);
                Ok(purged)
            });
            counters.add(counter.index(), purged.records);
            let Some(busy) = failed else {
                return PurgeEvent::Purged(purged);
            };
            counters.add(Counter::PurgesBusy.index(), 1);
            Event::PurgeBusy.log(&described(&job.selections));
            PurgeEvent::Failed(PurgeError::Busy { busy, purged: purged.records })
        }
        PurgeWork::Weigh => match weigh(store, job) {
            Ok(weighed) => PurgeEvent::Counted(weighed),
            Err(damaged) => PurgeEvent::Failed(PurgeError::KeyIndex(damaged)),
        },
    }
}

/// Purges every selection, and retries each for up to `tried_ms` milliseconds. Stops at a selection
/// for which the store stays busy. Returns the sum of the results so far, and the error if the
/// purge stopped.
pub(super) fn purge<F>(
    job: &PurgeJob,
    tried_ms: u64,
    mut purge_part: F,
) -> (PurgeResult, Option<PurgeBusy>)
where
    F: FnMut(&Selection, &mut ProgressReporter<'_>) -> Result<PurgeResult, PurgeBusy>,
{
    let mut sum = PurgeResult::default();
    let mut progress = ProgressReporter::new(&job.tell);
    for selection in &job.selections {
        let deadline_ms = clock::monotonic_ms() + tried_ms;
        let purged = loop {
            match purge_part(selection, &mut progress) {
                Ok(purged) => break purged,
                // Each call of `purge_part` waits, so this loop does not spin.
                Err(PurgeBusy) if clock::monotonic_ms() < deadline_ms => {}
                Err(busy) => return (sum, Some(busy)),
            }
        };
        sum.records += purged.records;
        sum.flights += purged.flights;
        sum.bytes += purged.bytes;
        progress.end_part(WalkProgress { records: sum.records, bytes: sum.bytes, ..progress.last });
    }
    (sum, None)
}

fn weigh(store: &StoreWorker, job: &PurgeJob) -> Result<SelectionSize, KeyIndexDamaged> {
    let mut sum = SelectionSize::default();
    let mut progress = ProgressReporter::new(&job.tell);
    for selection in &job.selections {
        let wanted = PURGE_SAMPLE_MAX - sum.sample.len();
        let tell = &mut |walked: &WalkProgress| progress.tell(walked);
        let weighed = store.weigh_selected(selection, wanted, tell)?;
        sum.walked.resources += weighed.walked.resources;
        sum.walked.records += weighed.walked.records;
        sum.walked.bytes += weighed.walked.bytes;
        sum.sample.extend(weighed.sample);
        progress.end_part(sum.walked);
    }
    Ok(sum)
}

/// Reports the progress of a job over all of its selections, at most once every
/// `PURGE_PROGRESS_MS`.
pub(super) struct ProgressReporter<'a> {
    to: &'a UnboundedSender<PurgeEvent>,
    told_ms: u64,
    /// The progress of the selections that have already been completed.
    before: WalkProgress,
    last: WalkProgress,
}

impl<'a> ProgressReporter<'a> {
    fn new(to: &'a UnboundedSender<PurgeEvent>) -> ProgressReporter<'a> {
        let nothing = WalkProgress::default();
        ProgressReporter { to, told_ms: clock::monotonic_ms(), before: nothing, last: nothing }
    }

    pub(super) fn tell(&mut self, walked: &WalkProgress) {
        let WalkProgress { resources, records, bytes } = self.before;
        self.last = WalkProgress {
            resources: resources + walked.resources,
            records: records + walked.records,
            bytes: bytes + walked.bytes,
        };
        // No lock of the key index is held here, so no worker is blocked while this thread yields.
        std::thread::yield_now();
        let now_ms = clock::monotonic_ms();
        if now_ms - self.told_ms >= PURGE_PROGRESS_MS {
            self.told_ms = now_ms;
            let _ = self.to.send(PurgeEvent::Progress(self.last));
        }
    }

    fn end_part(&mut self, walked: WalkProgress) {
        (self.before, self.last) = (walked, walked);
    }
}

/// Returns the selections of a job as text for the log.
pub(super) fn described(selections: &[Selection]) -> String {
    let one = |selection: &Selection| {
        let tags = selection.tags.as_ref().map(|tags| format!(" with tags {tags}"));
        format!("{}{}", selection.within.escape_ascii(), tags.unwrap_or_default())
    };
    let more = selections.len().saturating_sub(1);
    let first = selections.first().map(one).unwrap_or_default();
    if more == 0 { first } else { format!("{first} and {more} more") }
}
