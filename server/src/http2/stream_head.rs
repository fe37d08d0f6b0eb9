//! The head of a request, on its way from the connection to the task of its stream.

use forebay_http::error::RequestError;
use forebay_http::request::RequestParts;
use forebay_http2::request::CheckedRequest;

use super::streams::RequestForm;
use super::websocket::{is_websocket, write_key};
use crate::buffers::Buffers;
use crate::parse::head_limits;
use crate::worker::Worker;

/// The head of the next request of a pipe, with its parts.
#[derive(Default)]
pub(super) struct StreamHead {
    text: Vec<u8>,
    parts: RequestParts,
    /// The length of the head, or the limit that the head exceeds; `None` if there is no next
    /// request.
    length: Option<Result<usize, RequestError>>,
}

impl StreamHead {
    /// Lets `write` write the head of the next request.
    pub(super) fn set(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>, &mut RequestParts) -> Result<usize, RequestError>,
    ) {
        self.length = Some(write(&mut self.text, &mut self.parts));
    }

    /// Whether there is a next request.
    pub(super) fn is_set(&self) -> bool {
        self.length.is_some()
    }

    /// Moves the head to `buffers`, and returns its length; `None` if there is no next request.
    ///
    /// # Errors
    /// The head exceeds a limit. Nothing was moved.
    pub(super) fn take(&mut self, buffers: &mut Buffers) -> Option<Result<usize, RequestError>> {
        let length = self.length.take()?;
        if length.is_ok() {
            buffers.input.append(&self.text);
            std::mem::swap(&mut buffers.parts, &mut self.parts);
        }
        Some(length)
    }
}

/// Writes the head of a request and its parts, and returns the length of the head. A request for a
/// WebSocket gets a key, on which the kind of its response depends.
///
/// # Errors
/// The head exceeds a limit.
pub(super) fn write_request(
    out: (&mut Vec<u8>, &mut RequestParts),
    request: CheckedRequest<'_>,
    form: &mut RequestForm,
    worker: &Worker,
) -> Result<usize, RequestError> {
    let mut head = request.write_http1_head(out);
    if request.protocol().is_some_and(is_websocket) {
        form.kind = write_key(&mut head, worker);
    }
    head.end(&head_limits(&worker.config().server))
}
