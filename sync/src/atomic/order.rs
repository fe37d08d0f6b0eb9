//! Orderings with names.
//!
//! Each ordering that a protocol needs is written as `release("bravo.unlock")`: outside of models
//! that is the constant `Release`. A model runs the same code with the ordering of one name
//! weakened and must then fail. So every ordering in the code is needed, and none is missing that a
//! model can detect.

use super::Ordering;

/// `Acquire`; weakened: `Relaxed`.
#[inline(always)]
#[must_use]
pub fn acquire(name: &'static str) -> Ordering {
    // ORDER: the caller names the partner.
    named(name, Ordering::Acquire, Ordering::Relaxed)
}

/// `Release`; weakened: `Relaxed`.
#[inline(always)]
#[must_use]
pub fn release(name: &'static str) -> Ordering {
    // ORDER: the caller names the partner.
    named(name, Ordering::Release, Ordering::Relaxed)
}

/// A sequentially consistent fence, for publish-then-check; weakened: an `AcqRel` fence.
#[inline(always)]
pub fn fence(name: &'static str) {
    // ORDER: the caller names the partner.
    let order = named(name, Ordering::SeqCst, Ordering::AcqRel);
    raw_fence(order);
}

/// An `Acquire` fence; weakened: none.
#[inline(always)]
pub fn acquire_fence(name: &'static str) {
    // ORDER: the caller names the partner.
    let order = named(name, Ordering::Acquire, Ordering::Relaxed);
    if order != Ordering::Relaxed {
        raw_fence(order);
    }
}

/// A `Release` fence; weakened: none.
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

/// Swaps one word instead of a fence, since ThreadSanitizer follows words but not fences.
#[cfg(tsan)]
fn raw_fence(_order: Ordering) {
    static FENCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // ORDER: pairs with itself in every other thread: all fences are one sequence.
    FENCE.fetch_add(0, Ordering::SeqCst);
}
