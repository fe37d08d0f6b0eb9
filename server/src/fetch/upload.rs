//! A request body on its way to the origin: a channel of one piece between the task that reads
//! the client and hyper's connection, so that the client is read no faster than the origin takes.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use forebay_http::fields::FieldBlock;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::accept::Client;
use crate::buffers::Input;
use crate::clock;
use crate::fault::Fault;
use crate::parse::{BodyPart, RequestBody};

/// The body of a request to the origin, as hyper takes it.
pub(crate) enum Upload {
    /// No body.
    None,
    /// Pieces from [`UploadSource`].
    Stream { pieces: mpsc::Receiver<Piece>, length: Option<u64>, ended: bool },
}

/// What goes through the channel.
pub(crate) enum Piece {
    Data(Bytes),
    End(Option<HeaderMap>),
}

/// The end of the channel into which the client's body is put.
pub(crate) struct UploadSource {
    pieces: mpsc::Sender<Piece>,
    progress: UploadProgress,
}

/// When the upload last moved, in monotonic milliseconds.
#[derive(Clone)]
pub(crate) struct UploadProgress(Rc<Cell<u64>>);

/// The client's body broke off; hyper closes the origin's connection, so that the origin can't
/// take a part for the whole.
#[derive(Debug)]
pub(crate) struct UploadBroken;

impl Upload {
    /// A channel for a body of `length` bytes, or of unknown length.
    pub(crate) fn channel(length: Option<u64>) -> (UploadSource, Upload, UploadProgress) {
        let (sender, receiver) = mpsc::channel(1);
        let progress = UploadProgress(Rc::new(Cell::new(clock::monotonic_ms())));
        let source = UploadSource { pieces: sender, progress: progress.clone() };
        (source, Upload::Stream { pieces: receiver, length, ended: false }, progress)
    }
}

impl UploadSource {
    /// Passes on some bytes; false if the origin takes no more.
    pub(crate) async fn data(&self, bytes: Bytes) -> bool {
        self.progress.0.set(clock::monotonic_ms());
        let sent = self.pieces.send(Piece::Data(bytes)).await.is_ok();
        self.progress.0.set(clock::monotonic_ms());
        sent
    }

    /// The body is whole. A source that is dropped without this breaks the request off.
    pub(crate) async fn end(self, trailers: Option<HeaderMap>) {
        self.progress.0.set(clock::monotonic_ms());
        // An origin that answered early takes no more, which its answer shows already.
        let _ = self.pieces.send(Piece::End(trailers)).await;
    }
}

impl UploadProgress {
    /// Milliseconds since the upload last moved.
    pub(crate) fn quiet_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.0.get())
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = UploadBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadBroken>>> {
        let Upload::Stream { pieces, ended, .. } = &mut *self else {
            return Poll::Ready(None);
        };
        if *ended {
            return Poll::Ready(None);
        }
        pieces.poll_recv(cx).map(|piece| match piece {
            Some(Piece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End(trailers)) => {
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
            Upload::None => true,
            Upload::Stream { ended, .. } => *ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Upload::None => SizeHint::with_exact(0),
            Upload::Stream { length: Some(length), .. } => SizeHint::with_exact(*length),
            Upload::Stream { .. } => SizeHint::default(),
        }
    }
}

impl fmt::Display for UploadBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client's request body broke off")
    }
}

impl std::error::Error for UploadBroken {}

/// Reads a client's body and hands it to the origin's connection, piece by piece.
///
/// # Errors
/// The body is malformed or too long, or its client gone or too slow.
pub(crate) async fn send_body(
    client: &Client,
    body: &mut RequestBody,
    input: &mut Input,
    source: UploadSource,
) -> Result<(), Fault> {
    loop {
        match body.next(client, input).await? {
            BodyPart::Data(bytes) => {
                if !source.data(bytes).await {
                    return Ok(());
                }
            }
            BodyPart::End(trailers) => {
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
