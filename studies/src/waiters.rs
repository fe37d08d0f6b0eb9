//! A stack of the tasks and threads that wait for another thread to publish. The publisher takes
//! the stack as a whole.
//!
//! The publisher stores its data and calls [`Waiters::wake_all`]; without waiters that costs one
//! fence and one load. A waiter pushes itself on the stack, executes a fence, looks again and
//! sleeps. Either the publisher sees the waiter on the stack, or the waiter's second look sees the
//! publication.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `Waiters::top` | waiters push, publishers and leavers take all | the writers |
//! | `Waiters::left_count` | leavers raise, takers of the stack lower | leavers |
//! | `WaiterNode::place` | its waiter: idle → queued → left; its taker: idle | the writers |
//! | `WaiterNode::next` | its waiter, while `place` is idle | its taker, before `place` is idle |
//! | `WaiterNode::waker` | its waiter sets, its taker takes out | the writers |
//!
//! Invariants:
//! - A node is at most once on the stack or with a taker of the stack: only its waiter pushes it,
//!   and only while it is idle.
//! - A taker makes a node idle before it wakes its waiter. A waiter that finds its node still
//!   queued is therefore woken after it registered its waker.
//! - The stack owns one reference count of each node on it, so that a waiter may leave at any time.
//! - At most `LEFT_MAX` nodes without a waiter stay on the stack, plus one for each thread that is
//!   just leaving. A leaver beyond that number takes the whole stack and wakes all waiters on it.
//!   Waiters that must wait longer push themselves again; `LEFT_MAX` leavers share this cost.

#[cfg(all(test, loom))]
mod loom_tests;
mod park;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

#[cfg(not(loom))]
use atomic_waker::AtomicWaker;
#[cfg(loom)]
use loom::future::AtomicWaker;

use forebay_sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize, Relaxed, UnsafeCell, acquire, fence, release,
};

/// The node is not on the stack, and `next` belongs to the waiter.
const IDLE: u32 = 0;
/// The node is on the stack, or was taken from it and not yet processed.
const QUEUED: u32 = 1;
/// The node is on the stack or was taken from it, and its waiter has left.
const LEFT: u32 = 2;

/// The number of nodes without a waiter that may stay on the stack.
const LEFT_MAX: usize = if cfg!(loom) { 0 } else { 64 };

/// All waiters for one event.
#[derive(Debug)]
pub(crate) struct Waiters {
    top: AtomicPtr<WaiterNode>,
    left_count: AtomicUsize,
}

/// A waiter, which waits at the same [`Waiters`] each time.
#[derive(Debug)]
pub(crate) struct Waiter {
    node: Arc<WaiterNode>,
}

#[derive(Debug)]
struct WaiterNode {
    next: UnsafeCell<*const WaiterNode>,
    place: AtomicU32,
    waker: AtomicWaker,
}

// SAFETY: only `next` is not thread-safe by itself. The waiter writes it while `place` is idle. The
// thread that took the node from the stack reads it before it makes `place` idle. The orderings on
// `top` and `place` order the two.
unsafe impl Send for WaiterNode {}
// SAFETY: as above.
unsafe impl Sync for WaiterNode {}

impl Waiters {
    pub(crate) fn new() -> Waiters {
        Waiters { top: AtomicPtr::new(ptr::null_mut()), left_count: AtomicUsize::new(0) }
    }

    /// Wakes all waiters. The caller must have stored its data before.
    #[inline]
    pub(crate) fn wake_all(&self) {
        // ORDER: pairs with the fence in `Waiter::poll`. We publish, then read the stack; the
        // waiter pushes, then looks for the publication. One of us sees the other.
        fence("waiters.wake");
        if !self.top.load(Relaxed).is_null() {
            self.take_all();
        }
    }

    fn take_all(&self) {
        // ORDER: pairs with the push in `Waiter::enqueue`: `next` of every node is read below. A
        // push continues the release sequences of the pushes before it.
        let first = self.top.swap(ptr::null_mut(), acquire("waiters.take")).cast_const();
        TakenStack { waiters: self, first }.wake();
    }

    /// Gives a taken node back to its waiter and wakes it.
    fn let_go(&self, node: &WaiterNode) {
        // ORDER: pairs with the swap in `Waiter::enqueue`: we have read `next` before the waiter
        // may write it again.
        if node.place.swap(IDLE, release("waiters.lower")) == LEFT {
            self.left_count.fetch_sub(1, Relaxed);
        } else {
            node.waker.wake();
        }
    }
}

