//! Models of items that move between workers through the depot. Each item has one owner at a time,
//! and the worker that takes an item sees the writes of the worker that gave it.

use std::sync::Arc;

use loom::thread;

use super::{Depot, Magazines, SharedMagazines};
use forebay_sync::atomic::UnsafeCell;
use forebay_sync::model::holds;

/// A buffer. A model fails if two accesses to a buffer are not ordered.
struct Buffer(Box<UnsafeCell<u64>>);
// SAFETY: the models check that accesses from different threads are ordered.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new() -> Buffer {
        Buffer(Box::new(UnsafeCell::new(0)))
    }

    fn add(&self, number: u64) {
        // SAFETY: a buffer has one owner at a time.
        self.0.with_mut(|sum| unsafe { *sum += number });
    }

    fn sum(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|sum| unsafe { *sum })
    }
}

fn depot() -> Arc<Depot<Buffer>> {
    Arc::new(Depot::new(1, 1))
}

fn give_written(magazines: &mut Magazines<Buffer>, count: usize) {
    for _ in 0..count {
        let buffer = Buffer::new();
        buffer.add(1);
        magazines.give(buffer);
    }
}

#[test]
fn a_taker_sees_the_bytes_of_the_giver() {
    holds("magazines: from producer to consumer", || {
        let depot = depot();
        let (given, taken) = (Arc::clone(&depot), Arc::clone(&depot));
        let producer = thread::spawn(move || {
            let mut magazines = Magazines::new(given);
            // The third item exchanges a magazine. The fourth may find the depot full.
            give_written(&mut magazines, 4);
            magazines.counts()
        });
        let consumer = thread::spawn(move || {
            let mut magazines = Magazines::new(taken);
            let buffers: Vec<Buffer> = (0..2).filter_map(|_| magazines.take()).collect();
            for buffer in &buffers {
                assert_eq!(buffer.sum(), 1, "the write of the giver is missing");
                buffer.add(1);
            }
            buffers.len()
        });
        let (counts, taken) = (producer.join().unwrap(), consumer.join().unwrap());
        assert_eq!(counts.exchanges + counts.dropped, 2);
        assert!(taken <= 2, "{taken}");
    });
}

#[test]
fn a_magazine_goes_to_one() {
    holds("magazines: two take the same", || {
        let depot = depot();
        give_written(&mut Magazines::new(Arc::clone(&depot)), 1);
        let workers = [Arc::clone(&depot), depot].map(|depot| {
            thread::spawn(move || {
                let mut magazines = Magazines::new(depot);
                let buffer = magazines.take();
                if let Some(buffer) = &buffer {
                    buffer.add(1);
                }
                buffer.is_some()
            })
        });
        let got = workers.map(|worker| worker.join().unwrap());
        assert_eq!(
            got.iter().filter(|got| **got).count(),
            1,
            "one of the two workers gets the buffer"
        );
    });
}

#[test]
fn a_worker_leaves_its_items_behind() {
    holds("magazines: a worker goes", || {
        let depot = depot();
        let (leaving, staying) = (Arc::clone(&depot), Arc::clone(&depot));
        let goes = thread::spawn(move || give_written(&mut Magazines::new(leaving), 2));
        let stays = thread::spawn(move || {
            let mut magazines = Magazines::new(staying);
            magazines.take().map_or(1, |buffer| buffer.sum())
        });
        goes.join().unwrap();
        assert_eq!(stays.join().unwrap(), 1);
        assert_eq!(depot.gone_counts().gives, 2);
        assert_eq!(depot.gone_counts().dropped, 1);
    });
}

#[test]
fn threads_share_pairs() {
    for pairs in [1, 2] {
        let model = format!("magazines: two threads, shared pairs: {pairs}");
        holds(&model, move || {
            let shared = Arc::new(SharedMagazines::new(&depot(), pairs));
            // Both workers begin with the same pair. If there is a second pair, a worker that finds
            // the first one locked uses the second.
            let workers = [0, 0].map(|near| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    for _ in 0..2 {
                        let buffer = shared.take_or_make(near, Buffer::new);
                        buffer.add(1);
                        shared.give(near, buffer);
                    }
                })
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            let mut sum = 0;
            while let Some(buffer) = shared.take(0).or_else(|| shared.take(1)) {
                sum += buffer.sum();
            }
            assert_eq!(sum, 4, "a buffer was lost");
            let counts = shared.counts();
            assert_eq!((counts.gives, counts.dropped), (4, 0));
        });
    }
}
