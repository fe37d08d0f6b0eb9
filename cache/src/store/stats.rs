//! What the store counts, and how its budget is shared out.

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::config::tables_bytes;
use super::shared::Shared;
use super::store::Store;
use crate::index::Reason;
use crate::segment::{Phase, State};

/// Events of this process. None of them happens on a hit, and no hit reads their lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Events {
    /// Bytes that were copied out of the region under slow clients and are not sent yet.
    copied_bytes: AtomicU64,
    pub(crate) inserted: AtomicU64,
    pub(crate) ghost_hits: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) pushed_out: AtomicU64,
    pub(crate) promoted: AtomicU64,
    pub(crate) segments_freed: AtomicU64,
    pub(crate) not_stored: AtomicU64,
    pub(crate) copied_out: AtomicU64,
    pub(crate) lent_lost: AtomicU64,
    pub(crate) repaired: AtomicU64,
    pub(crate) dropped_damaged: AtomicU64,
}

impl Events {
    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn taken_out(&self, reason: Reason) {
        if reason == Reason::Evicted {
            Events::one(&self.pushed_out);
        }
    }

    pub(crate) fn given_up(&self, is_lost: bool) {
        Events::one(if is_lost { &self.lent_lost } else { &self.copied_out });
    }
}

/// A picture of the store.
///
/// `budget = free + live + dead + metadata + growing + pinned + copied`: exact when nobody works;
/// while others do, it is off by what they append, take out and free during the look. A participant
/// that was killed between two steps leaves the bytes of one record counted as live that are dead;
/// the check of its segments mends that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The limit for all that is held.
    pub budget_bytes: u64,
    /// Free segments, what open ones have left, and what is left of the shares below.
    pub free_bytes: u64,
    /// Records that can be found.
    pub live_bytes: u64,
    /// What was written into segments and is not live.
    pub dead_bytes: u64,
    /// Index, pins, ghosts, purges, the region's header: fixed.
    pub metadata_bytes: u64,
    /// What records hold that are still arriving.
    pub growing_bytes: u64,
    /// Segments that are out of use but for somebody who still sends from them.
    pub pinned_bytes: u64,
    /// Copies of what slow clients have still to get.
    pub copied_bytes: u64,
    /// Segments in all.
    pub segment_count: u64,
    /// Free segments.
    pub free_segment_count: u64,
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Words of the index.
    pub index_word_count: u64,
    /// Fetches that can be joined.
    pub flight_count: u64,
    /// Records stored so far, by this process.
    pub inserted: u64,
    /// Records that left for room.
    pub evicted: u64,
    /// Records that left because their places in the index were full.
    pub pushed_out: u64,
    /// Records that were moved because they were used.
    pub promoted: u64,
    /// Records that came back while their ghost was known.
    pub ghost_hits: u64,
    /// Segments that were freed.
    pub segments_freed: u64,
    /// Fetches that turned out not storable.
    pub declined: u64,
    /// Fills refused because the body is known to be too long.
    pub refused_large: u64,
    /// Times that there was no room for a growing record.
    pub refused_no_room: u64,
    /// Complete responses that were not stored, for want of room or because of a purge.
    pub not_stored: u64,
    /// Fills that became a sliding window.
    pub outgrown: u64,
    /// Readers that a window left behind.
    pub readers_cut: u64,
    /// Pieces of bodies that were copied out of a segment for a slow client.
    pub copied_out: u64,
    /// Pieces that were lost to slow clients, whose connections were reset.
    pub lent_lost: u64,
    /// Segments that were checked after their owner's death.
    pub repaired: u64,
    /// Records that were dropped because they were damaged.
    pub dropped_damaged: u64,
}

/// What the segments hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) free_segment_count: u64,
    pub(crate) live_bytes: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) pinned_bytes: u64,
}

