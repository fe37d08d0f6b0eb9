//! Tests that both queues of the example `send_queue` deliver the sent messages, and that the
//! lock-free queue takes no lock.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../examples/send_queue/locked.rs"]
mod locked;
#[path = "../examples/send_queue/published.rs"]
mod published;
#[path = "../examples/send_queue/sites.rs"]
mod sites;
#[path = "../examples/send_queue/work.rs"]
mod work;

use forebay_studies::publish::Read;
use forebay_sync::observe;
use sites::SITES;
use work::{Incoming, Outgoing, PACKET_BYTES, Plan, deliver};

/// The largest numbers of bytes in the queue: less than one message, several messages, all
/// messages.
const QUEUE_BYTES_MAX: [usize; 3] = [1, 32 * 1024, usize::MAX];
const MESSAGES: usize = 300;

/// Asserts that every message arrives with all its bytes and its end, in order, and that no packet
/// is too long or holds bytes of two messages.
fn assert_delivery(name: &str, plan: &Plan, sides: (impl Outgoing, impl Incoming)) {
    let mut expected = plan.messages().map(|message| (message.bytes, message.is_whole));
    let mut received = Vec::new();
    let (sent, arrived) = deliver(plan, sides.0, sides.1, |read| match read {
        Read::Part { bytes, is_end } => {
            assert!(bytes.len() <= PACKET_BYTES, "{name}: a packet has {} bytes", bytes.len());
            received.extend_from_slice(bytes);
            if *is_end {
                assert_eq!(expected.next(), Some((&received[..], true)), "{name}");
                received.clear();
            }
        }
        Read::Aborted => {
            assert_eq!(expected.next(), Some((&received[..], false)), "{name}");
            received.clear();
        }
        Read::Closed => assert!(received.is_empty(), "{name}: a message without an end"),
    })
    .unwrap();
    assert_eq!(expected.next(), None, "{name}: messages are missing");
    assert_eq!(sent, arrived, "{name}: checksums");
    assert_eq!(arrived.messages as usize, MESSAGES, "{name}");
}

#[test]
fn both_queues_deliver_every_message_and_one_takes_no_lock() {
    observe::set(&SITES).unwrap();
    observe::on();
    for (seed, bytes_max) in (1..).zip(QUEUE_BYTES_MAX) {
        let plan = Plan::new(seed, MESSAGES);
        let aborted = plan.messages().filter(|message| !message.is_whole).count();
        assert!(aborted > 0, "seed {seed}: no message is aborted");

        assert_delivery("publish", &plan, published::queue(bytes_max));
        assert_eq!(SITES.take(), [], "publish, {bytes_max} bytes: a lock was taken");

        assert_delivery("one mutex", &plan, locked::queue(bytes_max));
        let count: u64 = SITES.take().iter().map(|counts| counts.count).sum();
        assert!(
            count > 3 * MESSAGES as u64,
            "one mutex, {bytes_max} bytes: the lock was taken only {count} times"
        );
    }
    observe::off();
}
