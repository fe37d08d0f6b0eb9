//! Lets a thread sleep until the result of a poll is ready.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

#[cfg(loom)]
use loom::thread::{self, Thread};
#[cfg(not(loom))]
use std::thread::{self, Thread};

struct Sleeper(Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until the result is ready, and sleeps between polls until this thread is woken.
pub(super) fn block_on<T>(mut poll: impl FnMut(&Context<'_>) -> Poll<T>) -> T {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    let cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(ready) = poll(&cx) {
            return ready;
        }
        thread::park();
    }
}
