//! Tasks whose panics are counted and logged. A panic ends one task, and the worker continues.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::counters::Counter;
use crate::events::Event;
use crate::worker::Worker;

/// Polls a future that has no task of its own; counts and logs a panic in it. After a panic, the
/// result is `Ready`, and the future must be dropped.
pub(crate) fn poll_guarded(
    worker: &Rc<Worker>,
    future: Pin<&mut (impl Future<Output = ()> + ?Sized)>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let _watch = PanicWatch { worker: Rc::clone(worker) };
        future.poll(cx)
    }));
    polled.unwrap_or(Poll::Ready(()))
}

pin_project! {
    /// A task that reports its own panic. An async block in place of this type would hold the task
    /// twice: as the captured value, and as the future that it awaits.
    pub(crate) struct WatchedTask<F> {
        watch: PanicWatch,
        #[pin]
        task: F,
    }
}

impl<F> WatchedTask<F> {
    pub(crate) fn new(worker: &Rc<Worker>, task: F) -> WatchedTask<F> {
        WatchedTask { watch: PanicWatch { worker: Rc::clone(worker) }, task }
    }
}

impl<F: Future<Output = ()>> Future for WatchedTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().task.poll(cx)
    }
}

/// Counts and logs a panic of the task that owns this value.
struct PanicWatch {
    worker: Rc<Worker>,
}

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.count(Counter::Panics);
            self.worker.event(Event::Panicked, &"the worker continues");
        }
    }
}
