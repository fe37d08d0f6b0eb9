//! Interim answers (1xx) are passed on to the client while it waits for the final one
//! (RFC 9110 §15.2).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use forebay_http::request::Version;
use forebay_http::response::ResponseHead;
use forebay_http::write;

use super::Broken;
use crate::accept::Client;
use crate::fetch::InterimQueue;
use crate::parse::ResponseForm;
use crate::send_queue::SendQueue;

/// Hands interim answers to a client.
pub(crate) struct Relay<'a> {
    pub(crate) client: &'a Client,
    pub(crate) form: ResponseForm,
    pub(crate) queue: &'a InterimQueue,
}

enum Step<T> {
    Done(T),
    Interim(Vec<ResponseHead>),
    Flush,
}

impl Relay<'_> {
    /// Runs `work` to its end and sends what comes in meanwhile.
    ///
    /// # Errors
    /// The client is gone or too slow.
    pub(crate) async fn until<T>(
        &self,
        out: &mut SendQueue,
        work: impl Future<Output = T>,
    ) -> Result<T, Broken> {
        let mut work = pin!(work);
        loop {
            let step = poll_fn(|cx| {
                // Interim answers first: what came before the final one is sent before it.
                if let Poll::Ready(interim) = self.queue.poll_take(cx) {
                    return Poll::Ready(Step::Interim(interim));
                }
                match work.as_mut().poll(cx) {
                    Poll::Ready(done) => Poll::Ready(Step::Done(done)),
                    // Answers to earlier requests must not wait for this one's origin.
                    Poll::Pending if !out.is_empty() => Poll::Ready(Step::Flush),
                    Poll::Pending => Poll::Pending,
                }
            });
            match step.await {
                Step::Done(done) => {
                    self.append(out, &self.queue.take());
                    return Ok(done);
                }
                Step::Interim(interim) => self.append(out, &interim),
                Step::Flush => self.client.flush(out).await.map_err(Broken::Before)?,
            }
        }
    }

    /// HTTP/1.0 has no interim answers.
    fn append(&self, out: &mut SendQueue, interim: &[ResponseHead]) {
        if self.form.version == Version::Http10 {
            return;
        }
        for head in interim {
            let text = out.text();
            write::status_line(text, head.status);
            text.extend_from_slice(head.block.bytes());
            text.extend_from_slice(b"\r\n");
        }
    }
}