/// The taken nodes that have not been woken yet.
struct TakenStack<'a> {
    waiters: &'a Waiters,
    first: *const WaiterNode,
}

impl TakenStack<'_> {
    fn wake(&mut self) {
        while let Some(node) = self.pop() {
            self.waiters.let_go(&node);
        }
    }

    fn pop(&mut self) -> Option<Arc<WaiterNode>> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: `enqueue` put a count on the stack with each node, and the swap in `take_all`
        // gave the whole stack to this thread alone.
        let node = unsafe { Arc::from_raw(self.first) };
        // SAFETY: `place` is not idle, so the waiter does not write `next`.
        self.first = node.next.with(|next| unsafe { *next });
        Some(node)
    }
}

/// Wakes the remaining waiters if a waker panics. (A second panic ends the process. A model has no
/// such destructor: a model that has failed also unwinds, and must then touch nothing.)
#[cfg(not(loom))]
impl Drop for TakenStack<'_> {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        self.take_all();
    }
}

impl Waiter {
    pub(crate) fn new() -> Waiter {
        Waiter {
            node: Arc::new(WaiterNode {
                next: UnsafeCell::new(ptr::null()),
                place: AtomicU32::new(IDLE),
                waker: AtomicWaker::new(),
            }),
        }
    }

    /// Returns the result of `look`. If `look` has no result, the task is woken after the next
    /// publication.
    ///
    /// The task may also be woken without a publication. `waiters` must be the same in each call.
    pub(crate) fn poll<T>(
        &mut self,
        waiters: &Waiters,
        cx: &Context<'_>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        if let Some(found) = look() {
            return Poll::Ready(found);
        }
        self.register(cx);
        self.enqueue(waiters);
        // ORDER: pairs with the fence in `Waiters::wake_all`.
        fence("waiters.sleep");
        look().map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the result of `look`. The thread sleeps until `look` has a result.
    pub(crate) fn wait<T>(&mut self, waiters: &Waiters, mut look: impl FnMut() -> Option<T>) -> T {
        park::block_on(|cx| self.poll(waiters, cx, &mut look))
    }

    fn register(&self, cx: &Context<'_>) {
        #[cfg(not(loom))]
        self.node.waker.register(cx.waker());
        #[cfg(loom)]
        self.node.waker.register_by_ref(cx.waker());
    }

    /// Pushes the node, unless it is still queued. A queued node need not be pushed: its taker will
    /// wake the waiter, whose waker is already registered.
    fn enqueue(&self, waiters: &Waiters) {
        // ORDER: pairs with the swap in `Waiters::let_go`, after which `next` is ours.
        if self.node.place.swap(QUEUED, acquire("waiters.raise")) != IDLE {
            return;
        }
        let node = Arc::into_raw(Arc::clone(&self.node)).cast_mut();
        let mut top = waiters.top.load(Relaxed);
        loop {
            // SAFETY: the node was idle and is not on the stack yet, so no other thread reads
            // `next`.
            self.node.next.with_mut(|next| unsafe { *next = top });
            // ORDER: pairs with the swap in `Waiters::take_all`, which reads `next`.
            let push = release("waiters.push");
            match waiters.top.compare_exchange_weak(top, node, push, Relaxed) {
                Ok(_) => return,
                Err(other) => top = other,
            }
        }
    }

    /// Leaves for good. The node of a waiter that is dropped without this call stays on the stack
    /// until the stack is taken.
    pub(crate) fn leave(&mut self, waiters: &Waiters) {
        if self.node.place.load(Relaxed) == IDLE {
            return;
        }
        let left_count = waiters.left_count.fetch_add(1, Relaxed) + 1;
        if self.node.place.swap(LEFT, Relaxed) == IDLE {
            waiters.left_count.fetch_sub(1, Relaxed);
            return;
        }
        drop(self.take_waker());
        if left_count > LEFT_MAX {
            waiters.take_all();
        }
    }

    /// Takes the waker out of the node. A waiter that leaves drops it now, because the task may end
    /// before the node is freed.
    fn take_waker(&self) -> Option<Waker> {
        #[cfg(not(loom))]
        return self.node.waker.take();
        #[cfg(loom)]
        return self.node.waker.take_waker();
    }
}
