//! A counter-example, kept as a document: the orderings of a widely read C++ port of this lock.
//!
//! The port's source was a language whose atomics are all sequentially consistent. It kept the
//! steps and weakened the orderings: the reader claims its slot relaxed and loads the bias with
//! acquire; the writer stores the bias with release and loads the slots relaxed; the reader leaves
//! relaxed. On neither side is a store ordered before a load of another word, so each side may miss
//! the other; and the writer is not ordered after the reader's reads.
//!
//! The model is the smallest that shows it: one reader, one writer, one slot, no underlying lock.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;

use crate::atomic::{Relaxed, UnsafeCell, spin_loop};
use crate::model::{fails, holds};

/// The orderings of the steps; a fence stands between the store and the load of its side.
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

// ORDER: each acquire has its release, but store and load of one side may still swap.
const PAIRED: Orders =
    Orders { claim: Ordering::AcqRel, leave: Ordering::Release, scan: Ordering::Acquire, ..PORT };

/// The port with the fences and nothing else.
const FENCED: Orders = Orders { reader_fence: true, writer_fence: true, ..PORT };

/// The port on an x86 processor: a locked instruction is a full fence, every load an acquire, every
/// store a release; the writer's store and its loads may still swap.
const X86: Orders = Orders { reader_fence: true, ..PAIRED };

/// The orderings that suffice.
const RIGHT: Orders = Orders { claim: Relaxed, switch_off: Relaxed, writer_fence: true, ..X86 };

struct Model {
    orders: Orders,
    bias: AtomicBool,
    slot: AtomicBool,
    data: UnsafeCell<u64>,
}

// SAFETY: that is what loom looks at.
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
            // SAFETY: the reader believes that it is in.
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
        // SAFETY: the writer believes that it is alone.
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
