//! The body of a response over HTTP/2.

use h2::RecvStream;
use tokio::sync::oneshot;

use super::connection::StreamPlace;
use super::failure::body_fault;
use crate::fault::Fault;
use crate::fetch::answer::{LONG_TRAILERS, OriginPart, checked_trailers};

/// The body of a response. Dropping it before its end resets the stream.
pub(crate) struct Http2Body {
    pub(super) stream: RecvStream,
    /// The bytes that were returned last. The origin may send more once the next piece is asked
    /// for.
    pub(super) unreleased_bytes: usize,
    /// The place of the stream; `None` after the end of the body.
    pub(super) place: Option<StreamPlace>,
    /// Whether the end of the connection broke the body off, and had failed another exchange.
    pub(super) is_known_loss: bool,
    /// Whether the response may have content; if not, any byte is a fault.
    pub(super) may_have_content: bool,
    /// Dropping it ends the upload of the request.
    pub(super) _upload: oneshot::Sender<()>,
}

impl Http2Body {
    /// Whether the body has ended, and has no trailers.
    pub(in crate::fetch) fn is_empty(&self) -> bool {
        self.stream.is_end_stream()
    }

    /// Makes content a fault, because the response must not have any (RFC 9110 §6.4.1).
    pub(in crate::fetch) fn forbid_content(&mut self) {
        self.may_have_content = false;
    }

    /// Whether the failure of the body says nothing new about the origin.
    pub(in crate::fetch) fn is_known_loss(&self) -> bool {
        self.is_known_loss
    }

    fn failed(&mut self, error: &h2::Error) -> Fault {
        let connection = self.place.as_ref().map(|place| &place.connection);
        self.is_known_loss = connection.is_some_and(|connection| connection.note_lost(error));
        body_fault(error)
    }

    /// Returns the next piece, which is never empty. If the future is dropped, no byte is lost.
    ///
    /// # Errors
    /// The stream was reset, the connection ended, the content has another length than announced,
    /// or the trailers are too large.
    pub(in crate::fetch) async fn next(&mut self) -> Result<OriginPart, Fault> {
        let released = std::mem::take(&mut self.unreleased_bytes);
        // An error means that the stream has ended, which the next piece reports.
        let _ = self.stream.flow_control().release_capacity(released);
        while let Some(piece) = self.stream.data().await {
            let piece = piece.map_err(|error| self.failed(&error))?;
            if piece.is_empty() {
                continue;
            }
            if !self.may_have_content {
                return Err(Fault::OriginAnswer("the origin sent content that must not be there"));
            }
            self.unreleased_bytes = piece.len();
            return Ok(OriginPart::Data(piece));
        }
        let trailers = self.stream.trailers().await.map_err(|error| self.failed(&error))?;
        let place = self.place.take().inspect(StreamPlace::note_complete);
        let stream = self.stream.stream_id().as_u32();
        if place.is_some_and(|place| place.connection.meter.has_long_block(stream)) {
            return Err(Fault::OriginAnswer(LONG_TRAILERS));
        }
        let trailers = trailers.map(|fields| checked_trailers(&fields)).transpose()?;
        Ok(OriginPart::End(trailers))
    }
}
