//! Choosing the segment to reclaim next, and freeing drained segments once they have no pins.

#![allow(unsafe_code)]

use forebay_sync::atomic::Relaxed;

use super::drain_state::DrainState;
use super::layout::{row, word};
use super::reclaim::{EvictionGuard, Reclaimer};
use super::stats::Events;
use crate::policy::{self, EvictionRules, SealedSegment, SegmentPool, Victim};
use crate::segment::{SegmentPhase, SegmentQueue, SegmentState};

impl Reclaimer {
    /// Chooses the segment to reclaim next; `None` if there is none.
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
                // The pool excludes segments that are passed over. If it included them, pinned
                // bodies of slow clients would fill the share of the small queue, and no new record
                // would stay long enough to be used.
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
        let may_wait = self.waiting_count() < (self.free_target() / 2).max(1);
        if may_wait && self.is_too_much(&pinned) {
            return choose(true);
        }
        choose(false).or_else(|| if may_wait { choose(true) } else { None })
    }

    /// Counts the segments that are completely drained and are not freed yet, because of their
    /// pins.
    pub(super) fn waiting_count(&self) -> u32 {
        let drained =
            self.shared.segments.table().segments_where(|s| s.phase == SegmentPhase::Draining);
        drained.filter(|segment| self.draining() != Some(*segment)).count() as u32
    }

    /// For each segment, whether a thread with body handles pins it. The result may be outdated as
    /// soon as it is returned. Only rows with body handles are read: other rows have only the short
    /// pins of lookups, and reading the pins of many workers on many segments takes long.
    fn pinned_for_long(&self) -> Vec<bool> {
        let mut pinned = vec![false; self.shared.segments.table().segment_count() as usize];
        let has_handles =
            |number: &usize| self.shared.row_word(*number as u32, row::HANDLES).load(Relaxed) != 0;
        for number in (0..self.shared.plan.rows as usize).filter(has_handles) {
            self.shared.pins.pinned_by(number).for_each(|segment| pinned[segment] = true);
        }
        pinned
    }

    /// Whether so many segments are pinned that they are no longer passed over: at least a quarter
    /// of all segments. Only pinned segments that could otherwise be drained or freed count.
    fn is_too_much(&self, pinned: &[bool]) -> bool {
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
            // The filler does not count, because compacting would not save its bytes.
            filled_bytes: table.records_bytes(segment),
            live_bytes: table.live_bytes(segment),
            stale_from: table.expires(segment),
        })
    }

    /// Frees the drained segments that have no pins. If too many segments are pinned or none is
    /// free, asks the owners of pins to revoke their body handles.
    pub(super) fn free_drained(&self, _: &EvictionGuard<'_>) {
        let table = self.shared.segments.table();
        let mut drained = table
            .segments_where(|state| state.phase == SegmentPhase::Draining)
            .filter(|segment| self.draining() != Some(*segment))
            .peekable();
        if drained.peek().is_none() {
            self.word(word::WAITS_SINCE).store(0, Relaxed);
            return;
        }
        self.shared.pins.barrier();
        let is_much_pinned = self.is_too_much(&self.pinned_for_long());
        for segment in drained {
            if self.shared.pins.is_pinned(segment as usize) {
                if is_much_pinned || self.free_count(1) == 0 {
                    self.request_revoke(segment);
                }
                continue;
            }
            // A complete drain leaves no live bytes. If some are left, the drain or its progress
            // was damaged.
            if table.live_bytes(segment) > 0 {
                if self.draining().is_none() {
                    self.shared.drain.begin(segment, DrainState::TAKE_OUT.encode());
                    return;
                }
                continue;
            }
            // SAFETY:
            // - This thread holds the eviction lock: it has the guard.
            // - The segment is not the one that is being drained, so its drain has removed all its
            //   words, and a location that no word names is never published again.
            // - The barrier was executed after that, and then no row had a pin on the segment.
            if unsafe { self.shared.segments.free(segment) }.is_ok() {
                Events::one(&self.shared.events.segments_freed);
            }
        }
    }

    /// Asks all owners of pins on a segment to revoke their body handles on drained segments.
    fn request_revoke(&self, segment: u32) {
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
