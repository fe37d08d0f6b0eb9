//! Orderings with names.
//!
//! Each ordering that a protocol needs is written with a name, such as `release("bravo.leave")`.
//! Outside of models this is the constant `Release`. One model runs the code as it is and must
//! hold: so no ordering is missing, as far as loom can detect. Another model runs the same code
//! with the ordering of one name weakened and must fail: so the code needs this ordering.

use super::Ordering;

/// The ordering `Acquire`; a model that weakens `name` gets `Relaxed`.
#[inline(always)]
#[must_use]
pub fn acquire(name: &'static str) -> Ordering {
    // ORDER: the caller names the partner.
    named(name, Ordering::Acquire, Ordering::Relaxed)
}

/// The ordering `Release`; a model that weakens `name` gets `Relaxed`.
#[inline(always)]
#[must_use]
pub fn release(name: &'static str) -> Ordering {
    // ORDER: the caller names the partner.
    named(name, Ordering::Release, Ordering::Relaxed)
}

/// Executes a sequentially consistent fence, for publish-then-check. A model that weakens `name`
/// executes an `AcqRel` fence instead.
#[inline(always)]
pub fn fence(name: &'static str) {
    // ORDER: the caller names the partner.
    let order = named(name, Ordering::SeqCst, Ordering::AcqRel);
    raw_fence(order);
}

/// Executes an `Acquire` fence. A model that weakens `name` executes no fence.
#[inline(always)]
pub fn acquire_fence(name: &'static str) {
    // ORDER: the caller names the partner.
    let order = named(name, Ordering::Acquire, Ordering::Relaxed);
    if order != Ordering::Relaxed {
        raw_fence(order);
    }
}

/// Executes a `Release` fence. A model that weakens `name` executes no fence.
#[inline(always)]
pub fn release_fence(name: &'static str) {
    // ORDER: the caller names the partner.
    let order = named(name, Ordering::Release, Ordering::Relaxed);
    if order != Ordering::Relaxed {
        raw_fence(order);
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn named(_name: &'static str, strong: Ordering, _weak: Ordering) -> Ordering {
    strong
}

#[cfg(loom)]
fn named(name: &'static str, strong: Ordering, weak: Ordering) -> Ordering {
    if crate::model::is_weakened(name) { weak } else { strong }
}

#[cfg(all(not(loom), not(tsan)))]
#[inline(always)]
fn raw_fence(order: Ordering) {
    std::sync::atomic::fence(order);
}

#[cfg(loom)]
fn raw_fence(order: Ordering) {
    loom::sync::atomic::fence(order);
}

/// Executes a read-modify-write of one shared word instead of a fence: ThreadSanitizer follows
/// accesses to atomic words, but not fences.
#[cfg(tsan)]
fn raw_fence(_order: Ordering) {
    static FENCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // ORDER: pairs with itself in every other thread: all fences are one sequence.
    FENCE.fetch_add(0, Ordering::SeqCst);
}
