//! Helpers that all tests of flights share: limits, recognisable contents, gates, a tiny executor.

mod budget;
mod collapse;
mod gate;
mod model;

mod pieces;
mod shelf;
mod stress;
mod validate;
mod watch;
mod window;

use std::future::poll_fn;
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::Bytes;
use foldhash::quality::FixedState;

use super::*;

/// Limits that are low enough for a test to reach them.
fn config() -> FlightConfig {
    FlightConfig {
        growing_bytes_max: 256 * 1024,
        promise_bytes_max: 128 * 1024,
        object_bytes_max: 128 * 1024,
        window_bytes: 8192,
        window_wait_ms_max: 1000,
        shard_count: 4,
    }
}

/// The time for which these tests decline a key.
const DECLINED_MS: u64 = 100;

fn terms_at(now_ms: u64) -> JoinTerms {
    JoinTerms { declined_ms: DECLINED_MS, ..JoinTerms::at(now_ms) }
}

fn new_flights(config: FlightConfig) -> Arc<Flights> {
    Arc::new(Flights::new(config))
}

fn hash(primary: &[u8]) -> u64 {
    FixedState::default().hash_one(primary)
}

fn key<'a>(primary: &'a [u8], variant: Option<&'a [u8]>) -> FlightKey<'a> {
    FlightKey { hash: hash(primary), primary, variant, is_part: false }
}

/// Asserts that the tables and counters of the flights agree.
fn check(flights: &Flights) {
    let faults = flights.check();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Asserts that the tables and counters of the flights agree, and that no bytes and no flights are
/// left.
fn check_at_rest(flights: &Flights) {
    check(flights);
    let stats = flights.stats();
    assert_eq!((stats.growing_bytes, stats.flight_count), (0, 0), "{stats:?}");
}

/// The gate of a store in which nothing is ever stored and nothing is purged.
struct Nothing;

impl Gate for Nothing {
    fn note(&self) -> u64 {
        0
    }

    fn is_current(&self) -> bool {
        true
    }

    fn may_follow(&self, _: u64) -> bool {
        true
    }
}

/// A body that depends only on its version. No two versions share eight bytes in a row.
fn content(version: u64, bytes: usize) -> Vec<u8> {
    let mut content = version.to_le_bytes().repeat(bytes / 8 + 1);
    content.truncate(bytes);
    content
}

fn join(flights: &Arc<Flights>, primary: &[u8], now_ms: u64) -> JoinResult {
    flights.join(key(primary, None), terms_at(now_ms), &Nothing)
}

fn take_lead(
    flights: &Arc<Flights>,
    primary: &[u8],
    variant: Option<&[u8]>,
) -> (LeaderGuard, Follower) {
    match flights.join(key(primary, variant), terms_at(0), &Nothing) {
        JoinResult::Lead(lead, follower) => (lead, follower),
        other => panic!("{primary:?} {variant:?}: {other:?}"),
    }
}

fn follow(flights: &Arc<Flights>, primary: &[u8]) -> Follower {
    match join(flights, primary, 0) {
        JoinResult::Follow(follower) => follower,
        other => panic!("{primary:?}: {other:?}"),
    }
}

fn begin(lead: LeaderGuard, head: &[u8], base: Option<VariantKey>) -> BodyWriter {
    lead.begin(head, base, None).unwrap_or_else(|(_, refused)| panic!("{head:?}: {refused:?}"))
}

fn base(names: &str, variant: &str) -> Option<VariantKey> {
    Some(VariantKey { names: names.into(), variant: variant.into() })
}

/// The bytes that a growing record holds.
fn body_of(writer: &BodyWriter) -> Vec<u8> {
    writer.pieces(0..u64::MAX).concat()
}

/// Polls for an outcome, which must be available.
fn outcome(follower: &mut Follower) -> FollowOutcome {
    match follower.poll_outcome(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the follower has no outcome yet"),
    }
}

fn reader(mut follower: Follower) -> BodyReader {
    match outcome(&mut follower) {
        FollowOutcome::Growing(reader) => reader,
        other => panic!("{other:?}"),
    }
}

/// Reads all bytes that are available now. Returns the bytes and the last event.
fn read(reader: &mut BodyReader, cx: &mut Context<'_>) -> (Vec<u8>, Poll<ReadEvent>) {
    let mut fragments: Vec<Bytes> = Vec::new();
    loop {
        match reader.poll_fragments(cx, 1 << 20, &mut fragments) {
            Poll::Ready(ReadEvent::Data) => {}
            end => return (fragments.concat(), end),
        }
    }
}

fn read_now(reader: &mut BodyReader) -> (Vec<u8>, Poll<ReadEvent>) {
    read(reader, &mut Context::from_waker(Waker::noop()))
}

/// A waker that counts its wakeups.
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

/// Runs a future on this thread until it ends.
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

/// Waits for the outcome, and reads a growing record to its end. Returns `None` if the record was
/// aborted.
async fn read_all(mut reader: BodyReader) -> Option<Vec<u8>> {
    let mut fragments = Vec::new();
    loop {
        match poll_fn(|cx| reader.poll_fragments(cx, 700, &mut fragments)).await {
            ReadEvent::Data => {}
            ReadEvent::Done => return Some(fragments.concat()),
            ReadEvent::Stored { .. } => panic!("nothing is stored here"),
            ReadEvent::Aborted => return None,
        }
    }
}

/// A small random generator (splitmix64), so that a run can be repeated from its seed.
struct Rng(u64);

impl Rng {
    /// Takes the seed from `FOREBAY_SEED`, or else from the random keys of the standard hasher.
    /// Prints the seed.
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

    /// Returns a random size, which is mostly small and sometimes up to `max`.
    fn size(&mut self, max: u64) -> u64 {
        let magnitude = self.below(u64::from(max.ilog2()) + 1);
        self.below((1 << magnitude) + 1).min(max)
    }
}