/// Adds up segments: of each its state, how far it is filled and what of that is live.
pub(crate) fn accounts(
    segment_bytes: u64,
    segments: impl Iterator<Item = (Option<State>, u64, u64)>,
) -> Accounts {
    let mut accounts = Accounts::default();
    for (state, filled, live) in segments {
        let filled = filled.min(segment_bytes);
        let live = live.min(filled);
        match state.map(|state| state.phase) {
            Some(Phase::Free) => accounts.free_segment_count += 1,
            Some(Phase::Draining) if live == 0 => accounts.pinned_bytes += filled,
            _ => {
                accounts.live_bytes += live;
                accounts.dead_bytes += filled - live;
            }
        }
    }
    accounts
}

impl Shared {
    /// Counts a record's bytes as dead.
    pub(crate) fn count_dead(&self, place: u32, record_bytes: u64) {
        let segment = self.plan.geometry.segment_of(crate::segment::Place(place));
        if let Some(segment) = segment {
            self.segments.table().take_live(segment, record_bytes);
        }
    }

    /// Takes room for a copy, if its share has any.
    pub(crate) fn charge_copy(&self, bytes: u64) -> bool {
        let max = self.config.copied_out_bytes_max();
        let raise = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= max);
        self.events.copied_bytes.try_update(Relaxed, Relaxed, raise).is_ok()
    }

    pub(crate) fn release_copy(&self, bytes: u64) {
        self.events.copied_bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Store {
    /// How the budget is shared out, and what has happened. It looks at each segment's state, at no
    /// record.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let mut stats = Stats {
            budget_bytes: shared.config.budget_bytes,
            segment_bytes: u64::from(shared.plan.geometry.segment_bytes()),
            segment_count: u64::from(shared.plan.geometry.segment_count()),
            index_word_count: shared.index_words.word_count() as u64,
            copied_bytes: shared.events.copied_bytes.load(Relaxed),
            ..Stats::default()
        };
        stats.metadata_bytes =
            shared.plan.region_bytes - shared.plan.geometry.data_bytes() + tables_bytes();
        self.add_segments(&mut stats);
        self.add_events(&mut stats);
        let named = stats.live_bytes
            + stats.dead_bytes
            + stats.metadata_bytes
            + stats.growing_bytes
            + stats.pinned_bytes
            + stats.copied_bytes;
        stats.free_bytes = stats.budget_bytes.saturating_sub(named);
        stats
    }

    fn add_segments(&self, stats: &mut Stats) {
        let table = self.shared.segments.table();
        let all = 0..table.segment_count();
        let words = |s| (table.state(s), table.filled_bytes(s), table.live_bytes(s));
        let accounts = accounts(stats.segment_bytes, all.map(words));
        stats.free_segment_count = accounts.free_segment_count;
        stats.live_bytes = accounts.live_bytes;
        stats.dead_bytes = accounts.dead_bytes;
        stats.pinned_bytes = accounts.pinned_bytes;
    }

    fn add_events(&self, stats: &mut Stats) {
        let flights = self.shared.flights.stats();
        stats.growing_bytes = flights.growing_bytes;
        stats.flight_count = flights.flight_count;
        stats.declined = flights.declined;
        stats.refused_large = flights.refused_large;
        stats.refused_no_room = flights.refused_no_room;
        stats.outgrown = flights.outgrown;
        stats.readers_cut = flights.readers_cut;
        let events = &self.shared.events;
        let counters = [
            (&mut stats.inserted, &events.inserted),
            (&mut stats.evicted, &events.evicted),
            (&mut stats.pushed_out, &events.pushed_out),
            (&mut stats.promoted, &events.promoted),
            (&mut stats.ghost_hits, &events.ghost_hits),
            (&mut stats.segments_freed, &events.segments_freed),
            (&mut stats.not_stored, &events.not_stored),
            (&mut stats.copied_out, &events.copied_out),
            (&mut stats.lent_lost, &events.lent_lost),
            (&mut stats.repaired, &events.repaired),
            (&mut stats.dropped_damaged, &events.dropped_damaged),
        ];
        for (stat, counter) in counters {
            *stat = counter.load(Relaxed);
        }
    }
}
