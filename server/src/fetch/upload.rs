//! Forwards a request body to the origin, through a channel between the task that reads from the
//! client and hyper's connection. The channel holds one piece, so the client is read no faster than
//! the origin reads.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use forebay_http::fields::FieldBlock;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::origins::OriginPool;
use super::preempt::{Preempted, SlowWatch};
use super::upload_room::TakenRoom;
use crate::accept::Client;
use crate::clock;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{CHUNKED_PAUSE_MS, UPLOAD_PAUSE_MS};
use crate::parse::{BodyPart, RequestBody};

/// The body of a request to the origin, in the form that hyper reads.
pub(super) enum OutboundBody {
    /// The request has no body.
    None,
    /// Pieces that [`UploadSource`] sends.
    Stream {
        /// Pieces that were taken from the channel before, and are sent once more.
        again: VecDeque<UploadPiece>,
        pieces: mpsc::Receiver<UploadPiece>,
        length: Option<u64>,
        ended: bool,
        progress: UploadProgress,
    },
}

/// An item of the channel between [`UploadSource`] and [`OutboundBody`].
pub(super) enum UploadPiece {
    Data(Bytes),
    End(Option<HeaderMap>),
}

/// The sending end of the channel, for pieces of the client's body.
struct UploadSource {
    pieces: mpsc::Sender<UploadPiece>,
    /// Ready once the exchange has a permit.
    begun: oneshot::Receiver<()>,
    progress: UploadProgress,
}

/// The progress of an upload, which the upload and the exchange share.
#[derive(Clone)]
pub(super) struct UploadProgress(Rc<ProgressCells>);

struct ProgressCells {
    /// Tells the upload to begin, once the exchange has a permit.
    begin: Cell<Option<oneshot::Sender<()>>>,
    /// The pool whose permit the exchange holds.
    pool: RefCell<Option<Rc<OriginPool>>>,
    /// The time at which the upload last made progress, in monotonic milliseconds.
    moved_ms: Cell<u64>,
    /// Whether the upload waits for the client.
    awaits_client: Cell<bool>,
    /// Whether all of the body was read from the client.
    is_whole: Cell<bool>,
    /// The failure because of which the origin does not get the whole body.
    failure: Cell<Option<Fault>>,
}

/// The error that ends the body of a request whose client broke it off. hyper then closes the
/// connection to the origin, so that the origin does not take the incomplete body for a whole one.
#[derive(Debug)]
pub(super) struct UploadBroken;

impl OutboundBody {
    /// Creates a channel for a body of `length` bytes, or of unknown length.
    fn channel(length: Option<u64>) -> (UploadSource, OutboundBody) {
        let (sender, receiver) = mpsc::channel(1);
        let (begin, begun) = oneshot::channel();
        let progress = UploadProgress(Rc::new(ProgressCells {
            begin: Cell::new(Some(begin)),
            pool: RefCell::default(),
            moved_ms: Cell::new(clock::monotonic_ms()),
            awaits_client: Cell::new(false),
            is_whole: Cell::new(false),
            failure: Cell::default(),
        }));
        let source = UploadSource { pieces: sender, begun, progress: progress.clone() };
        let (again, ended) = (VecDeque::new(), false);
        (source, OutboundBody::Stream { again, pieces: receiver, length, ended, progress })
    }

    /// Returns the body with `pieces` in front of those that have not been taken from it.
    pub(super) fn preceded_by(mut self, mut pieces: VecDeque<UploadPiece>) -> OutboundBody {
        if let OutboundBody::Stream { again, ended, .. } = &mut self {
            pieces.append(again);
            *again = pieces;
            *ended = false;
        }
        self
    }
}

impl UploadSource {
    /// Sends some bytes to the origin; returns false if the origin accepts no further bytes.
    async fn data(&self, bytes: Bytes) -> bool {
        self.progress.note_moved();
        let sent = self.pieces.send(UploadPiece::Data(bytes)).await.is_ok();
        self.progress.note_moved();
        sent
    }

    /// Marks the body as complete. Dropping the source without this call breaks off the request.
    async fn end(self, trailers: Option<HeaderMap>) {
        self.progress.note_moved();
        // Sending fails if the origin has answered early and accepts no further bytes.
        let _ = self.pieces.send(UploadPiece::End(trailers)).await;
    }
}

