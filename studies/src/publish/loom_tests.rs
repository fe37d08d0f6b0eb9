//! Models of the real chains, queues and growing records. Loom checks the accesses to each byte.

use loom::thread;

use super::*;
use forebay_sync::model::{ModelValue, breaks, breaks_within, fails, holds, holds_within};

const LIMITS: Limits = Limits { chunk_bytes: 2, bytes_max: 100 };

/// Makes a queue whose sides are not dropped when a model fails.
fn kept_queue(limits: Limits) -> (ModelValue<Sender>, ModelValue<Receiver>) {
    let (sender, receiver) = queue(limits);
    (ModelValue::new(sender), ModelValue::new(receiver))
}

/// The messages that a receiver has read, with their ends.
#[derive(Debug, Default, PartialEq, Eq)]
struct Received {
    open: Vec<u8>,
    messages: Vec<(Vec<u8>, bool)>,
    is_closed: bool,
}

impl Received {
    fn note(&mut self, read: Read<'_>) {
        match read {
            Read::Part { bytes, is_end } => {
                self.open.extend_from_slice(bytes);
                if is_end {
                    self.messages.push((std::mem::take(&mut self.open), true));
                }
            }
            Read::Aborted => self.messages.push((std::mem::take(&mut self.open), false)),
            Read::Closed => self.is_closed = true,
        }
    }

    /// Tries `count` reads without waiting.
    fn look(&mut self, receiver: &mut Receiver, count: usize) {
        for _ in 0..count {
            if let Some(read) = receiver.read(usize::MAX) {
                self.note(read);
            }
        }
    }

    fn wait_for_the_end(&mut self, receiver: &mut Receiver) {
        while !self.is_closed {
            self.note(receiver.wait_read(usize::MAX));
        }
    }
}

/// Runs a sender beside a receiver that tries two reads. After the sender has ended, the receiver
/// reads the remaining messages.
fn read_beside(
    send: impl Fn(&mut Sender) + Copy + Send + Sync + 'static,
    expected: &'static [(&'static [u8], bool)],
) -> impl Fn() + Copy + Send + Sync + 'static {
    move || {
        let (mut sender, mut receiver) = kept_queue(LIMITS);
        let sending = thread::spawn(move || send(&mut sender));
        let mut received = Received::default();
        received.look(&mut receiver, 2);
        sending.join().unwrap();
        while !received.is_closed {
            received.look(&mut receiver, 1);
        }
        assert_messages(&received, expected);
    }
}

fn assert_messages(received: &Received, expected: &[(&[u8], bool)]) {
    let messages = received.messages.iter().map(|(bytes, is_whole)| (&bytes[..], *is_whole));
    assert!(messages.eq(expected.iter().copied()), "{received:?} instead of {expected:?}");
    assert!(received.open.is_empty(), "the receiver got more bytes than were sent");
}

#[test]
fn a_chunk_is_read_while_it_is_appended_to() {
    let model = read_beside(
        |sender| {
            sender.append(b"a").unwrap();
            sender.append(b"b").unwrap();
            sender.end_message();
        },
        &[(b"ab", true)],
    );
    holds("publish: read beside the append", model);
    breaks("publish.length", "publish: read beside the append", model);
    breaks("publish.read", "publish: read beside the append", model);
}

#[test]
fn the_last_element_is_taken_while_another_is_linked_to_it() {
    let model = read_beside(
        |sender| {
            sender.append(b"a").unwrap();
            sender.end_message();
            sender.append(b"b").unwrap();
            sender.end_message();
        },
        &[(b"a", true), (b"b", true)],
    );
    holds("publish: the last element", model);
    breaks("publish.link", "publish: the last element", model);
    breaks("publish.next", "publish: the last element", model);
}

#[test]
fn a_message_goes_on_in_another_chunk() {
    let model = read_beside(
        |sender| {
            sender.append(b"abc").unwrap();
            sender.end_message();
        },
        &[(b"abc", true)],
    );
    holds("publish: over the end of a chunk", model);
}

#[test]
fn an_abort_is_seen_after_the_appended_bytes() {
    let model = read_beside(
        |sender| {
            sender.append(b"a").unwrap();
            sender.abort_message();
            sender.append(b"b").unwrap();
        },
        &[(b"a", false), (b"b", false)],
    );
    holds("publish: aborted, then dropped open", model);
}

/// Runs a receiver that sleeps whenever the queue is empty, until the sender is dropped.
///
/// The receiver has its own thread because in loom a late unpark would also end a wait for another
/// thread.
fn sleeping_receiver(
    send: impl Fn(ModelValue<Sender>) + Copy + Send + Sync + 'static,
    expected: &'static [(&'static [u8], bool)],
) -> impl Fn() + Copy + Send + Sync + 'static {
    move || {
        let (sender, mut receiver) = kept_queue(LIMITS);
        let receiving = thread::spawn(move || {
            let mut received = Received::default();
            received.wait_for_the_end(&mut receiver);
            received
        });
        send(sender);
        assert_messages(&receiving.join().unwrap(), expected);
    }
}

