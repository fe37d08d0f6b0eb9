//! What all tests of the store share: configurations, recognisable contents, a tiny executor.

mod budget;
mod collapse;
mod model;
mod stress;
mod table;
mod validate;
mod window;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::Bytes;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::{
    Base, Filling, Follower, Join, Leader, Lookup, Outcome, ReadEvent, Reader, Record, Store,
    StoreConfig,
};

/// A small store whose limits are within reach of a test.
fn config(budget_bytes: u64) -> StoreConfig {
    StoreConfig {
        contiguous_bytes_max: 4096,
        window_bytes: 8192,
        window_wait_ms_max: 1000,
        variants_max: 4,
        declined_ms: 100,
        shard_count: 4,
        ..StoreConfig::with_budget(budget_bytes)
    }
}

fn store(config: StoreConfig) -> Arc<Store> {
    seeded_store(config, 1)
}

fn seeded_store(config: StoreConfig, seed: u64) -> Arc<Store> {
    let hash_state = SeedableRandomState::with_seed(seed, SharedSeed::global_fixed());
    Arc::new(Store::with_hash_state(config, hash_state).unwrap())
}

/// Fails if the store contradicts itself.
fn check(store: &Store) {
    let faults = store.check();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Fails if the store contradicts itself or something outside still holds its memory.
fn check_at_rest(store: &Store) {
    check(store);
    let stats = store.stats();
    assert_eq!((stats.lent_bytes, stats.growing_bytes, stats.flight_count), (0, 0, 0), "{stats:?}");
}

/// A body that tells its version: no two versions share eight bytes in a row.
fn content(version: u64, bytes: usize) -> Vec<u8> {
    let mut content = version.to_le_bytes().repeat(bytes / 8 + 1);
    content.truncate(bytes);
    content
}

fn lead(store: &Arc<Store>, primary: &[u8], variant: Option<&[u8]>) -> (Leader, Follower) {
    match store.join(primary, variant, None, 0) {
        Join::Leader(leader, follower) => (leader, follower),
        other => panic!("{primary:?} {variant:?}: {other:?}"),
    }
}

fn follow(store: &Arc<Store>, primary: &[u8]) -> Follower {
    match store.join(primary, None, None, 0) {
        Join::Follower(follower) => follower,
        other => panic!("{primary:?}: {other:?}"),
    }
}

fn begin(leader: Leader, head: &[u8], base: Option<Base>) -> Filling {
    leader.begin(head, base, None).unwrap_or_else(|(_, refused)| panic!("{head:?}: {refused:?}"))
}

/// Stores one record in one append; false if the store would not have it.
fn fill(store: &Arc<Store>, primary: &[u8], base: Option<Base>, body: &[u8]) -> bool {
    let variant = base.as_ref().map(|base| base.variant.clone());
    let (leader, _follower) = lead(store, primary, variant.as_deref());
    let mut filling = begin(leader, primary, base);
    filling.append(body).is_ok() && filling.finish()
}

fn base(names: &str, variant: &str) -> Option<Base> {
    Some(Base { names: names.into(), variant: variant.into() })
}

fn found(store: &Store, primary: &[u8]) -> Option<Arc<Record>> {
    match store.lookup(primary) {
        Lookup::Record(record) => Some(record),
        Lookup::Miss => None,
        Lookup::Base(names) => panic!("{primary:?} has variants by {names:?}"),
    }
}

fn body_of(record: &Record) -> Vec<u8> {
    record.body().fragments(0..u64::MAX).collect::<Vec<_>>().concat()
}

/// Polls an outcome that must be there.
fn outcome(follower: &mut Follower) -> Outcome {
    match follower.poll_outcome(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("no outcome"),
    }
}

fn reader(mut follower: Follower) -> Reader {
    match outcome(&mut follower) {
        Outcome::Growing(reader) => reader,
        other => panic!("{other:?}"),
    }
}

/// Reads all that there is now, and how it ends.
fn read(reader: &mut Reader, cx: &mut Context<'_>) -> (Vec<u8>, Poll<ReadEvent>) {
    let mut fragments: Vec<Bytes> = Vec::new();
    loop {
        match reader.poll_fragments(cx, 1 << 20, &mut fragments) {
            Poll::Ready(ReadEvent::Data) => {}
            end => return (fragments.concat(), end),
        }
    }
}

fn read_now(reader: &mut Reader) -> (Vec<u8>, Poll<ReadEvent>) {
    read(reader, &mut Context::from_waker(Waker::noop()))
}

/// Counts how often it is woken.
#[derive(Default)]
struct Alarm(AtomicUsize);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
    }
}

/// Waits for the outcome; reads a growing record to its end. None: aborted.
async fn read_all(mut reader: Reader) -> Option<Vec<u8>> {
    let mut fragments = Vec::new();
    loop {
        match poll_fn(|cx| reader.poll_fragments(cx, 700, &mut fragments)).await {
            ReadEvent::Data => {}
            ReadEvent::Done => return Some(fragments.concat()),
            ReadEvent::Aborted => return None,
        }
    }
}

/// A small random generator (splitmix64), so that a run can be repeated from its seed.
struct Rng(u64);

impl Rng {
    /// From `FOREBAY_SEED`, else from the hasher's random keys; prints it.
    fn from_environment(test: &str) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        println!("{test}: FOREBAY_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A size: mostly small, sometimes up to `max`.
    fn size(&mut self, max: u64) -> u64 {
        let magnitude = self.below(u64::from(max.ilog2()) + 1);
        self.below((1 << magnitude) + 1).min(max)
    }
}
