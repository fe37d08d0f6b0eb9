//! Interim answers (1xx) on their way from the origin to the client (RFC 9110 §15.2).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use forebay_http::request::Version;
use forebay_http::response::ResponseHead;
use forebay_http::write;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Broken;
use crate::accept::Client;
use crate::out::Out;
use crate::parse::ReplyForm;

/// Hands interim answers to a client while it waits for the final one.
pub(crate) struct Relay<'a> {
    client: &'a Client,
    form: ReplyForm,
    // Unbounded in type only: the sending side stops after a fixed number for each request.
    sender: UnboundedSender<ResponseHead>,
    receiver: UnboundedReceiver<ResponseHead>,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(client: &'a Client, form: ReplyForm) -> Relay<'a> {
        let (sender, receiver) = unbounded_channel();
        Relay {
            client,
            form,
            sender,
            receiver,
        }
    }

    /// Where interim answers go in.
    pub(crate) fn sender(&self) -> UnboundedSender<ResponseHead> {
        self.sender.clone()
    }

    /// Runs `work` to its end and sends what comes in meanwhile.
    ///
    /// # Errors
    /// The client is gone or too slow.
    pub(crate) async fn until<T>(
        &mut self,
        out: &mut Out,
        work: impl Future<Output = T>,
    ) -> Result<T, Broken> {
        let mut work = pin!(work);
        loop {
            let step = poll_fn(|cx| {
                // Interim answers first: what came before the final one is sent before it.
                if let Poll::Ready(Some(interim)) = self.receiver.poll_recv(cx) {
                    return Poll::Ready(Err(interim));
                }
                work.as_mut().poll(cx).map(Ok)
            });
            match step.await {
                Ok(done) => {
                    while let Ok(interim) = self.receiver.try_recv() {
                        append(out, &interim, self.form);
                    }
                    return Ok(done);
                }
                Err(interim) => {
                    append(out, &interim, self.form);
                    self.client.flush(out).await.map_err(Broken::Before)?;
                }
            }
        }
    }
}

/// HTTP/1.0 has no interim answers.
fn append(out: &mut Out, interim: &ResponseHead, form: ReplyForm) {
    if form.version == Version::Http11 {
        let text = out.text();
        write::status_line(text, interim.status);
        text.extend_from_slice(interim.block.bytes());
        text.extend_from_slice(b"\r\n");
    }
}
