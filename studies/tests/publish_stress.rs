//! Stress tests of senders, receivers, producers and followers on real threads. Every message must
//! arrive once, in order and with its end.
#![cfg_attr(tsan, feature(sanitize))]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread;

use forebay_studies::publish::{
    Chunk, Chunks, GrowingRecord, Limits, Peek, Read, Receiver, RecordFollower, Sender, growing,
    queue, queue_with,
};
use forebay_sync::{LockClass, Mutex};

const MESSAGES: usize = if cfg!(tsan) { 1_000 } else { 10_000 };
const RECORDS: usize = if cfg!(tsan) { 20 } else { 200 };
const FOLLOWERS: usize = 3;

/// ThreadSanitizer does not see the fence by which the standard library's `Arc` orders its
/// destructor after all other uses, because that library is not compiled for it. All accesses
/// before the last count is dropped are still checked.
#[cfg(tsan)]
#[sanitize(thread = "off")]
#[unsafe(no_mangle)]
extern "C" fn __tsan_default_suppressions() -> *const std::ffi::c_char {
    const LIST: &std::ffi::CStr = c"race:alloc::sync::Arc<*>*::drop\nrace:std::sync::mpmc\n";
    const { LIST.as_ptr() }
}

/// xorshift64*, which is random enough for lengths and bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Returns a new seed for each run. A failed run can be repeated with the printed seed.
fn seed(test: &str) -> u64 {
    let given = std::env::var("FOREBAY_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(test) | 1);
    println!("{test}: FOREBAY_SEED={seed}");
    seed
}

/// Returns the messages of a test: the bytes of each, and whether it is ended or aborted. Both
/// sides compute them from the same seed.
fn messages(seed: u64) -> impl Iterator<Item = (Vec<u8>, bool)> {
    let mut random = Random(seed);
    (0..MESSAGES).map(move |_| {
        let count = 1 + random.below(200);
        let is_whole = random.below(10) > 0;
        (random.bytes(count), is_whole)
    })
}

fn send<S: Chunks>(mut sender: Sender<S>, seed: u64) {
    let mut random = Random(!seed);
    for (bytes, is_whole) in messages(seed) {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let part = &rest[..rest.len().min(1 + random.below(100))];
            let taken = sender.append(part).unwrap();
            rest = &rest[taken..];
            if taken < part.len() {
                sender.wait_for_room().unwrap();
            }
        }
        if is_whole {
            sender.end_message();
        } else {
            sender.abort_message();
        }
    }
}

fn receive<S: Chunks>(mut receiver: Receiver<S>, seed: u64) {
    let mut expected = messages(seed);
    let mut received = Vec::new();
    let mut random = Random(seed ^ 1);
    loop {
        match receiver.wait_read(1 + random.below(100)) {
            Read::Part { bytes, is_end } => {
                received.extend_from_slice(bytes);
                if is_end {
                    assert_eq!(expected.next(), Some((std::mem::take(&mut received), true)));
                }
            }
            Read::Aborted => {
                assert_eq!(expected.next(), Some((std::mem::take(&mut received), false)));
            }
            Read::Closed => break,
        }
    }
    assert_eq!(expected.next(), None, "messages are missing");
}

#[test]
fn messages_arrive_once_and_in_order() {
    let seed = seed("messages");
    let (sender, receiver) = queue(Limits { chunk_bytes: 64, bytes_max: 512 });
    let sending = thread::spawn(move || send(sender, seed));
    receive(receiver, seed);
    sending.join().unwrap();
}

/// A free list that both sides share.
#[derive(Clone)]
#[expect(clippy::vec_box, reason = "chunks come and go in boxes")]
struct Pool(Arc<Mutex<Vec<Box<Chunk>>>>);

impl Chunks for Pool {
    fn take(&mut self) -> Box<Chunk> {
        let chunk = self.0.lock().pop();
        chunk.unwrap_or_else(|| Chunk::new(64))
    }

    fn give(&mut self, chunk: Box<Chunk>) {
        self.0.lock().push(chunk);
    }
}

#[test]
fn messages_arrive_in_chunks_that_are_used_again() {
    let seed = seed("recycled");
    let pool = Pool(Arc::new(Mutex::new(LockClass::Test, Vec::new())));
    let (sender, receiver) = queue_with(4, pool.clone(), pool.clone());
    let sending = thread::spawn(move || send(sender, seed));
    receive(receiver, seed);
    sending.join().unwrap();
    assert!(pool.0.lock().len() <= 4, "more chunks than the limit allows");
}

#[test]
fn a_side_that_goes_ends_the_wait_of_the_other() {
    for round in 0..RECORDS {
        let (mut sender, receiver) = queue(Limits { chunk_bytes: 8, bytes_max: 16 });
        let sending = thread::spawn(move || {
            while sender.append(&[1; 5]).is_ok() && sender.wait_for_room().is_ok() {}
        });
        drop(receiver);
        sending.join().unwrap();
        let (sender, mut receiver) = queue(Limits { chunk_bytes: 8, bytes_max: 16 });
        let receiving = thread::spawn(move || assert_eq!(receiver.wait_read(1), Read::Closed));
        drop(sender);
        receiving.join().unwrap_or_else(|_| panic!("round {round}"));
    }
}

/// Reads the whole record, or only `bytes_max` bytes of it. Returns whether the record was whole,
/// or `None` if it stopped early.
fn follow(mut follower: RecordFollower, expected: &[u8], bytes_max: usize) -> Option<bool> {
    let mut offset = 0;
    while offset < bytes_max {
        match follower.wait_peek() {
            Peek::Bytes(bytes) => {
                let count = bytes.len();
                assert_eq!(bytes, &expected[offset..][..count], "at {offset}");
                offset += count;
                follower.advance(count);
            }
            Peek::Done => {
                assert_eq!(offset, expected.len(), "the record ended too early");
                return Some(true);
            }
            Peek::Aborted => return Some(false),
        }
    }
    None
}

/// Follows the record several times, one follower after the other. Some of them leave early.
fn follow_again_and_again(record: &GrowingRecord, expected: &[u8], is_whole: bool, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..3 {
        let bytes_max = 1 + random.below(expected.len());
        follow(record.follow(), expected, bytes_max);
    }
    assert_eq!(follow(record.follow(), expected, usize::MAX), Some(is_whole));
}

#[test]
fn followers_read_the_same_record_at_their_own_pace() {
    let seed = seed("followers");
    let mut random = Random(seed);
    for _ in 0..RECORDS {
        let count = 1 + random.below(5_000);
        let bytes = random.bytes(count);
        let is_whole = random.below(4) > 0;
        let (mut producer, record) = growing(16, 256);
        thread::scope(|scope| {
            let following = [(); FOLLOWERS].map(|()| {
                let (record, bytes, seed) = (record.clone(), &bytes, random.next() | 1);
                scope.spawn(move || follow_again_and_again(&record, bytes, is_whole, seed))
            });
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.len().min(1 + random.below(300)));
                producer.append(part);
                rest = after;
            }
            if is_whole {
                producer.finish();
            } else {
                drop(producer);
            }
            for follower in following {
                follower.join().unwrap();
            }
        });
    }
}
