//! A counter-example: the send queue as kernels have repaired it, with plain memory accesses.
//!
//! Sender and transmitter shared a lock. The repair lets the transmitter work without the lock in
//! two steps. The transmitter locks only to take the last element, whose `next` is null, since with
//! a later element the sender works elsewhere in the list. And it reads a part of an element
//! without the lock, since the sender writes the new length last. On some processors this mostly
//! works. In the memory model of C11 and of Rust each step is a data race, which loom finds. See
//! `README.md`.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `Element::next` | sender, with the lock | transmitter, without the lock |
//! | `Element::length`, `bytes` | sender, with the lock | transmitter, without the lock |

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;

/// The step that the transmitter does without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unlocked {
    /// No step: the queue before its repair.
    Nothing,
    /// The transmitter checks whether there is a next element, and takes the first element if there
    /// is one.
    ChunkLink,
    /// The transmitter reads the bytes of the first element up to the element's length.
    Bytes,
}

#[derive(Debug, Default)]
struct Element {
    next: UnsafeCell<Option<usize>>,
    length: UnsafeCell<usize>,
    bytes: [UnsafeCell<u8>; 2],
}

/// A queue of two elements. At first only the first element is in the queue, with one byte.
struct Queue {
    lock: Mutex<()>,
    elements: [Element; 2],
}

// SAFETY: this is not sound, as the model shows; loom's cells notice each unordered access.
unsafe impl Sync for Queue {}
// SAFETY: as above.
unsafe impl Send for Queue {}

const FIRST: usize = 0;
const SECOND: usize = 1;

impl Queue {
    fn new() -> Arc<Queue> {
        let queue = Queue { lock: Mutex::new(()), elements: Default::default() };
        queue.append(FIRST, 7);
        Arc::new(queue)
    }

    /// Appends as the sender does: writes the byte first and the length last.
    fn append(&self, index: usize, byte: u8) {
        let element = &self.elements[index];
        // SAFETY: loom checks this access.
        let length = element.length.with(|length| unsafe { *length });
        // SAFETY: loom checks this access.
        element.bytes[length].with_mut(|place| unsafe { *place = byte });
        // SAFETY: loom checks this access.
        element.length.with_mut(|place| unsafe { *place = length + 1 });
    }

    /// Links a new element to the last one, as the sender does.
    fn link(&self) {
        self.append(SECOND, 7);
        // SAFETY: loom checks this access.
        self.elements[FIRST].next.with_mut(|next| unsafe { *next = Some(SECOND) });
    }

    /// Takes the first element, as the transmitter does. If there is no next element, the first is
    /// also the last: the sender may be about to link to it, and the lock is needed.
    fn take_first(&self, unlocked: Unlocked) -> Option<usize> {
        if unlocked == Unlocked::ChunkLink {
            let next = self.next_of_first();
            if next.is_some() {
                return next;
            }
        }
        let _guard = self.lock.lock().unwrap();
        self.next_of_first()
    }

    fn next_of_first(&self) -> Option<usize> {
        // SAFETY: loom checks this access.
        self.elements[FIRST].next.with(|next| unsafe { *next })
    }

    /// Reads the bytes of an element, as the transmitter does.
    fn read(&self, index: usize, unlocked: Unlocked) -> Vec<u8> {
        let _guard = (unlocked != Unlocked::Bytes).then(|| self.lock.lock().unwrap());
        let element = &self.elements[index];
        // SAFETY: loom checks this access.
        let length = element.length.with(|length| unsafe { *length });
        let bytes = element.bytes[..length].iter();
        // SAFETY: loom checks this access.
        bytes.map(|byte| byte.with(|byte| unsafe { *byte })).collect()
    }
}

/// Models a sender that appends to the first element while the transmitter reads this element.
pub(super) fn append_beside_a_read(unlocked: Unlocked) {
    let queue = Queue::new();
    let other = Arc::clone(&queue);
    let sending = thread::spawn(move || {
        let _guard = other.lock.lock().unwrap();
        other.append(FIRST, 7);
    });
    assert!(
        queue.read(FIRST, unlocked).iter().all(|byte| *byte == 7),
        "the transmitter read a byte that was not yet written"
    );
    sending.join().unwrap();
}

/// Models a sender that links a second element to the first while the transmitter takes the first.
pub(super) fn link_beside_a_take(unlocked: Unlocked) {
    let queue = Queue::new();
    let other = Arc::clone(&queue);
    let sending = thread::spawn(move || {
        let _guard = other.lock.lock().unwrap();
        other.link();
    });
    if let Some(next) = queue.take_first(unlocked) {
        assert_eq!(
            queue.read(next, unlocked),
            [7],
            "the transmitter read an element that was not yet filled"
        );
    }
    sending.join().unwrap();
}
