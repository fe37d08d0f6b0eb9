//! The counters of the store, and the division of its budget.

use forebay_sync::Words;
use forebay_sync::atomic::{AtomicU64, Relaxed};

use super::config::tables_bytes;
use super::shared::Shared;
use super::store::Store;
use crate::index::RemovalReason;
use crate::segment::{SegmentPhase, SegmentState};

/// Counters of events in this process. No hit changes or reads these counters.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Events {
    /// Bytes that were copied out of the region for slow clients and that are not sent yet.
    copied_bytes: AtomicU64,
    pub(crate) inserted: AtomicU64,
    pub(crate) ghost_hits: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) pushed_out: AtomicU64,
    pub(crate) promoted: AtomicU64,
    pub(crate) segments_freed: AtomicU64,
    pub(crate) not_stored: AtomicU64,
    pub(crate) copied_out: AtomicU64,
    pub(crate) bodies_revoked: AtomicU64,
    pub(crate) repaired: AtomicU64,
    pub(crate) dropped_damaged: AtomicU64,
    pub(crate) order_refused: AtomicU64,
    pub(crate) order_damaged: AtomicU64,
    pub(crate) order_tidied: AtomicU64,
}

impl Events {
    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_removed(&self, reason: RemovalReason) {
        if reason == RemovalReason::Evicted {
            Events::one(&self.pushed_out);
        }
    }

    pub(crate) fn count_revoked(&self, is_lost: bool) {
        Events::one(if is_lost { &self.bodies_revoked } else { &self.copied_out });
    }
}

/// A snapshot of the division of the budget, and of the counters of events in this process.
///
/// `budget = free + live + dead + metadata + growing + pinned + copied`. Each part is counted by
/// itself, so an exceeded share, or bytes that are counted twice or not at all, make the
/// [sum](Stats::sum_bytes) of the parts differ from the budget. The sum is exact while no thread
/// uses the store. Otherwise it is off by at most the bytes that threads append, remove and free
/// during the snapshot, since the words of a segment are read one after another. A participant that
/// was killed between two steps leaves the bytes of one dead record counted as live; the check of
/// its segments corrects that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The limit for all memory of the store.
    pub budget_bytes: u64,
    /// Bytes of free segments, unfilled ends of other segments, and the unused parts of the shares
    /// for growing records and for copies.
    pub free_bytes: u64,
    /// Bytes of records that lookups can find.
    pub live_bytes: u64,
    /// Bytes of other records in segments, which lookups cannot find.
    pub dead_bytes: u64,
    /// Bytes of the index, pins, ghosts, purges and all other tables. They do not change.
    pub metadata_bytes: u64,
    /// Bytes that growing records hold or have reserved.
    pub growing_bytes: u64,
    /// Bytes of drained segments that are still pinned, because clients are still reading bodies in
    /// them.
    pub pinned_bytes: u64,
    /// Bytes of copies of bodies for slow clients.
    pub copied_bytes: u64,
    /// The number of segments.
    pub segment_count: u64,
    /// The number of free segments.
    pub free_segment_count: u64,
    /// The size of a segment.
    pub segment_bytes: u64,
    /// The number of words of the index.
    pub index_word_count: u64,
    /// The number of fetches that requests can join.
    pub flight_count: u64,
    /// The number of responses that this process has stored.
    pub inserted: u64,
    /// The number of records that were evicted to make room.
    pub evicted: u64,
    /// The number of records that were evicted because their buckets of the index were full.
    pub pushed_out: u64,
    /// The number of records that a drain moved to another segment instead of evicting them.
    pub promoted: u64,
    /// The number of responses whose key had a ghost.
    pub ghost_hits: u64,
    /// The number of times that a segment was freed.
    pub segments_freed: u64,
    /// The number of fetches whose response was not storable, so that their key is declined for
    /// some time.
    pub declined: u64,
    /// The number of fills that were refused because the announced body is too long.
    pub refused_large: u64,
    /// The number of times that there was no room for a growing record, or for its next bytes.
    pub refused_no_room: u64,
    /// The number of complete responses that were not stored, for example because there was no room
    /// or because of a purge.
    pub not_stored: u64,
    /// The number of fills that became a sliding window.
    pub outgrown: u64,
    /// The number of readers that a window cut off.
    pub readers_cut: u64,
    /// The number of body handles whose bytes were copied out of a segment for a slow client.
    pub copied_out: u64,
    /// The number of body handles of slow clients that were revoked without a copy. Their
    /// connections were reset.
    pub bodies_revoked: u64,
    /// The number of segments that were checked after their owner's death.
    pub repaired: u64,
    /// The number of times that damaged records were found and removed.
    pub dropped_damaged: u64,
    /// The number of records that were not stored because the key index was full, locked or
    /// damaged.
    pub order_refused: u64,
    /// The part of `order_refused` that was caused by damage in the key index, which does not
    /// repair itself.
    pub order_damaged: u64,
    /// The number of entries without a record that sweeps removed from the key index.
    pub order_tidied: u64,
    /// The bytes that are set aside for the key index. They are a part of `metadata_bytes`.
    pub order_bytes: u64,
    /// The bytes of `order_bytes` that are in use.
    pub order_used_bytes: u64,
    /// The number of entries of keys in the key index.
    pub ordered_keys: u64,
    /// The number of entries of tags in the key index.
    pub ordered_tags: u64,
}

