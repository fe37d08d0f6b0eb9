//! Checks that the loom in use explores the interleavings that the models rely on.

use std::collections::BTreeSet;
use std::sync::Mutex;

use loom::sync::Arc;
use loom::thread;

use super::{AtomicU64, Relaxed, acquire, fence, release};
use crate::model::{breaks, holds};

#[test]
fn a_load_before_a_swap_hides_no_interleaving() {
    let seen = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let all = std::sync::Arc::clone(&seen);
    holds("loom: load, then compare-and-swap", move || {
        let word = Arc::new(AtomicU64::new(1));
        let other = Arc::clone(&word);
        let swapper = thread::spawn(move || {
            let old = other.load(Relaxed);
            other.compare_exchange(old, 2, Relaxed, Relaxed).unwrap();
        });
        all.lock().unwrap().insert(word.load(Relaxed));
        swapper.join().unwrap();
    });
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from([1, 2]), "this loom skips interleavings");
}

/// Models store buffering: each thread stores into its own word and then loads the other thread's
/// word. With the fences, at least one thread sees the store of the other.
fn store_buffering() {
    let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let other = Arc::clone(&words);
    let left = thread::spawn(move || {
        other[0].store(1, Relaxed);
        fence("model.left");
        other[1].load(Relaxed)
    });
    words[1].store(1, Relaxed);
    fence("model.right");
    let right = words[0].load(Relaxed);
    assert_ne!((left.join().unwrap(), right), (0, 0), "neither saw the other");
}

/// Models message passing: a sender writes a message and then a flag. A receiver that sees the flag
/// must see the message.
fn message_passing() {
    let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let other = Arc::clone(&words);
    let sender = thread::spawn(move || {
        other[0].store(1, Relaxed);
        other[1].store(1, release("model.publish"));
    });
    if words[1].load(acquire("model.read")) == 1 {
        assert_eq!(words[0].load(Relaxed), 1, "the receiver saw the flag and not the message");
    }
    sender.join().unwrap();
}

#[test]
fn a_weakened_ordering_is_noticed() {
    holds("loom: store buffering", store_buffering);
    breaks("model.left", "loom: store buffering", store_buffering);
    breaks("model.right", "loom: store buffering", store_buffering);
    holds("loom: message passing", message_passing);
    breaks("model.publish", "loom: message passing", message_passing);
    breaks("model.read", "loom: message passing", message_passing);
}
