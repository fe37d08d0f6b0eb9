//! The maps that are compared, behind one trait.

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

/// The work of an engine, for each key of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// The value of a key, copied.
    Get,
    /// The value of a key, read in place while it is held.
    Hold,
    /// A hundred entries from a key on.
    Range,
    /// The same, each copied instead of held.
    Scan,
    /// The same, each found by the key of the one before.
    RangeByKey,
    /// A value stored under a key that may exist.
    Insert,
    /// A key removed.
    Remove,
    /// Many keys stored in one transaction.
    InsertBatched,
    /// Many keys removed in one transaction.
    RemoveBatched,
}

/// Entries of a range.
pub(crate) const RANGE: usize = 100;
/// Changes of one transaction, where they are batched.
pub(crate) const BATCH: usize = 1000;

/// An ordered map.
pub(crate) trait Engine {
    fn name(&self) -> &'static str;
    /// Does the work for each key; returns a checksum of the values read, or how many keys existed.
    /// `None`: the engine has no such form.
    fn run(&mut self, work: Work, data: &Data, asked: &[Asked]) -> Option<u64>;
    /// Bytes that are in use.
    fn used_bytes(&self) -> u64;
    /// Bytes that it has allocated and does not give back.
    fn taken_bytes(&self) -> u64 {
        self.used_bytes()
    }
    /// Opens it as another process does, if that is possible.
    fn shared(&self) -> Option<Shared> {
        None
    }
}

/// An engine that processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shared {
    Ours,
    OursByHash,
    Lmdb,
}

type Make = fn(&Data, &Path) -> Box<dyn Engine>;

/// Creates all engines and fills them in random order; prints their memory.
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

/// Bytes allocated on the heap.
fn heap_bytes() -> u64 {
    // SAFETY: it reads numbers of the allocator.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}
