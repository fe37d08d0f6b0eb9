//! Tests of queues and growing records that a single thread uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::magazine::{Depot, Magazines};

/// A step of a test, with its expected result. The queue has at most 4 chunks of 4 bytes.
enum Step {
    Append(&'static str, Result<usize, Closed>),
    End,
    Abort,
    CloseSender,
    CloseReceiver,
    /// Reads at most this many bytes.
    Read(usize, Option<Read<'static>>),
}

const fn part(text: &'static str) -> Option<Read<'static>> {
    Some(Read::Part { bytes: text.as_bytes(), is_end: false })
}

const fn end(text: &'static str) -> Option<Read<'static>> {
    Some(Read::Part { bytes: text.as_bytes(), is_end: true })
}

#[test]
fn a_queue_returns_the_appended_bytes() {
    use Step::{Abort, Append, CloseSender, End, Read as Take};
    let cases: &[(&str, &[Step])] = &[
        ("an empty queue", &[Take(9, None), CloseSender, Take(9, Some(Read::Closed))]),
        ("nothing appended, nothing ended", &[End, Abort, Take(9, None)]),
        ("a message at once", &[Append("ab", Ok(2)), End, Take(9, end("ab")), Take(9, None)]),
        (
            "a message in parts, taken in parts",
            &[
                Append("ab", Ok(2)),
                Take(1, part("a")),
                Append("c", Ok(1)),
                Take(9, part("bc")),
                Take(9, None),
                End,
                Take(9, end("")),
                Take(9, None),
            ],
        ),
        (
            "a message over the end of a chunk",
            &[
                Append("abcdef", Ok(6)),
                End,
                Take(3, part("abc")),
                Take(3, part("d")),
                Take(3, end("ef")),
            ],
        ),
        (
            "two messages are never in one part",
            &[
                Append("ab", Ok(2)),
                End,
                Append("cd", Ok(2)),
                End,
                Take(9, end("ab")),
                Take(9, end("cd")),
            ],
        ),
    ];
    run_all(cases);
}

#[test]
fn an_end_is_told_once_and_a_limit_is_kept() {
    use Step::{Abort, Append, CloseReceiver, CloseSender, End, Read as Take};
    let cases: &[(&str, &[Step])] = &[
        (
            "an aborted message, and one after it",
            &[
                Append("ab", Ok(2)),
                Abort,
                Append("c", Ok(1)),
                End,
                Take(9, part("ab")),
                Take(9, Some(Read::Aborted)),
                Take(9, end("c")),
            ],
        ),
        (
            "a sender that goes in the middle of a message",
            &[
                Append("ab", Ok(2)),
                CloseSender,
                Take(9, part("ab")),
                Take(9, Some(Read::Aborted)),
                Take(9, Some(Read::Closed)),
                Take(9, Some(Read::Closed)),
            ],
        ),
        (
            "a full queue takes what fits, and more when there is room",
            &[
                Append("0123456789abcdef", Ok(12)),
                Append("cdef", Ok(0)),
                Take(9, part("0123")),
                Append("cdef", Ok(4)),
                Take(9, part("4567")),
            ],
        ),
        (
            "a receiver that has gone is noticed with the next chunk",
            &[Append("abc", Ok(3)), CloseReceiver, Append("d", Ok(1)), Append("e", Err(Closed))],
        ),
    ];
    run_all(cases);
}

fn run_all(cases: &[(&str, &[Step])]) {
    for (name, steps) in cases {
        run(name, steps);
    }
}

fn run(name: &str, steps: &[Step]) {
    let (sender, receiver) = queue(Limits { chunk_bytes: 4, bytes_max: 16 });
    let (mut sender, mut receiver) = (Some(sender), Some(receiver));
    for (index, step) in steps.iter().enumerate() {
        let place = format!("{name}, step {index}");
        match *step {
            Step::Append(text, expected) => {
                let taken = sender.as_mut().unwrap().append(text.as_bytes());
                assert_eq!(taken, expected, "{place}");
            }
            Step::End => sender.as_mut().unwrap().end_message(),
            Step::Abort => sender.as_mut().unwrap().abort_message(),
            Step::CloseSender => drop(sender.take()),
            Step::CloseReceiver => drop(receiver.take()),
            Step::Read(bytes_max, expected) => {
                let read = receiver.as_mut().unwrap().read(bytes_max);
                assert_eq!(read, expected, "{place}");
            }
        }
    }
}

#[test]
fn a_packet_is_filled_over_the_ends_of_chunks() {
    let (mut sender, mut receiver) = queue(Limits { chunk_bytes: 4, bytes_max: 64 });
    assert_eq!(receiver.fill(&mut [0; 6]), None, "nothing was appended");
    for (text, is_whole) in [("0123456789ab", true), ("cd", true), ("efghi", false), ("j", false)] {
        assert_eq!(sender.append(text.as_bytes()), Ok(text.len()));
        if is_whole {
            sender.end_message();
        } else {
            sender.abort_message();
        }
    }
    drop(sender);
    let aborted = Some(Read::Aborted);
    let expected =
        [part("012345"), end("6789ab"), end("cd"), part("efghi"), aborted, part("j"), aborted];
    for (index, expected) in expected.into_iter().enumerate() {
        assert_eq!(receiver.fill(&mut [0; 6]), expected, "packet {index}");
    }
    assert_eq!(receiver.wait_fill(&mut [0; 6]), Read::Closed);
}

#[test]
fn chunks_that_were_read_are_used_again() {
    let depot = Arc::new(Depot::new(1, 4));
    let side = || Recycled::new(Magazines::new(Arc::clone(&depot)), 4);
    let (mut sender, mut receiver) = queue_with(8, side(), side());
    for round in 0..100u8 {
        assert_eq!(sender.append(&[round; 3]), Ok(3), "round {round}");
        sender.end_message();
        let expected = Some(Read::Part { bytes: &[round; 3], is_end: true });
        assert_eq!(receiver.read(9), expected, "round {round}");
    }
    drop((sender, receiver));
    let counts = depot.gone_counts();
    assert_eq!(counts.takes, 101, "one take for the stub and one for each message");
    assert!(counts.made <= 6, "{} chunks made: both pairs hold two each", counts.made);
}

#[test]
fn every_follower_reads_all_of_a_record() {
    let (mut producer, record) = growing(2, 8);
    let mut early = record.follow();
    assert_eq!(early.peek(), None, "nothing was appended");
    producer.append(b"abcdefghijklmnopqrstuvw");
    assert_eq!(producer.held_bytes(), 2 + 4 + 8 + 8 + 8, "sizes double up to the maximum");
    assert_eq!(early.peek(), Some(Peek::Bytes(b"ab")));
    early.advance(1);
    assert_eq!(
        early.peek(),
        Some(Peek::Bytes(b"b")),
        "bytes that were not passed are returned again"
    );
    early.advance(1);
    producer.finish();
    let late = record.follow();
    drop(record);
    assert_eq!(read_all(early), ("cdefghijklmnopqrstuvw".into(), true));
    assert_eq!(read_all(late), ("abcdefghijklmnopqrstuvw".into(), true));
}

#[test]
fn a_record_whose_producer_gives_up_is_aborted() {
    let (mut producer, record) = growing(2, 8);
    producer.append(b"abc");
    drop(producer);
    assert_eq!(read_all(record.follow()), ("abc".into(), false));
}

/// Returns the bytes that can be read, and whether they are the whole record.
fn read_all(mut follower: RecordFollower) -> (String, bool) {
    let mut text = String::new();
    loop {
        match follower.wait_peek() {
            Peek::Bytes(bytes) => {
                let count = bytes.len();
                text.push_str(std::str::from_utf8(bytes).unwrap());
                follower.advance(count);
            }
            Peek::Done => return (text, true),
            Peek::Aborted => return (text, false),
        }
    }
}

#[derive(Default)]
struct CountedWakes(AtomicUsize);

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_task_is_woken_when_there_is_something_to_read() {
    let (mut producer, record) = growing(2, 8);
    let mut follower = record.follow();
    let wakes = Arc::new(CountedWakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let cx = Context::from_waker(&waker);
    assert_eq!(follower.poll_peek(&cx), Poll::Pending);
    assert_eq!(follower.poll_peek(&cx), Poll::Pending, "asked twice");
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0, "nothing was appended");
    producer.append(b"a");
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "woken once");
    assert_eq!(follower.poll_peek(&cx), Poll::Ready(Peek::Bytes(b"a")));
    producer.append(b"b");
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the follower does not wait");
}
