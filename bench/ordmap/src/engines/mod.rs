//! The compared maps, behind one trait.

mod btree;
mod calls;
mod lmdb;
mod ours;
mod skiplist;

use std::path::Path;

use crate::data::{Asked, Data, KEY_BYTES};
use crate::report::{Figure, Sample};

pub(crate) use lmdb::Lmdb;
pub(crate) use ours::{Form, Ours};

/// The work of an engine for each key of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Looks up a key and copies the value.
    Get,
    /// Looks up a key and reads the value in place while it is held.
    Hold,
    /// Reads a hundred entries from a key on.
    Range,
    /// Reads a hundred entries like `Range`, but copies each entry instead of holding it.
    Scan,
    /// Reads a hundred entries like `Range`, but each entry is looked up by the key of the entry
    /// before it.
    RangeByKey,
    /// Stores a value under a key that may exist.
    Insert,
    /// Removes a key.
    Remove,
    /// Stores many keys in one transaction.
    InsertBatched,
    /// Removes many keys in one transaction.
    RemoveBatched,
}

/// The number of entries in a range.
pub(crate) const RANGE: usize = 100;
/// The number of changes in one transaction of batched work.
pub(crate) const BATCH: usize = 1000;

/// An ordered map.
pub(crate) trait Engine {
    fn name(&self) -> &'static str;
    /// Does the work for each key. Returns a checksum of the values that were read, or the number
    /// of keys that existed. Returns `None` if the engine does not support the work.
    fn run(&mut self, work: Work, data: &Data, asked: &[Asked]) -> Option<u64>;
    /// The bytes that entries and their structure use.
    fn used_bytes(&self) -> u64;
    /// The bytes that the engine has allocated and does not give back.
    fn taken_bytes(&self) -> u64 {
        self.used_bytes()
    }
    /// The way in which another process opens the map; `None` if only this process can use the map.
    fn shared(&self) -> Option<Shared> {
        None
    }
}

/// A map that other processes can open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shared {
    Ours,
    OursByHash,
    Lmdb,
}

type Make = fn(&Data, &Path) -> Box<dyn Engine>;

/// Creates all engines and fills them in random order. Records their memory.
pub(crate) fn filled(data: &Data, dir: &Path, samples: &mut Vec<Sample>) -> Vec<Box<dyn Engine>> {
    let order = data.pick(data.keys.len(), 0);
    let make: [Make; 5] = [
        |data, dir| Box::new(Ours::create(Form::Tree, dir, data)),
        |data, dir| Box::new(Ours::create(Form::Hash, dir, data)),
        |_, dir| Box::new(Lmdb::open(dir)),
        |_, _| Box::new(btree::Locked::new()),
        |_, _| Box::new(skiplist::Skiplist::new()),
    ];
    let fill = |make: &Make| {
        let mut engine = make(data, dir);
        eprintln!("filling {}", engine.name());
        let batched = engine.run(Work::InsertBatched, data, &order);
        if batched.is_none() {
            engine.run(Work::Insert, data, &order);
        }
        let each = |bytes: u64| bytes as f64 / data.keys.len() as f64;
        let used = each(engine.used_bytes());
        let figures = [
            (Figure::UsedBytes, used),
            (Figure::BesideBytes, used - (KEY_BYTES + data.value_bytes) as f64),
            (Figure::TakenBytes, each(engine.taken_bytes())),
        ];
        let sample = |(figure, bytes)| Sample::new(figure, engine.name(), data, bytes);
        samples.extend(figures.map(sample));
        engine
    };
    make.iter().map(fill).collect()
}

/// The bytes that are allocated on the heap.
fn heap_bytes() -> u64 {
    // SAFETY: the call only reads numbers of the allocator.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}
