//! The limits of the queue, and jobs that stay busy or panic.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, sync_channel};

use forebay_cache::{PurgeBusy, PurgeResult, Selection};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::PurgeKind;
use super::handle::{PurgeError, PurgeEvent, PurgeJob, PurgeWork};
use super::job::purge;
use super::thread::{Purger, work};
use crate::clock;
use crate::counters::Counter;
use crate::limits::{PURGES_QUEUED_MAX, PURGES_RESERVED};

fn job(parts: usize, tell: UnboundedSender<PurgeEvent>) -> PurgeJob {
    let work = PurgeWork::Purge { kind: PurgeKind::Hard, counter: Counter::Purged };
    PurgeJob { selections: vec![Selection::within(b"a"); parts], work, tell }
}

fn purger(places: usize) -> (Purger, Receiver<PurgeJob>) {
    let (jobs, received) = sync_channel(places);
    (Purger { jobs, left: Arc::default() }, received)
}

#[test]
fn unsafe_requests_leave_queue_slots_to_operators() {
    let (purger, _received) = purger(PURGES_QUEUED_MAX);
    let parts = || vec![Selection::within(b"a")];
    let taken =
        (0..100).filter(|_| purger.ask_for_client(parts(), PurgeWork::Weigh).is_ok()).count();
    assert_eq!(taken, PURGES_QUEUED_MAX - PURGES_RESERVED);
    let taken = (0..100).filter(|_| purger.ask(parts(), PurgeWork::Weigh).is_ok()).count();
    assert_eq!(taken, PURGES_RESERVED);
    assert_eq!(purger.left.jobs.load(Relaxed), PURGES_QUEUED_MAX);
    assert_eq!(purger.left.purges.load(Relaxed), 0);
}

fn pass(ms: u64) {
    let until_ms = clock::monotonic_ms() + ms;
    while clock::monotonic_ms() < until_ms {
        std::thread::yield_now();
    }
}

#[test]
fn each_selection_is_tried_for_its_time_and_earlier_results_are_reported() {
    let (tell, _told) = unbounded_channel();
    let (job, tried_ms) = (job(2, tell), 50);
    for stays_busy in [false, true] {
        let mut asked = 0;
        let (purged, failed) = purge(&job, tried_ms, |_, _| {
            asked += 1;
            if asked == 1 {
                pass(2 * tried_ms);
            } else if stays_busy || asked == 2 {
                pass(1);
                return Err(PurgeBusy);
            }
            Ok(PurgeResult { records: 1, ..PurgeResult::default() })
        });
        let expected = if stays_busy { (1, true) } else { (2, false) };
        assert_eq!((purged.records, failed.is_some()), expected);
    }
}

#[test]
fn a_job_that_panics_is_reported_and_counted_and_the_next_one_runs() {
    let (purger, received) = purger(2);
    let parts = || vec![Selection::within(b"a")];
    let work_asked = PurgeWork::Purge { kind: PurgeKind::Hard, counter: Counter::Purged };
    let mut first = purger.ask(parts(), work_asked).expect("there is room");
    let mut second = purger.ask(parts(), work_asked).expect("there is room");
    let left = Arc::clone(&purger.left);
    assert_eq!(left.purges.load(Relaxed), 2);
    drop(purger);
    let (counted, mut done) = (std::cell::Cell::new(0), 0);
    let count = |counter| counted.set(counted.get() + u32::from(counter == Counter::PurgesFailed));
    work(&received, &left, count, |_| {
        done += 1;
        assert!(done > 1, "the first one fails");
        PurgeEvent::Purged(PurgeResult::default())
    });
    let told = first.told.try_recv();
    assert!(matches!(told, Ok(PurgeEvent::Failed(PurgeError::Panicked))), "{told:?}");
    assert!(matches!(second.told.try_recv(), Ok(PurgeEvent::Purged(_))));
    assert_eq!((counted.get(), done, left.purges.load(Relaxed)), (1, 2, 0));
}
