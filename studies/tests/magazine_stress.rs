//! Stress tests of magazines with real threads. The buffers are not atomic, so ThreadSanitizer
//! reports a buffer that two threads own at the same time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay_studies::magazine::{Depot, Magazines, SharedMagazines};
use forebay_sync::{LockClass, Mutex};

use forebay_testkit::Rng;

const BUFFER_WORDS: usize = 32;

/// The largest number of times that one side yields while it waits for the other.
const YIELDS_MAX: u64 = 50_000_000;

/// Checks that the last owner left the buffer whole, and overwrites all of it.
fn use_buffer(buffer: &mut [u64], mark: u64) {
    assert!(buffer.iter().all(|word| *word == buffer[0]), "a torn buffer: {buffer:?}");
    buffer.fill(mark);
}

fn new_buffer() -> Box<[u64]> {
    vec![0; BUFFER_WORDS].into()
}

/// Buffers in transit from one worker to another. (ThreadSanitizer cannot follow std's channels.)
struct Way {
    buffers: Mutex<VecDeque<Box<[u64]>>>,
    /// Whether one of the two workers has ended, so that the other must not wait for it.
    is_closed: AtomicBool,
}

/// One worker's side of a `Way`. Dropping the side, even in a panic, closes the way.
struct Side<'a>(&'a Way);

impl Drop for Side<'_> {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
    }
}

impl Side<'_> {
    fn send(&self, buffer: Box<[u64]>) {
        let has_room = |_| {
            self.0.buffers.lock().len() < 64 || self.0.is_closed.load(Ordering::Relaxed) || {
                thread::yield_now();
                false
            }
        };
        assert!(
            (0..YIELDS_MAX).any(has_room),
            "the receiver took no buffer within {YIELDS_MAX} yields"
        );
        self.0.buffers.lock().push_back(buffer);
    }

    fn receive(&self) -> Option<Box<[u64]>> {
        for _ in 0..YIELDS_MAX {
            let is_closed = self.0.is_closed.load(Ordering::Acquire);
            let buffer = self.0.buffers.lock().pop_front();
            if buffer.is_some() || is_closed {
                return buffer;
            }
            thread::yield_now();
        }
        panic!("the sender sent no buffer within {YIELDS_MAX} yields");
    }
}

/// Takes and gives items of pairs that other threads use too.
fn share(shared: &SharedMagazines<Box<[u64]>>, near: usize, rng: &mut Rng) {
    for round in 0..2_000 {
        let count = rng.below(20);
        let buffers: Vec<_> = (0..count).map(|_| shared.take_or_make(near, new_buffer)).collect();
        for mut buffer in buffers {
            use_buffer(&mut buffer, round);
            shared.give(near, buffer);
        }
    }
}

#[test]
fn buffers_go_from_worker_to_worker_through_the_depot() {
    let mut rng = Rng::of("magazines");
    let depot = Arc::new(Depot::new(8, 4));
    let buffers = Mutex::new(LockClass::Test, VecDeque::new());
    let way = Way { buffers, is_closed: AtomicBool::new(false) };
    let shared = SharedMagazines::new(&depot, 2);
    let rounds = 20_000;
    thread::scope(|scope| {
        let (depot, way, shared) = (&depot, &way, &shared);
        let giver = scope.spawn(move || {
            let (side, mut own) = (Side(way), Magazines::new(Arc::clone(depot)));
            for round in 0..rounds {
                let mut buffer = own.take_or_make(new_buffer);
                use_buffer(&mut buffer, round);
                side.send(buffer);
            }
        });
        let taker = scope.spawn(move || {
            let (side, mut own) = (Side(way), Magazines::new(Arc::clone(depot)));
            while let Some(mut buffer) = side.receive() {
                use_buffer(&mut buffer, 0);
                own.give(buffer);
            }
        });
        let sharers = (0..4).map(|near| {
            let mut rng = rng.fork();
            scope.spawn(move || share(shared, near, &mut rng))
        });
        // ThreadSanitizer sees the end of a thread in its join.
        for worker in sharers.chain([giver, taker]).collect::<Vec<_>>() {
            worker.join().expect("the worker panicked");
        }
    });
    drop(shared);
    let sum = depot.gone_counts();
    println!("{sum:?}");
    assert_eq!(sum.takes, sum.gives, "every buffer is given back");
    assert!(sum.made - sum.dropped <= 4 * 8, "the remaining buffers are in the depot");
    assert!(
        sum.exchanges * 8 <= sum.takes + sum.gives,
        "an exchange moves a whole magazine: {sum:?}"
    );
}
