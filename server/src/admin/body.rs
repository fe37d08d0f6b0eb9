//! Bodies of admin responses: complete, or streamed line by line.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::mpsc;

use super::places::ActiveRequest;
use crate::limits::ADMIN_PIECES_MAX;

/// A response of the admin interface.
pub(super) type AdminResponse = Response<AdminBody>;

/// The body of a response of the admin interface.
pub(super) enum AdminBody {
    Whole(Full<Bytes>),
    /// Lines, streamed until the [`LineSender`] is dropped.
    Lines {
        lines: mpsc::Receiver<Bytes>,
        active: Option<ActiveRequest>,
    },
}

impl AdminBody {
    /// Counts the connection as busy until the end of a streamed body.
    pub(super) fn keep_active(self, request: ActiveRequest) -> AdminBody {
        match self {
            AdminBody::Whole(body) => AdminBody::Whole(body),
            AdminBody::Lines { lines, .. } => {
                request.note_progress();
                AdminBody::Lines { lines, active: Some(request) }
            }
        }
    }
}

/// Sends the lines of a streamed response.
pub(super) struct LineSender(mpsc::Sender<Bytes>);

/// The error for a client that has closed its connection.
pub(super) struct ClientGone;

impl LineSender {
    /// Returns a streamed response, and the sender of its lines. Each line is a JSON object,
    /// unless the caller replaces the content type.
    pub(super) fn answer() -> (LineSender, AdminResponse) {
        let (lines, written) = mpsc::channel(ADMIN_PIECES_MAX);
        let mut answer = Response::new(AdminBody::Lines { lines: written, active: None });
        let value = HeaderValue::from_static("application/x-ndjson");
        answer.headers_mut().insert(header::CONTENT_TYPE, value);
        (LineSender(lines), answer)
    }

    /// Queues complete lines; waits while too many earlier lines are still to be sent.
    ///
    /// # Errors
    /// [`ClientGone`]: the client has closed its connection.
    pub(super) async fn write(&self, lines: String) -> Result<(), ClientGone> {
        self.0.send(lines.into()).await.map_err(|_| ClientGone)
    }

    /// Waits until the client has closed its connection.
    pub(super) async fn closed(&self) {
        self.0.closed().await;
    }

    /// Queues one JSON object as a line.
    ///
    /// # Errors
    /// [`ClientGone`]: the client has closed its connection.
    pub(super) async fn write_json(&self, value: &Value) -> Result<(), ClientGone> {
        self.write(format!("{value}\n")).await
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            AdminBody::Whole(body) => Pin::new(body).poll_frame(context),
            AdminBody::Lines { lines, active } => {
                let piece = lines.poll_recv(context);
                match (&*active, &piece) {
                    // The client has to wait for the server, which has not made the next lines yet.
                    (Some(request), Poll::Pending) => request.note_work(),
                    (Some(request), Poll::Ready(_)) => request.note_progress(),
                    (None, _) => {}
                }
                piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AdminBody::Whole(body) => body.is_end_stream(),
            AdminBody::Lines { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AdminBody::Whole(body) => body.size_hint(),
            AdminBody::Lines { .. } => SizeHint::default(),
        }
    }
}

pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> AdminResponse {
    typed(status, "text/plain; charset=utf-8", text.into())
}

pub(super) fn json_answer(status: StatusCode, value: &Value) -> AdminResponse {
    typed(status, "application/json", format!("{value}\n").into())
}

pub(super) fn typed(status: StatusCode, content_type: &'static str, body: Bytes) -> AdminResponse {
    let mut answer = Response::new(AdminBody::Whole(Full::new(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