#[test]
fn a_sleeping_receiver_is_woken_by_the_end() {
    let model = sleeping_receiver(drop, &[]);
    holds("publish: closed while the receiver falls asleep", model);
    breaks("waiters.sleep", "publish: closed while the receiver falls asleep", model);
    breaks("waiters.wake", "publish: closed while the receiver falls asleep", model);
}

#[test]
fn a_sleeping_receiver_gets_a_message_and_the_end() {
    let model = sleeping_receiver(
        |mut sender| {
            sender.append(b"a").unwrap();
            sender.end_message();
        },
        &[(b"a", true)],
    );
    holds_within(Some(2), "publish: a message for a sleeper", model);
    breaks_within(Some(2), "waiters.sleep", "publish: a message for a sleeper", model);
}

#[test]
fn a_full_queue_wakes_its_sender_when_there_is_room() {
    let model = || {
        let (mut sender, mut receiver) = kept_queue(Limits { chunk_bytes: 1, bytes_max: 2 });
        assert_eq!(sender.append(b"ab"), Ok(1), "the queue has room for one byte");
        let sending = thread::spawn(move || {
            sender.wait_for_room().unwrap();
            assert_eq!(sender.append(b"b"), Ok(1));
            sender.end_message();
        });
        let mut received = Received::default();
        received.look(&mut receiver, 1);
        received.look(&mut receiver, 1);
        sending.join().unwrap();
        while !received.is_closed {
            received.look(&mut receiver, 1);
        }
        assert_messages(&received, &[(b"ab", true)]);
    };
    holds_within(Some(3), "publish: room for a sleeping sender", model);
    breaks_within(Some(3), "waiters.sleep", "publish: room for a sleeping sender", model);
}

#[test]
fn a_sleeping_sender_learns_that_the_receiver_is_gone() {
    let model = || {
        let (mut sender, receiver) = kept_queue(Limits { chunk_bytes: 1, bytes_max: 2 });
        assert_eq!(sender.append(b"ab"), Ok(1), "the queue has room for one byte");
        let sending = thread::spawn(move || assert_eq!(sender.wait_for_room(), Err(Closed)));
        drop(receiver);
        sending.join().unwrap();
    };
    holds("publish: the receiver leaves a sleeping sender", model);
}

/// Reads to the end, and sleeps whenever there is nothing to read.
fn follow(mut follower: ModelValue<RecordFollower>) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        match follower.wait_peek() {
            Peek::Bytes(more) => {
                bytes.extend_from_slice(more);
                let count = more.len();
                follower.advance(count);
            }
            Peek::Done => return (bytes, true),
            Peek::Aborted => return (bytes, false),
        }
    }
}

/// Runs `count` followers of a record that `grow` appends to.
fn followers(
    count: usize,
    grow: impl Fn(ModelValue<Producer>) + Copy + Send + Sync + 'static,
    expected: (&'static [u8], bool),
) -> impl Fn() + Copy + Send + Sync + 'static {
    move || {
        let (producer, record) = growing(1, 2);
        let (producer, record) = (ModelValue::new(producer), ModelValue::new(record));
        let following = Vec::from_iter((0..count).map(|_| {
            let follower = ModelValue::new(record.follow());
            thread::spawn(move || follow(follower))
        }));
        drop(record);
        grow(producer);
        for follower in following {
            let (bytes, is_done) = follower.join().unwrap();
            assert_eq!((&bytes[..], is_done), expected);
        }
    }
}

#[test]
fn a_follower_reads_to_the_end_however_it_sleeps() {
    let model = followers(
        1,
        |mut producer| {
            producer.append(b"a");
            producer.into_inner().finish();
        },
        (b"a", true),
    );
    holds_within(Some(3), "publish: a record grows and is done", model);
    breaks_within(Some(3), "waiters.wake", "publish: a record grows and is done", model);
    breaks_within(Some(3), "waiters.sleep", "publish: a record grows and is done", model);
    breaks_within(Some(3), "publish.length", "publish: a record grows and is done", model);
    breaks_within(Some(3), "publish.read", "publish: a record grows and is done", model);
}

#[test]
fn a_follower_learns_that_the_producer_gave_up() {
    let model = followers(1, |mut producer| producer.append(b"abc"), (b"abc", false));
    holds_within(Some(3), "publish: a record is aborted", model);
}

#[test]
fn two_followers_read_all_of_a_record() {
    let grow = |mut producer: ModelValue<Producer>| {
        producer.append(b"a");
        producer.into_inner().finish();
    };
    holds_within(Some(2), "publish: two follow a record", followers(2, grow, (b"a", true)));
}

#[test]
fn the_usual_repair_of_a_locked_queue_is_a_data_race() {
    use racy_model::{Unlocked, append_beside_a_read, link_beside_a_take};
    holds("publish: a locked queue", || append_beside_a_read(Unlocked::Nothing));
    holds("publish: a locked queue, linked", || link_beside_a_take(Unlocked::Nothing));
    fails("publish: length last, read without the lock", || {
        append_beside_a_read(Unlocked::Bytes);
    });
    fails("publish: the lock for the last element only", || {
        link_beside_a_take(Unlocked::ChunkLink)
    });
}
