//! Sends the body of a request on a stream, as fast as the origin permits.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body;
use tokio::sync::oneshot;

use crate::fetch::upload::{OutboundBody, UploadPiece};
use crate::limits::{HTTP2_KEPT_BYTES_MAX, HTTP2_KEPT_PIECE_BYTES_MIN};

/// A request's body on its way to a stream.
pub(super) struct StreamUpload {
    body: OutboundBody,
    stream: SendStream<Bytes>,
    /// The part of the current piece that still has to be sent.
    rest: Bytes,
    /// The pieces that were taken from the body, so that a request which the origin refuses can be
    /// sent again; `None` once they are too long, or the origin has answered.
    kept: Option<VecDeque<UploadPiece>>,
    kept_bytes: usize,
    is_over: bool,
}

impl StreamUpload {
    pub(super) fn new(body: OutboundBody, stream: SendStream<Bytes>) -> StreamUpload {
        let is_over = body.is_end_stream();
        let (kept, kept_bytes) = (Some(VecDeque::new()), 0);
        StreamUpload { body, stream, rest: Bytes::new(), kept, kept_bytes, is_over }
    }

    /// Sends as much as the windows permit. Ready once the whole body is queued, or no more of it
    /// can be sent.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_over {
            if !self.rest.is_empty() {
                ready!(self.poll_rest(cx));
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => self.end_with(None),
                Some(Err(_)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    self.is_over = true;
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => {
                        let bytes = piece.len().max(HTTP2_KEPT_PIECE_BYTES_MIN);
                        self.keep(UploadPiece::Data(piece.clone()), bytes);
                        self.rest = piece;
                    }
                    Err(frame) => self.end_with(frame.into_trailers().ok()),
                },
            }
        }
        Poll::Ready(())
    }

    /// Sends a part of the current piece. Ready once some bytes are queued, or the stream is over.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.reserve_capacity(self.rest.len());
        while self.stream.capacity() == 0 {
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                None | Some(Err(_)) => {
                    self.is_over = true;
                    return Poll::Ready(());
                }
            }
        }
        let part = self.rest.split_to(self.stream.capacity().min(self.rest.len()));
        self.is_over = self.stream.send_data(part, false).is_err();
        Poll::Ready(())
    }

    fn end_with(&mut self, trailers: Option<http::HeaderMap>) {
        self.keep(UploadPiece::End(trailers.clone()), 0);
        // An error means that the stream is over, which the response reports.
        let _ = match trailers {
            None => self.stream.send_data(Bytes::new(), true),
            Some(trailers) => self.stream.send_trailers(trailers),
        };
        self.is_over = true;
    }

    fn keep(&mut self, piece: UploadPiece, bytes: usize) {
        self.kept_bytes += bytes;
        match &mut self.kept {
            Some(kept) if self.kept_bytes <= HTTP2_KEPT_BYTES_MAX => kept.push_back(piece),
            _ => self.kept = None,
        }
    }

    /// Returns the whole body, to be sent once more; `None` if a part of it is lost.
    pub(super) fn into_whole(self) -> Option<OutboundBody> {
        self.kept.map(|kept| self.body.preceded_by(kept))
    }

    /// Sends the rest of the body, until `stop` is dropped. The response may end before the body.
    pub(super) async fn finish(mut self, mut stop: oneshot::Receiver<()>) {
        self.kept = None;
        let is_sent = std::future::poll_fn(|cx| {
            let is_stopped = Pin::new(&mut stop).poll(cx).is_ready();
            match self.poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if is_stopped => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        });
        if !is_sent.await {
            self.stream.send_reset(Reason::CANCEL);
        }
    }
}
