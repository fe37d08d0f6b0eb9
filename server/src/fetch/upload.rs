//! A request body on its way to the origin: a channel of one piece between the task that reads from
//! the client and hyper's connection, so that the client is read no faster than the origin takes.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use forebay_http::fields::FieldBlock;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::accept::Client;
use crate::clock;
use crate::fault::Fault;
use crate::parse::{BodyPart, RequestBody};

/// The body of a request to the origin, as hyper takes it.
pub(super) enum OutboundBody {
    /// No body.
    None,
    /// Pieces from [`UploadSource`].
    Stream { pieces: mpsc::Receiver<UploadPiece>, length: Option<u64>, ended: bool },
}

/// An item of the channel.
pub(super) enum UploadPiece {
    Data(Bytes),
    End(Option<HeaderMap>),
}

/// The end of the channel that takes the client's body.
struct UploadSource {
    pieces: mpsc::Sender<UploadPiece>,
    progress: UploadProgress,
}

/// How far the upload has come.
#[derive(Clone)]
pub(super) struct UploadProgress(Rc<ProgressCells>);

struct ProgressCells {
    /// When the upload last moved, in monotonic milliseconds.
    moved_ms: Cell<u64>,
    /// Whether all of the body was read from the client.
    is_whole: Cell<bool>,
}

/// The client's body broke off. hyper closes the origin's connection, so that the origin cannot
/// take a part for the whole.
#[derive(Debug)]
pub(super) struct UploadBroken;

impl OutboundBody {
    /// A channel for a body of `length` bytes, or of unknown length.
    fn channel(length: Option<u64>) -> (UploadSource, OutboundBody) {
        let (sender, receiver) = mpsc::channel(1);
        let moved_ms = Cell::new(clock::monotonic_ms());
        let progress =
            UploadProgress(Rc::new(ProgressCells { moved_ms, is_whole: Cell::new(false) }));
        let source = UploadSource { pieces: sender, progress };
        (source, OutboundBody::Stream { pieces: receiver, length, ended: false })
    }
}

impl UploadSource {
    /// Passes on some bytes; returns false if the origin takes no more.
    async fn data(&self, bytes: Bytes) -> bool {
        self.progress.note_moved();
        let sent = self.pieces.send(UploadPiece::Data(bytes)).await.is_ok();
        self.progress.note_moved();
        sent
    }

    /// Ends a whole body. A source that is dropped without this breaks the request off.
    async fn end(self, trailers: Option<HeaderMap>) {
        self.progress.note_moved();
        // An origin that takes no more has answered early.
        let _ = self.pieces.send(UploadPiece::End(trailers)).await;
    }
}

impl UploadProgress {
    /// Milliseconds since the upload last moved.
    pub(super) fn quiet_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.0.moved_ms.get())
    }

    fn note_moved(&self) {
        self.0.moved_ms.set(clock::monotonic_ms());
    }
}

impl Body for OutboundBody {
    type Data = Bytes;
    type Error = UploadBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadBroken>>> {
        let OutboundBody::Stream { pieces, ended, .. } = &mut *self else {
            return Poll::Ready(None);
        };
        if *ended {
            return Poll::Ready(None);
        }
        pieces.poll_recv(cx).map(|piece| match piece {
            Some(UploadPiece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(UploadPiece::End(trailers)) => {
                *ended = true;
                trailers.map(|fields| Ok(Frame::trailers(fields)))
            }
            None => {
                *ended = true;
                Some(Err(UploadBroken))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            OutboundBody::None => true,
            OutboundBody::Stream { ended, .. } => *ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            OutboundBody::None => SizeHint::with_exact(0),
            OutboundBody::Stream { length: Some(length), .. } => SizeHint::with_exact(*length),
            OutboundBody::Stream { .. } => SizeHint::default(),
        }
    }
}

impl fmt::Display for UploadBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client's request body broke off")
    }
}

impl std::error::Error for UploadBroken {}

/// A request's body on its way to the origin. It is polled together with all work on the response,
/// and moves as far as the origin takes it.
pub(crate) struct BodyUpload<'t> {
    work: Pin<Box<dyn Future<Output = Result<(), Fault>> + 't>>,
    outcome: Option<Result<(), Fault>>,
    progress: UploadProgress,
}

impl<'t> BodyUpload<'t> {
    /// Begins to read `body` into a channel, whose other end is returned.
    pub(super) fn begin(
        client: &'t Client,
        body: RequestBody<'t>,
        length: Option<u64>,
    ) -> (BodyUpload<'t>, OutboundBody) {
        let (source, upload) = OutboundBody::channel(length);
        let progress = source.progress.clone();
        let work = Box::pin(send_body(client, body, source));
        (BodyUpload { work, outcome: None, progress }, upload)
    }

    /// How far the upload has come.
    pub(super) fn progress(&self) -> UploadProgress {
        self.progress.clone()
    }

    /// Whether all of the body was read from the client.
    pub(crate) fn is_whole(&self) -> bool {
        self.progress.0.is_whole.get()
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.outcome.is_none()
            && let Poll::Ready(outcome) = self.work.as_mut().poll(cx)
        {
            self.outcome = Some(outcome);
        }
    }

    /// Waits for the response.
    ///
    /// # Errors
    /// Those of `answer`; or the body failed, which ends the exchange: no origin can answer a part
    /// of a request.
    pub(super) async fn until_answer<T>(
        &mut self,
        answer: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let mut answer = pin!(answer);
        poll_fn(|cx| {
            self.poll(cx);
            match self.outcome {
                Some(Err(fault)) => Poll::Ready(Err(fault)),
                _ => answer.as_mut().poll(cx),
            }
        })
        .await
    }

    /// Runs `work` to its end.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// Reads a client's body and passes it to the origin's connection, piece by piece.
///
/// # Errors
/// The body is malformed or too long, or its client gone or too slow.
async fn send_body(
    client: &Client,
    mut body: RequestBody<'_>,
    source: UploadSource,
) -> Result<(), Fault> {
    loop {
        match body.next(client).await? {
            BodyPart::Data(bytes) => {
                if !source.data(bytes).await {
                    return Ok(());
                }
            }
            BodyPart::End(trailers) => {
                source.progress.0.is_whole.set(true);
                source.end(trailers.as_ref().map(header_map)).await;
                return Ok(());
            }
        }
    }
}

fn header_map(trailers: &FieldBlock) -> HeaderMap {
    let pairs = trailers.fields();
    let pairs = pairs.iter().filter_map(|field| {
        let name = HeaderName::from_bytes(field.name).ok()?;
        Some((name, HeaderValue::from_bytes(field.value).ok()?))
    });
    pairs.collect()
}
