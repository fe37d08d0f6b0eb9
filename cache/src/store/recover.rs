//! Cleaning up after dead participants: releasing their locks, pins and rows, and checking the
//! segments to which they were appending.

#![allow(unsafe_code)]

use std::io;

use forebay_shm::Dead;
use forebay_sync::atomic::Relaxed;

use super::layout::ROW_WORDS;
use super::record_index::RecordIndex;
use super::stats::Events;
use super::store::Store;
use super::worker::WorkerInner;
use crate::index::{Records, WordState};
use crate::segment::ScannedRecord;

impl Store {
    /// Releases everything that dead participants held, and returns the number of these
    /// participants. The next call of [`mend`](crate::StoreWorker::mend) checks their open
    /// segments.
    ///
    /// # Errors
    /// The system does not tell which participants are alive. Participants that were found dead
    /// before the error are cleaned up.
    pub fn sweep(&self) -> io::Result<u32> {
        self.shared.region.sweep(|dead| self.take_back(dead))
    }

    fn take_back(&self, dead: &Dead) {
        let shared = &self.shared;
        let row = dead.id().row;
        for segment in shared.segments.table().segments_where(|state| state.owner == Some(row)) {
            // SAFETY: `Dead` is the proof that the participant has ended, as this sweep has seen.
            // No other participant gets the row before the sweep is over. The call fails only if an
            // earlier sweeper has done the same and died.
            let _ = unsafe { shared.segments.suspect(segment, row) };
        }
        shared.eviction_lock.abandon(dead);
        shared.purge_lock.abandon(dead);
        shared.key_index.take_back(dead);
        shared.pending_inserts.clear(row);
        for word in 0..ROW_WORDS {
            shared.row_word(row, word).store(0, Relaxed);
        }
        // SAFETY: as above.
        unsafe { shared.pins.clear_row(row as usize) };
        // The dead participant may have inserted keys of a record that it did not publish.
        shared.leftovers.note();
    }
}

impl WorkerInner {
    /// Checks the segments that dead participants had open. Returns the number of checked segments.
    pub(crate) fn mend(&self) -> u32 {
        let table = self.shared.segments.table();
        let suspects = table.segments_where(|state| state.is_suspect() && state.owner.is_none());
        let mut count = 0;
        for segment in suspects {
            // SAFETY: the row is this participant's, and the segment is sealed before it leaves.
            let Ok(open) = (unsafe { self.shared.segments.adopt(segment, self.part.row()) }) else {
                continue;
            };
            self.records.check_segment(segment);
            self.clean_up_orphans();
            // Sealing fails only if another process has damaged the state, as in `Appender::seal`.
            // SAFETY: each record of the segment has a live word now, or no word.
            let _ = unsafe { open.seal(self.shared.next_order()) };
            Events::one(&self.shared.events.repaired);
            count += 1;
        }
        count
    }
}

impl RecordIndex {
    /// Removes the index words of records that are damaged, not live, or not the newest of their
    /// key. Sets the segment's live bytes to those of the other records.
    fn check_segment(&self, segment: u32) {
        let mut live_bytes = 0;
        let mut is_damaged = false;
        for found in self.shared.segments.scan(segment) {
            match found {
                Ok(scanned) if self.check_record(&scanned) => {
                    live_bytes += scanned.header.record_bytes();
                }
                Ok(_) => {}
                Err(_) => is_damaged = true,
            }
        }
        // If a key or a length is damaged, words may name records that the scan did not find.
        let table = self.shared.segments.table();
        if is_damaged || table.live_bytes(segment) != live_bytes {
            live_bytes = self.check_by_index(segment);
        }
        table.set_live_bytes(segment, live_bytes);
    }

    /// Whether the record is live, whole, and the newest of its key. If not, its word is removed.
    fn check_record(&self, scanned: &ScannedRecord) -> bool {
        let mut key = Vec::new();
        self.shared.segments.copy_key(scanned, &mut key);
        let wanted = self.key(&key);
        let hash = self.shared.hash(&key);
        let Some(hit) = self.index.find_location(&self.pins, hash, scanned.location.0) else {
            return false;
        };
        if !self.shared.segments.has_valid_checksum(scanned) {
            self.drop_damaged(&hit);
            return false;
        }
        if hit.word().state() != WordState::Live {
            // The publisher of the record cannot make it live any more.
            self.remove_hit(&hit);
            return false;
        }
        self.index.resolve_duplicates(&self.pins, &wanted, &hit)
    }

    /// Checks a segment by searching the index, after a scan that met damage or missed records.
    /// Removes the words of records that are damaged or not live. Returns the live bytes of the
    /// other records.
    fn check_by_index(&self, segment: u32) -> u64 {
        let mut live_bytes = 0;
        self.index.remove_where(&self.pins, 0..self.index.bucket_count(), |hit| {
            if self.access().segment_of(hit.at().location()) != segment as usize {
                return false;
            }
            let record = self.access().record(hit.at());
            let whole = record.filter(|record| record.has_valid_checksum());
            if whole.is_none() {
                self.note_damaged(record.as_ref());
            }
            let record = whole;
            let stays = hit.word().state() == WordState::Live && record.is_some();
            live_bytes += record.filter(|_| stays).map_or(0, |r| r.header.record_bytes());
            !stays
        });
        live_bytes
    }
}
