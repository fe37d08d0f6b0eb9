//! Sends other bytes to a client that waits for its response: the responses to earlier requests,
//! and the interim responses (1xx) of the origin (RFC 9110 §15.2).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use forebay_http::request::Version;
use forebay_http::response::ResponseHead;
use forebay_http::write;

use super::DeliverError;
use crate::accept::Client;
use crate::interim::InterimQueue;
use crate::parse::ResponseForm;
use crate::send_queue::SendQueue;

/// Runs `work` to its end. Until then, flushes responses to earlier requests and forwards interim
/// responses.
///
/// # Errors
/// The client is gone, or reads an earlier response too slowly.
pub(crate) async fn relay_interim<'a, T>(
    client: &'a Client,
    form: ResponseForm,
    interim: &'a InterimQueue,
    queue: &'a mut SendQueue,
    work: Pin<&'a mut (impl Future<Output = T> + 'a)>,
) -> Result<T, DeliverError> {
    Relay { client, form, interim, queue }.run(work).await
}

struct Relay<'a> {
    client: &'a Client,
    form: ResponseForm,
    interim: &'a InterimQueue,
    queue: &'a mut SendQueue,
}

enum RelayStep<T> {
    Done(T),
    Interim(Vec<ResponseHead>),
    Flush,
}

impl Relay<'_> {
    async fn run<T>(
        mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, DeliverError> {
        loop {
            let step = poll_fn(|cx| {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(RelayStep::Done(done));
                }
                if let Poll::Ready(heads) = self.interim.poll_take(cx) {
                    return Poll::Ready(RelayStep::Interim(heads));
                }
                // Responses to earlier requests must not wait for the origin of this request.
                if !self.queue.is_empty() {
                    return Poll::Ready(RelayStep::Flush);
                }
                Poll::Pending
            });
            match step.await {
                RelayStep::Done(done) => {
                    self.end();
                    return Ok(done);
                }
                RelayStep::Interim(heads) => self.append(&heads),
                RelayStep::Flush => {
                    if let Some(done) = self.flush_beside(work.as_mut()).await? {
                        self.end();
                        return Ok(done);
                    }
                }
            }
        }
    }

    /// Flushes the queue while the work runs, because the work may have to read from the same
    /// client. If the work ends first, returns its result immediately, because a response that pins
    /// a record must not wait here; the remaining bytes of the queue are then sent before the
    /// response.
    async fn flush_beside<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<Option<T>, DeliverError> {
        let mut flush = pin!(self.client.flush(self.queue));
        let ended = poll_fn(|cx| {
            if let Poll::Ready(flushed) = flush.as_mut().poll(cx) {
                return Poll::Ready(flushed.map(|()| None).map_err(DeliverError::Midway));
            }
            work.as_mut().poll(cx).map(|done| Ok(Some(done)))
        });
        ended.await
    }

    /// Appends the interim responses that arrived before the final response.
    fn end(&mut self) {
        let heads = self.interim.take();
        self.append(&heads);
    }

    /// Appends interim responses to the queue, unless the client uses HTTP/1.0, which has none.
    // RFC: 9110-15.2-1, 9110-15.2-3
    fn append(&mut self, interim: &[ResponseHead]) {
        if self.form.version == Version::Http10 {
            return;
        }
        for head in interim {
            let text = self.queue.text();
            if head.status == 100 {
                self.client.note_continued();
            }
            write::status_line(text, head.status);
            text.extend_from_slice(head.block.bytes());
            text.extend_from_slice(b"\r\n");
        }
    }
}
