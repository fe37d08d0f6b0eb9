//! Which segment is reclaimed next, and what becomes of those that slow clients keep.

#![allow(unsafe_code)]

use forebay_sync::Words;
use forebay_sync::atomic::Relaxed;

use super::drain_state::DrainState;
use super::layout::{row, word};
use super::stats::Events;
use super::worker::WorkerInner;
use crate::policy::{self, EvictionRules, SealedSegment, SegmentPool, Victim};
use crate::segment::{SegmentPhase, SegmentQueue, SegmentState};

impl WorkerInner {
    /// The segment to be reclaimed next, if there is one.
    pub(super) fn choose(&self, now: u64) -> Option<Victim> {
        let table = self.shared.segments.table();
        let pinned = self.pinned_for_long();
        let choose = |pinned_too: bool| {
            let offered = |s: &u32| pinned_too || pinned.get(*s as usize) == Some(&false);
            let small = |state: SegmentState| {
                state.queue == SegmentQueue::Small
                    && !matches!(state.phase, SegmentPhase::Free | SegmentPhase::Draining)
            };
            let pool = SegmentPool {
                // What is passed over is no part of it: else the small queue would be nothing but
                // what slow clients are sent, and no new record would stay long enough to be used.
                segments: (0..table.segment_count()).filter(offered).count() as u32,
                small: table.segments_where(small).filter(offered).count() as u32,
                now,
            };
            let sealed =
                table.segments_where(|state| state.phase == SegmentPhase::Sealed).filter(offered);
            policy::choose_victim(
                sealed.filter_map(|s| self.sealed(s)),
                pool,
                &EvictionRules::STORE,
            )
        };
        let may_wait = self.waiting_count() < (self.reserve() / 2).max(1);
        if may_wait && self.is_much(&pinned) {
            return choose(true);
        }
        choose(false).or_else(|| if may_wait { choose(true) } else { None })
    }

    /// How many segments are drained, and only wait for their pins: what is not pinned was freed.
    pub(super) fn waiting_count(&self) -> u32 {
        let drained =
            self.shared.segments.table().segments_where(|s| s.phase == SegmentPhase::Draining);
        drained.filter(|segment| self.draining() != Some(*segment)).count() as u32
    }

    /// For each segment whether a piece of it is lent: a glance, as pieces come and go meanwhile.
    /// Row by row, and only of who has lent something, since many workers with many segments make
    /// many pins. What is pinned for the time of a lookup is not looked for.
    fn pinned_for_long(&self) -> Vec<bool> {
        let mut pinned = vec![false; self.shared.segments.table().segment_count() as usize];
        let has_lent =
            |number: &usize| self.shared.row_word(*number as u32, row::HANDLES).load(Relaxed) != 0;
        for number in (0..self.shared.plan.rows as usize).filter(has_lent) {
            self.shared.pins.pinned_by(number).for_each(|segment| pinned[segment] = true);
        }
        pinned
    }

    /// Are more segments pinned that could be free than may be passed over?
    fn is_much(&self, pinned: &[bool]) -> bool {
        let table = self.shared.segments.table();
        let which = table
            .segments_where(|s| matches!(s.phase, SegmentPhase::Sealed | SegmentPhase::Draining));
        let pinned = which.filter(|segment| pinned.get(*segment as usize) == Some(&true));
        pinned.count() as u32 >= table.segment_count() / 4
    }

    fn sealed(&self, segment: u32) -> Option<SealedSegment> {
        let table = self.shared.segments.table();
        let queue = table.state(segment)?.queue;
        Some(SealedSegment {
            segment,
            queue: policy_queue(queue),
            order: table.order(segment),
            // The filler is nothing that a compacted segment would be without.
            filled_bytes: table.records_bytes(segment),
            live_bytes: table.live_bytes(segment),
            stale_from: table.expires(segment),
        })
    }

    /// Frees what is drained and pinned by nobody. The caller has the eviction lock.
    pub(super) fn free_drained(&self) {
        let table = self.shared.segments.table();
        let mut drained = table
            .segments_where(|state| state.phase == SegmentPhase::Draining)
            .filter(|segment| self.draining() != Some(*segment))
            .peekable();
        if drained.peek().is_none() {
            self.shared.store.word(word::WAITS_SINCE).store(0, Relaxed);
            return;
        }
        self.shared.pins.barrier();
        let is_much_pinned = self.is_much(&self.pinned_for_long());
        for segment in drained {
            if self.shared.pins.is_pinned(segment as usize) {
                if is_much_pinned || self.free_count(1) == 0 {
                    self.ask_for(segment);
                }
                continue;
            }
            // Nobody has counted them out: who drained it, or what said so, was damaged.
            if table.live_bytes(segment) > 0 {
                if self.draining().is_none() {
                    self.shared.drain.begin(segment, DrainState::TAKE_OUT.encode());
                    return;
                }
                continue;
            }
            // SAFETY:
            // - The caller has the eviction lock.
            // - The segment is not the one that is being drained, so all its words were taken out
            //   by who drained it, and a place that no word names is never published again.
            // - The barrier was executed after that, and then nobody was seen to pin it.
            if unsafe { self.shared.segments.free(segment) }.is_ok() {
                Events::one(&self.shared.events.segments_freed);
            }
        }
    }

    /// Asks all who pin a segment to give it up.
    fn ask_for(&self, segment: u32) {
        for holder in self.shared.pins.holders(segment as usize) {
            let request = self.shared.row_word(holder.row as u32, row::REVOKE);
            request.store(u64::from(segment) + 1, Relaxed);
        }
    }
}

fn policy_queue(queue: SegmentQueue) -> policy::Queue {
    match queue {
        SegmentQueue::Small => policy::Queue::Small,
        SegmentQueue::Main => policy::Queue::Main,
    }
}