impl UploadProgress {
    /// Lets the upload begin, or lets it continue with a permit of another pool.
    pub(super) fn begin(&self, pool: &Rc<OriginPool>) {
        *self.0.pool.borrow_mut() = Some(Rc::clone(pool));
        if let Some(begin) = self.0.begin.take() {
            self.note_moved();
            // Sending fails if the client has left, because then no upload waits.
            let _ = begin.send(());
        }
    }

    /// Returns the milliseconds since the upload last made progress.
    pub(super) fn quiet_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.0.moved_ms.get())
    }

    /// Whether the upload waits for the client: the origin has been given all that has arrived.
    pub(super) fn awaits_client(&self) -> bool {
        self.0.awaits_client.get()
    }

    /// Returns the failure because of which the origin does not get the whole body.
    pub(super) fn failure(&self) -> Option<Fault> {
        self.0.failure.get()
    }

    /// Records a failure, unless an earlier one is recorded.
    fn note_failure(&self, fault: Fault) {
        self.0.failure.set(self.failure().or(Some(fault)));
    }

    /// Runs `work`, which waits for a client while the exchange holds a permit: see
    /// [`OriginPool::holding`].
    async fn holding<T>(
        &self,
        watch: &mut SlowWatch,
        work: impl Future<Output = T>,
        moved: impl Fn() -> u64,
    ) -> Result<T, Preempted> {
        let pool = self.0.pool.borrow().clone();
        self.0.awaits_client.set(true);
        let done = match pool {
            Some(pool) => pool.holding(watch, work, moved).await,
            None => Ok(work.await),
        };
        self.0.awaits_client.set(false);
        done
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
        let OutboundBody::Stream { again, pieces, ended, progress, .. } = &mut *self else {
            return Poll::Ready(None);
        };
        if *ended {
            return Poll::Ready(None);
        }
        let piece = match again.pop_front() {
            Some(piece) => Poll::Ready(Some(piece)),
            None => pieces.poll_recv(cx),
        };
        piece.map(|piece| match piece {
            Some(UploadPiece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(UploadPiece::End(trailers)) => {
                *ended = true;
                trailers.map(|fields| Ok(Frame::trailers(fields)))
            }
            None => {
                *ended = true;
                progress.note_failure(Fault::RequestBody);
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

/// The upload of a request's body to the origin. It is polled together with the work on the
/// response, and proceeds as fast as the origin reads.
pub(crate) struct BodyUpload<'t> {
    work: Pin<Box<dyn Future<Output = Result<(), Fault>> + 't>>,
    outcome: Option<Result<(), Fault>>,
    progress: UploadProgress,
}

impl<'t> BodyUpload<'t> {
    /// Starts to pass `body` through a new channel, and returns the receiving end of the channel.
    /// `first` is the part of the body that has already been read.
    pub(super) fn begin(
        client: &'t Client,
        first: FirstPart,
        body: RequestBody<'t>,
        length: Option<u64>,
    ) -> (BodyUpload<'t>, OutboundBody) {
        let (source, upload) = OutboundBody::channel(length);
        let progress = source.progress.clone();
        progress.0.is_whole.set(first.end.is_some());
        let work = Box::pin(send_body(client, first, body, source));
        (BodyUpload { work, outcome: None, progress }, upload)
    }

    /// Returns a handle to the progress of the upload.
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
            if let Err(fault) = outcome {
                self.progress.note_failure(fault);
            }
            self.outcome = Some(outcome);
        }
    }

    /// Runs the upload until the future `answer` returns the response.
    ///
    /// # Errors
    /// The errors of `answer`, or a failure of the request body. Such a failure ends the exchange,
    /// because the origin cannot answer an incomplete request.
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

    /// Runs `work` to its end, and the upload at the same time.
    pub(crate) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// Waits until `work`, which waits for an origin, is done. The time restarts whenever the upload of
/// the request makes progress.
///
/// # Errors
/// `late`, or [`Fault::TooSlow`] if the origin may still be waiting for the rest of the request,
/// because the client does not send it.
pub(super) async fn wait_for_origin<T>(
    work: impl Future<Output = T>,
    limit_ms: u64,
    upload: Option<&UploadProgress>,
    late: Fault,
) -> Result<T, Fault> {
    let mut work = pin!(work);
    let mut wait_ms = limit_ms;
    loop {
        if let Ok(done) = timeout(Duration::from_millis(wait_ms), &mut work).await {
            return Ok(done);
        }
        let quiet_ms = upload.map_or(limit_ms, UploadProgress::quiet_ms);
        if quiet_ms >= limit_ms {
            return Err(match upload {
                Some(upload) if upload.awaits_client() => Fault::TooSlow,
                _ => late,
            });
        }
        wait_ms = limit_ms - quiet_ms;
    }
}

/// The part of a body that is read before the exchange has a permit, so that a slow client holds no
/// permit while it sends.
#[derive(Default)]
pub(super) struct FirstPart {
    bytes: Vec<u8>,
    /// Set if the body has ended; contains its trailers, if it has any.
    end: Option<Option<FieldBlock>>,
    /// Reserves the memory for the bytes.
    room: Option<TakenRoom>,
}

impl FirstPart {
    /// Reads until the body ends, `bytes_max` bytes have arrived, or the client pauses. A client
    /// may pause because it waits for a response to the part that it has sent. Stops if there is no
    /// more room for the client's network. Reads nothing if the client waits for a 100.
    ///
    /// # Errors
    /// See [`RequestBody::next`].
    pub(super) async fn read(
        client: &Client,
        body: &mut RequestBody<'_>,
        length: Option<u64>,
        bytes_max: u32,
    ) -> Result<FirstPart, Fault> {
        let mut first = FirstPart::default();
        let bytes_max = length.map_or(bytes_max, |length| {
            u32::try_from(length).map_or(bytes_max, |length| length.min(bytes_max))
        });
        if bytes_max == 0 || body.awaits_continue() {
            return Ok(first);
        }
        let room = first.room.insert(client.worker.upload_room.enter(client.network()));
        let pause_ms = if length.is_some() { UPLOAD_PAUSE_MS } else { CHUNKED_PAUSE_MS };
        loop {
            let Ok(part) = timeout(Duration::from_millis(pause_ms), body.next(client)).await else {
                body.pause(client);
                break;
            };
            match part? {
                BodyPart::Data(bytes) => {
                    first.bytes.extend_from_slice(&bytes);
                    if !room.take(bytes.len() as u64) {
                        client.worker.count(Counter::UploadsUnbuffered);
                        break;
                    }
                }
                BodyPart::End(trailers) => {
                    first.end = Some(trailers);
                    break;
                }
            }
            // A body whose length is known and reached can end without a further read.
            let count = first.bytes.len() as u64;
            if count >= u64::from(bytes_max) && length != Some(count) {
                break;
            }
        }
        Ok(first)
    }
}

/// Passes a client's body to the origin's connection, piece by piece, once the exchange has a
/// permit.
///
/// # Errors
/// The body is malformed or too long, the client is gone or too slow, or the client was slow while
/// another request waited for the permit.
async fn send_body(
    client: &Client,
    first: FirstPart,
    mut body: RequestBody<'_>,
    mut source: UploadSource,
) -> Result<(), Fault> {
    if (&mut source.begun).await.is_err() {
        // The exchange has ended without a permit.
        return Ok(());
    }
    let FirstPart { bytes, end, room } = first;
    if !bytes.is_empty() && !source.data(bytes.into()).await {
        return Ok(());
    }
    drop(room);
    if let Some(trailers) = end {
        source.end(trailers.as_ref().map(header_map)).await;
        return Ok(());
    }
    let mut watch = SlowWatch::new(client.network());
    let moved = || client.received_bytes();
    // The client should not have to wait for a 100 of the origin (RFC 9110 §10.1.1), because many
    // origins send none.
    let waiting = body.until_continued(client);
    let continued = source.progress.holding(&mut watch, waiting, moved).await;
    continued.map_err(|Preempted| Fault::GaveWay)??;
    loop {
        if source.pieces.reserve().await.is_err() {
            return Ok(());
        }
        let part = source.progress.holding(&mut watch, body.next(client), moved).await;
        match part.map_err(|Preempted| Fault::GaveWay)?? {
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
