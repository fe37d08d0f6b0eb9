//! Operations of the ordered map: a lookup, an entry that is held, and a step of a range.

use std::cell::{Cell, OnceCell, RefCell};
use std::hint::black_box;

use forebay_ordmap::{Map, MapOptions, MapParticipant, OrdConfig, OrdRegion, Range, Scan};

use crate::workloads::Operation;

const KEY_COUNT: usize = 10_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// The distance from one used key to the next, without a common factor with the number of keys.
const STRIDE: usize = 7919;

thread_local! {
    static MAP: OnceCell<Map<'static>> = const { OnceCell::new() };
    static RANGE: RefCell<Option<Range<'static>>> = const { RefCell::new(None) };
    static SCAN: RefCell<Option<Scan<'static>>> = const { RefCell::new(None) };
    static READ: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static TURN: Cell<usize> = const { Cell::new(0) };
}

/// A map that is full of keys.
struct Ordered {
    region: OrdRegion,
    keys: Vec<Vec<u8>>,
    /// Whether thread 0 stores values while the other threads run the operation.
    has_writer: bool,
}

impl Ordered {
    fn new(has_writer: bool) -> Ordered {
        let region = OrdRegion::anonymous(&OrdConfig::with_bytes(32 << 20))
            .expect("the store or map has room");
        let key = |i| format!("main\0http\0org.example.www\0/obj/{i:05}").into_bytes();
        let keys: Vec<Vec<u8>> = (0..KEY_COUNT).map(key).collect();
        let participant = region.join().expect("the first");
        let map = participant.map("keys", &MapOptions::default()).expect("the first");
        keys.iter().for_each(|key| _ = map.insert(key, &VALUE).expect("the store or map has room"));
        drop(participant);
        Ordered { region, keys, has_writer }
    }

    /// Returns the thread's next key. Each thread begins at another key.
    fn next(&self, thread: usize) -> &[u8] {
        let turn = TURN.with(|turn| {
            turn.set(turn.get() + 1);
            turn.get()
        });
        &self.keys[(turn + thread).wrapping_mul(STRIDE) % KEY_COUNT]
    }

    /// Runs `read` with this thread's map. The participant is never removed, since there are few
    /// threads.
    fn with_map(&self, thread: usize, read: impl FnOnce(&Map<'static>)) {
        MAP.with(|map| {
            let map = map.get_or_init(|| {
                let participant = self.region.join().expect("a participant for each thread");
                let participant: &'static MapParticipant = Box::leak(Box::new(participant));
                participant.map("keys", &MapOptions::default()).expect("the map exists")
            });
            if self.has_writer && thread == 0 {
                map.insert(self.next(thread), &VALUE).expect("the map has room");
            } else {
                read(map);
            }
        });
    }
}

/// Lookups that copy the value.
pub(crate) fn gets(has_writer: bool) -> Operation {
    let ordered = Ordered::new(has_writer);
    Box::new(move |thread| {
        ordered.with_map(thread, |map| {
            READ.with_borrow_mut(|read| {
                read.clear();
                let is_there = map.read_into(ordered.next(thread), read);
                assert_eq!((is_there, read.len()), (Ok(true), VALUE.len()));
            });
        });
    })
}

/// Lookups that read the value in place, under a lease.
pub(crate) fn holds(has_writer: bool) -> Operation {
    let ordered = Ordered::new(has_writer);
    Box::new(move |thread| {
        ordered.with_map(thread, |map| {
            let entry = map.entry(ordered.next(thread)).expect("a lease is free");
            black_box(entry.expect("all keys are there").value());
        });
    })
}

/// Steps of a range that restarts at its end.
pub(crate) fn ranges(has_writer: bool) -> Operation {
    let ordered = Ordered::new(has_writer);
    Box::new(move |thread| {
        ordered.with_map(thread, |map| {
            RANGE.with_borrow_mut(|range| {
                let begun = range.get_or_insert_with(|| map.range(ordered.next(thread)..));
                let is_over = begun.next().expect("leases are free").is_none();
                if is_over {
                    *range = None;
                }
            });
        });
    })
}

/// Steps of a scan that restarts at its end.
pub(crate) fn scans(has_writer: bool) -> Operation {
    let ordered = Ordered::new(has_writer);
    Box::new(move |thread| {
        ordered.with_map(thread, |map| {
            SCAN.with_borrow_mut(|scan| {
                let begun = scan.get_or_insert_with(|| map.scan(ordered.next(thread)..));
                let is_over = begun.next().expect("the map is sound").is_none();
                if is_over {
                    *scan = None;
                }
            });
        });
    })
}