/// Sums over all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accounts {
    pub(crate) free_segment_count: u64,
    /// Bytes of free segments and unfilled ends of the others.
    pub(crate) free_bytes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) pinned_bytes: u64,
}

/// Adds up segments. Each is given by its state, its filled bytes and its live bytes. If more bytes
/// are live than filled, the parts exceed the segment, so that the sum shows the fault.
pub(crate) fn accounts(
    segment_bytes: u64,
    segments: impl Iterator<Item = (Option<SegmentState>, u64, u64)>,
) -> Accounts {
    let mut accounts = Accounts::default();
    for (state, filled, live) in segments {
        let filled = filled.min(segment_bytes);
        let live = live.min(segment_bytes);
        let phase = state.map(|state| state.phase);
        if phase == Some(SegmentPhase::Free) {
            accounts.free_segment_count += 1;
            accounts.free_bytes += segment_bytes;
            continue;
        }
        accounts.free_bytes += segment_bytes - filled;
        if phase == Some(SegmentPhase::Draining) && live == 0 {
            accounts.pinned_bytes += filled;
        } else {
            accounts.live_bytes += live;
            accounts.dead_bytes += filled.saturating_sub(live);
        }
    }
    accounts
}

impl Stats {
    /// The sum of all parts. It equals the budget, except for changes during the snapshot.
    pub fn sum_bytes(&self) -> u64 {
        let parts = [
            self.free_bytes,
            self.live_bytes,
            self.dead_bytes,
            self.metadata_bytes,
            self.growing_bytes,
            self.pinned_bytes,
            self.copied_bytes,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

impl Shared {
    /// The rest of the budget beside the region, the tables of flights and the two shares: less
    /// than 4 KiB. It is 0 if they exceed the budget, so that the sum of the parts shows this.
    fn left_over_bytes(&self) -> u64 {
        let config = &self.config;
        let shares = config.growing_bytes_max() + config.copied_out_bytes_max() + tables_bytes();
        config.budget_bytes.saturating_sub(self.plan.region_bytes + shares)
    }

    /// Counts a record's bytes as dead.
    pub(crate) fn count_dead(&self, location: u32, record_bytes: u64) {
        let segment = self.plan.geometry.segment_of(crate::segment::Location(location));
        if let Some(segment) = segment {
            self.segments.table().subtract_live_bytes(segment, record_bytes);
        }
    }

    /// Charges a copy to the share for copies. Returns false if the share has no room.
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
    /// Returns the division of the budget and the counters of events. This reads the state of each
    /// segment, but no record.
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
        shared.key_index.add_stats(&mut stats);
        self.add_segments(&mut stats);
        self.add_events(&mut stats);
        let config = &shared.config;
        // An exceeded share has nothing left, and its excess is not taken from other shares.
        stats.free_bytes += config.growing_bytes_max().saturating_sub(stats.growing_bytes)
            + config.copied_out_bytes_max().saturating_sub(stats.copied_bytes)
            + shared.left_over_bytes();
        stats
    }

    fn add_segments(&self, stats: &mut Stats) {
        let table = self.shared.segments.table();
        let all = 0..table.segment_count();
        let words = |s| (table.state(s), table.filled_bytes(s), table.live_bytes(s));
        let accounts = accounts(stats.segment_bytes, all.map(words));
        stats.free_segment_count = accounts.free_segment_count;
        stats.free_bytes = accounts.free_bytes;
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
            (&mut stats.bodies_revoked, &events.bodies_revoked),
            (&mut stats.repaired, &events.repaired),
            (&mut stats.dropped_damaged, &events.dropped_damaged),
            (&mut stats.order_refused, &events.order_refused),
            (&mut stats.order_damaged, &events.order_damaged),
            (&mut stats.order_tidied, &events.order_tidied),
        ];
        for (stat, counter) in counters {
            *stat = counter.load(Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{HeaderKind, SegmentQueue};
    use crate::store::put::Put;
    use crate::{RecordTimes, StoreConfig};

    fn state(phase: SegmentPhase) -> Option<SegmentState> {
        Some(SegmentState { generation: 1, phase, queue: SegmentQueue::Small, owner: None })
    }

    #[test]
    fn the_parts_of_a_segment_come_to_its_size_and_show_when_its_words_do_not_fit() {
        // Each case: phase, filled bytes, live bytes; expected free, live, dead and pinned bytes.
        let cases = [
            (SegmentPhase::Free, 0, 0, [100, 0, 0, 0]),
            (SegmentPhase::Open, 40, 30, [60, 30, 10, 0]),
            (SegmentPhase::Sealed, 100, 0, [0, 0, 100, 0]),
            (SegmentPhase::Draining, 90, 20, [10, 20, 70, 0]),
            (SegmentPhase::Draining, 90, 0, [10, 0, 0, 90]),
            (SegmentPhase::Suspect, 50, 50, [50, 50, 0, 0]),
            // With more live than filled bytes, the parts exceed the segment by 10, and nothing
            // overflows.
            (SegmentPhase::Sealed, 50, 60, [50, 60, 0, 0]),
            (SegmentPhase::Sealed, u64::MAX, u64::MAX, [0, 100, 0, 0]),
        ];
        for (phase, filled, live, expected) in cases {
            let sums = accounts(100, std::iter::once((state(phase), filled, live)));
            let parts = [sums.free_bytes, sums.live_bytes, sums.dead_bytes, sums.pinned_bytes];
            assert_eq!(parts, expected, "{phase:?}, {filled} filled, {live} live");
        }
    }

    #[test]
    fn a_share_that_is_exceeded_and_a_segment_with_too_much_show_in_the_sum() {
        let store = Store::open(StoreConfig::with_budget(2 << 20)).unwrap();
        let over = || store.stats().sum_bytes() - store.stats().budget_bytes;
        assert_eq!(over(), 0);
        let copies_max = store.shared.config.copied_out_bytes_max();
        for (copied, expected) in [(1, 0), (copies_max, 0), (copies_max + 7, 7)] {
            store.shared.events.copied_bytes.store(copied, Relaxed);
            assert_eq!(over(), expected, "{copied} copied");
        }
        store.shared.release_copy(7);
        let worker = store.join().unwrap();
        let times = RecordTimes { response_time: 0, stale_from: u64::MAX };
        let (key, body) = (b"key".as_slice(), [b"body".as_slice()]);
        let put = Put {
            kind: HeaderKind::Whole,
            key,
            tags: b"",
            head: b"",
            body: &body,
            times,
            purge_noted: 0,
            primary: key,
        };
        worker.inner.append(&put, 1, SegmentQueue::Small).unwrap();
        assert_eq!(over(), 0);
        let table = store.shared.segments.table();
        let open = table.segments_where(|state| state.phase == SegmentPhase::Open).next().unwrap();
        table.add_live_bytes(open, 64);
        assert_eq!(over(), 64);
    }
}
