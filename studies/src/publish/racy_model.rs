//! A counter-example: the send queue as kernels have repaired it, with plain memory accesses.
//!
//! Sender and transmitter shared a lock. The repair lets the transmitter work without the lock. It
//! locks only to take the last element (`next` is null), since otherwise the sender works elsewhere
//! in the list. It reads a part of an element without the lock, since the sender publishes the new
//! length last. On one kind of processor that mostly works. In the memory model of C11 and of Rust
//! each step is a data race, and loom finds it. See `README.md`.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `Element::next` | sender, with the lock | transmitter, without |
//! | `Element::length`, `bytes` | sender, with the lock | transmitter, without |

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::thread;

/// The step that the transmitter does without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unlocked {
    /// No step: the queue before its repair.
    Nothing,
    /// It checks whether there is a next element, and takes the first element if there is.
    ChunkLink,
    /// It reads the bytes of the first element up to its length.
    Bytes,
}

#[derive(Debug, Default)]
struct Element {
    next: UnsafeCell<Option<usize>>,
    length: UnsafeCell<usize>,
    bytes: [UnsafeCell<u8>; 2],
}

/// Two elements, of which only the first is in the queue, with one byte.
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

    /// The sender writes the byte first and the length last.
    fn append(&self, index: usize, byte: u8) {
        let element = &self.elements[index];
        // SAFETY: loom checks it.
        let length = element.length.with(|length| unsafe { *length });
        // SAFETY: loom checks it.
        element.bytes[length].with_mut(|place| unsafe { *place = byte });
        // SAFETY: loom checks it.
        element.length.with_mut(|place| unsafe { *place = length + 1 });
    }

    /// The sender links a new element to the last one.
    fn link(&self) {
        self.append(SECOND, 7);
        // SAFETY: loom checks it.
        self.elements[FIRST].next.with_mut(|next| unsafe { *next = Some(SECOND) });
    }

    /// The transmitter takes the first element. If there is no next element, the first is also the
    /// last: the sender may be about to link to it, and the lock is needed.
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
        // SAFETY: loom checks it.
        self.elements[FIRST].next.with(|next| unsafe { *next })
    }

    /// The transmitter reads the bytes of an element.
    fn read(&self, index: usize, unlocked: Unlocked) -> Vec<u8> {
        let _guard = (unlocked != Unlocked::Bytes).then(|| self.lock.lock().unwrap());
        let element = &self.elements[index];
        // SAFETY: loom checks it.
        let length = element.length.with(|length| unsafe { *length });
        let bytes = element.bytes[..length].iter();
        // SAFETY: loom checks it.
        bytes.map(|byte| byte.with(|byte| unsafe { *byte })).collect()
    }
}

/// The sender appends to the first element, while the transmitter reads it.
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

/// The sender links a second element to the first while the transmitter takes the first.
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
