//! A counter-example, kept as a document: the orderings of a widely read C++ port of this lock.
//!
//! The port was made from code in a language whose atomics are all sequentially consistent. It kept
//! the steps and weakened the orderings:
//! - The reader claims its slot with a relaxed swap and loads the bias with acquire.
//! - The writer stores the bias with release and loads the slots relaxed.
//! - The reader clears its slot with a relaxed store.
//!
//! There are two defects. On neither side is the store ordered before the load of the other word,
//! so each side may miss the other. And the writer is not ordered after the reader's reads.
//!
//! The model is the smallest that shows them: one reader, one writer, one slot, no underlying lock.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;

use crate::atomic::{Relaxed, UnsafeCell, spin_loop};
use crate::model::{fails, holds};

/// The ordering of each step, and whether each side executes a fence between its store and its
/// load.
#[derive(Clone, Copy)]
struct Orders {
    claim: Ordering,
    reader_fence: bool,
    check: Ordering,
    leave: Ordering,
    switch_off: Ordering,
    writer_fence: bool,
    scan: Ordering,
}

// ORDER: the port's own, which are the subject of this file.
const PORT: Orders = Orders {
    claim: Ordering::Relaxed,
    reader_fence: false,
    check: Ordering::Acquire,
    leave: Ordering::Relaxed,
    switch_off: Ordering::Release,
    writer_fence: false,
    scan: Ordering::Relaxed,
};

// ORDER: each acquire has its release, but a side's store may still come after its load.
const PAIRED: Orders =
    Orders { claim: Ordering::AcqRel, leave: Ordering::Release, scan: Ordering::Acquire, ..PORT };

/// The port with fences added, and nothing else changed.
const FENCED: Orders = Orders { reader_fence: true, writer_fence: true, ..PORT };

/// The port as an x86 processor runs it: a locked instruction is a full fence, every load an
/// acquire and every store a release. The writer's store may still come after its loads.
const X86: Orders = Orders { reader_fence: true, ..PAIRED };

/// The orderings that suffice.
const RIGHT: Orders = Orders { claim: Relaxed, switch_off: Relaxed, writer_fence: true, ..X86 };

struct Model {
    orders: Orders,
    bias: AtomicBool,
    slot: AtomicBool,
    data: UnsafeCell<u64>,
}

// SAFETY: loom checks whether the accesses of `data` exclude each other.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn read(&self) {
        let orders = self.orders;
        if !self.bias.load(Relaxed) {
            return;
        }
        if self.slot.compare_exchange(false, true, orders.claim, Relaxed).is_err() {
            return;
        }
        if orders.reader_fence {
            // ORDER: pairs with the fence in `write`.
            fence(Ordering::SeqCst);
        }
        if self.bias.load(orders.check) {
            // SAFETY: by the protocol no writer is active now; loom checks that.
            self.data.with(|data| unsafe { *data });
        }
        self.slot.store(false, orders.leave);
    }

    fn write(&self) {
        let orders = self.orders;
        self.bias.store(false, orders.switch_off);
        if orders.writer_fence {
            // ORDER: pairs with the fence in `read`.
            fence(Ordering::SeqCst);
        }
        while self.slot.load(orders.scan) {
            spin_loop();
        }
        // SAFETY: by the protocol no reader is active now; loom checks that.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }
}

fn run(orders: Orders) -> impl Fn() {
    move || {
        let [bias, slot] = [AtomicBool::new(true), AtomicBool::new(false)];
        let model = Arc::new(Model { orders, bias, slot, data: UnsafeCell::new(0) });
        let other = Arc::clone(&model);
        let reader = thread::spawn(move || other.read());
        model.write();
        reader.join().unwrap();
    }
}

mod loom_tests {
    use super::*;

    #[test]
    fn the_orderings_of_the_port_let_a_reader_in_beside_the_writer() {
        fails("bravo port: as ported", run(PORT));
        fails("bravo port: acquire and release everywhere, no fence", run(PAIRED));
        fails("bravo port: fences, but leaves and scans relaxed", run(FENCED));
        fails("bravo port: as an x86 processor runs it", run(X86));
        holds("bravo port: fences, leaves with release, scans with acquire", run(RIGHT));
    }
}
