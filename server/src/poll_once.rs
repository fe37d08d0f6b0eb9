//! Asks a future once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// What `future` has ready at this moment; if that is nothing, it wakes the task when it is
/// polled again and has something.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
