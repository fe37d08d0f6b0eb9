//! Tests of segments. All but the stress test use a single thread; the loom models cover several
//! threads.

mod append;
mod format;
mod header;
mod scan;
mod size;
mod stress;
mod table;
mod unpinned;

use std::sync::Arc;

use forebay_sync::Words;
use forebay_sync::atomic::AtomicU64;
use forebay_sync::boxed_words;

use super::data::TooFewWords;
use super::header::{HEADER_BYTES, HeaderError};
use super::marks::AlreadyFrozen;
use super::size::SizeError;
use super::table::StateChanged;
use super::*;

type Shared = Arc<Box<[AtomicU64]>>;

/// Segments of 64 KiB, and the words in which they lie.
struct Made {
    segments: Segments<Shared>,
    table: Shared,
    data: Shared,
}

const SEGMENT_BYTES: u32 = 64 * 1024;
const ROWS: u32 = 4;

fn made(segment_count: u32) -> Made {
    let geometry = Geometry::of(u64::from(SEGMENT_BYTES), u64::from(segment_count)).unwrap();
    let table = Arc::new(boxed_words(SegmentTable::<Shared>::words_needed(geometry)));
    let data = Arc::new(boxed_words((geometry.data_bytes() / 8) as usize));
    // SAFETY: the words are new, and tests that write into them read no bytes at that time.
    let segments = unsafe { Segments::new(table.clone(), data.clone(), geometry, ROWS) }.unwrap();
    Made { segments, table, data }
}

impl Made {
    fn claim(&self, row: u32) -> Option<OpenSegment<Shared>> {
        // SAFETY: no row ends, and tests are one thread.
        unsafe { self.segments.claim(row, SegmentQueue::Small, None) }
    }

    /// The record at a location of a segment that is not freed during the borrow.
    fn record(&self, location: Location) -> Result<Record<'_>, RecordDamage> {
        // SAFETY: tests are one thread, which frees nothing that it reads.
        unsafe { self.segments.record(location) }
    }

    /// The marks of the record at a location of a segment that is not freed during the borrow.
    fn marks(&self, location: Location) -> MarksWord<'_> {
        // SAFETY: as above.
        unsafe { self.segments.marks(location) }.unwrap()
    }

    fn scan(&self, segment: u32) -> Vec<Result<ScannedRecord, RecordDamage>> {
        self.segments.scan(segment).collect()
    }

    fn flip(&self, bit: u64) {
        let word = self.data.word((bit / 64) as usize);
        word.fetch_xor(1 << (bit % 64), forebay_sync::atomic::Relaxed);
    }
}

fn seal(open: OpenSegment<Shared>, order: u64) {
    // SAFETY: no word names a record.
    unsafe { open.seal(order) }.unwrap();
}

/// The content of a test record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parts {
    key: Vec<u8>,
    tags: Vec<u8>,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Parts {
    fn of(record: &Record<'_>) -> Parts {
        Parts {
            key: record.key().to_vec(),
            tags: record.tags().to_vec(),
            head: record.head().to_vec(),
            body: record.body().to_vec(),
        }
    }

    /// Recognisable bytes of these lengths.
    fn sized(key: usize, tags: usize, head: usize, body: usize) -> Parts {
        let filled = |count: usize, start: u8| -> Vec<u8> {
            (0..count).map(|index| start.wrapping_add(index as u8)).collect()
        };
        Parts {
            key: filled(key, 1),
            tags: filled(tags, 50),
            head: filled(head, 100),
            body: filled(body, 150),
        }
    }

    fn new_record<'a>(&'a self, sequence: u64, body: &'a [&'a [u8]]) -> NewRecord<'a> {
        NewRecord {
            kind: HeaderKind::Whole,
            sequence,
            purge_noted: 7,
            response_time: 1_700_000_000,
            marks: RecordMarks::stale_from(1_700_000_600),
            key: &self.key,
            tags: &self.tags,
            head: &self.head,
            body,
        }
    }

    fn append(
        &self,
        open: &mut OpenSegment<Shared>,
        sequence: u64,
    ) -> Result<Location, AppendError> {
        open.append(&self.new_record(sequence, &[&self.body]))
    }
}

/// A small random generator (splitmix64).
struct Rng(u64);

impl Rng {
    /// Seeds from `FOREBAY_SEED`, else from the hasher's random keys; prints the seed.
    fn of(test: &str) -> Rng {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        println!("{test}: FOREBAY_SEED={seed}");
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a size up to `most`; small sizes are more likely.
    fn size(&mut self, most: u64) -> usize {
        let bits = self.below(u64::from(most.ilog2()) + 2);
        self.below((1 << bits).min(most) + 1) as usize
    }

    fn parts(&mut self) -> Parts {
        let (key, tags) = (1 + self.size(300), self.size(100));
        Parts::sized(key, tags, self.size(600), self.size(20_000))
    }
}
