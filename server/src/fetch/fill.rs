//! Moves the body of an origin's response into the store.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use forebay_cache::NoReaders;
use tokio::time::timeout;

use super::answer::{OriginBody, OriginPart, PermittedBy};
use super::preempt::Preempted;
use crate::clock;
use crate::config::RouteSettings;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{COMPRESS_FLUSH_MS, COMPRESS_TURN_BYTES, FILL_GRACE_MS};
use crate::pace::{LeastRate, Pace};
use crate::poll_once::poll_once;
use crate::store::{BodyEncoder, BodyWriter};
use crate::trace::{RequestStep, StoreStep, Trace};
use crate::worker::Worker;

/// The reason why the body did not reach its end.
enum FillError {
    /// The origin's response is not whole, and [`OriginBody`] has already reported the fault; or
    /// the encoder failed.
    Broken,
    /// The record will not be stored, and it has no readers.
    NoReaders,
}

impl From<NoReaders> for FillError {
    fn from(NoReaders: NoReaders) -> FillError {
        FillError::NoReaders
    }
}

/// Measures how fast an origin sends a body that is being stored. A slow body must not occupy the
/// memory for arriving responses for long.
pub(super) struct FillPace {
    rate: LeastRate,
    pace: Pace,
    deadline_ms: u64,
    is_too_slow: bool,
}

impl FillPace {
    /// Creates the pace of a body that starts to arrive now.
    pub(super) fn new(settings: &RouteSettings) -> FillPace {
        FillPace {
            rate: LeastRate::new(settings.fill_rate_min, FILL_GRACE_MS),
            pace: Pace::default(),
            deadline_ms: clock::monotonic_ms().saturating_add(u64::from(settings.fill_ms_max)),
            is_too_slow: false,
        }
    }

    /// Waits for the next part of the body. Stops storing the body once it is too slow.
    async fn next(
        &mut self,
        mut next: Pin<&mut impl Future<Output = Result<OriginPart, Fault>>>,
        worker: &Worker,
        writer: &mut BodyWriter,
    ) -> Result<OriginPart, Fault> {
        if !self.is_too_slow && writer.is_storing() {
            let left_ms = self.deadline_ms.saturating_sub(clock::monotonic_ms());
            let left_ms = self.pace.wait(self.rate).unwrap_or(0).min(left_ms);
            if let Ok(part) = timeout(Duration::from_millis(left_ms), next.as_mut()).await {
                return part;
            }
            self.stop_storing(worker, writer);
        }
        next.await
    }

    /// Records that `bytes` bytes have arrived. Stops storing the body if it has been arriving for
    /// too long.
    fn arrived(&mut self, bytes: usize, worker: &Worker, writer: &mut BodyWriter) {
        self.pace.moved(bytes as u64, self.rate);
        let is_late = clock::monotonic_ms() >= self.deadline_ms;
        if !self.is_too_slow && is_late && writer.is_storing() {
            self.stop_storing(worker, writer);
        }
    }

    fn stop_storing(&mut self, worker: &Worker, writer: &mut BodyWriter) {
        self.is_too_slow = true;
        worker.count(Counter::FillsTooSlow);
        writer.stop_storing();
    }
}

/// The growing record of a body, and the encoder through which the body passes.
pub(super) struct BodySink {
    pub(super) writer: BodyWriter,
    pub(super) encoder: Option<BodyEncoder>,
}

impl BodySink {
    pub(super) fn plain(writer: BodyWriter) -> BodySink {
        BodySink { writer, encoder: None }
    }

    /// Writes a piece of the origin's body.
    async fn put(&mut self, piece: &[u8], permitted_by: &PermittedBy) -> Result<(), FillError> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(append(&mut self.writer, piece, permitted_by).await?);
        };
        for slice in piece.chunks(COMPRESS_TURN_BYTES) {
            let encoded = encoder.encode(slice).await.map_err(|_| FillError::Broken)?;
            append_all(&mut self.writer, &encoded, permitted_by).await?;
        }
        Ok(())
    }

    /// Returns how long the encoder may still hold back bytes that have arrived; `None` if it holds
    /// none back.
    fn flush_wait(&self) -> Option<Duration> {
        let since_ms = self.encoder.as_ref()?.behind_since_ms()?;
        let flush_ms = since_ms.saturating_add(COMPRESS_FLUSH_MS);
        Some(Duration::from_millis(flush_ms.saturating_sub(clock::monotonic_ms())))
    }

    /// Writes the bytes that the encoder holds back if it has held them back for long enough.
    async fn flush_due(&mut self, permitted_by: &PermittedBy) -> Result<(), FillError> {
        match self.flush_wait() {
            Some(Duration::ZERO) => self.flush_behind(permitted_by).await,
            _ => Ok(()),
        }
    }

    /// Writes the bytes that the encoder holds back.
    async fn flush_behind(&mut self, permitted_by: &PermittedBy) -> Result<(), FillError> {
        let is_behind = |encoder: &&mut BodyEncoder| encoder.behind_since_ms().is_some();
        let Some(encoder) = self.encoder.as_mut().filter(is_behind) else {
            return Ok(());
        };
        let encoded = encoder.flush().await.map_err(|_| FillError::Broken)?;
        append_all(&mut self.writer, &encoded, permitted_by).await
    }

    /// Ends the body; returns whether it was stored.
    async fn finish(mut self, permitted_by: &PermittedBy) -> Result<bool, FillError> {
        if let Some(encoder) = self.encoder.take() {
            let rest = encoder.finish().await.map_err(|_| FillError::Broken)?;
            append_all(&mut self.writer, &rest, permitted_by).await?;
        }
        Ok(self.writer.finish().await)
    }
}

/// Writes the whole body into its growing record, and reports the outcome.
pub(super) async fn fill_record(sink: BodySink, body: OriginBody, pace: FillPace, trace: &Trace) {
    fill(sink, body, pace, (Counter::Stored, Counter::NotStored), trace).await;
}

/// Writes a part of a body into its growing record, as [`fill_record`] does with a whole body.
pub(super) async fn fill_part(writer: BodyWriter, body: OriginBody, pace: FillPace, trace: &Trace) {
    let counters = (Counter::PartsStored, Counter::PartsNotStored);
    fill(BodySink::plain(writer), body, pace, counters, trace).await;
}

async fn fill(
    sink: BodySink,
    mut body: OriginBody,
    pace: FillPace,
    (stored, not_stored): (Counter, Counter),
    trace: &Trace,
) {
    let worker = Rc::clone(&body.worker);
    let (counter, step) = match write_all(sink, &mut body, pace).await {
        Ok(true) => (stored, StoreStep::Stored),
        Ok(false) | Err(FillError::NoReaders) => (not_stored, StoreStep::GivenUp),
        Err(FillError::Broken) => (Counter::FillsAborted, StoreStep::BrokenOff),
    };
    worker.count(counter);
    trace.step(|| RequestStep::Store(step));
    worker.notify_stored();
}

/// Writes the body; returns whether it was stored.
///
/// The last piece that arrived is held back until the next piece, the end or a fault arrives, or
/// until the task has to wait. So if the response turns out to be broken within the same read, the
/// fault is noticed before readers see that piece.
// RFC: 9111-3.1-3, 9111-3.3-2
async fn write_all(
    mut sink: BodySink,
    body: &mut OriginBody,
    mut pace: FillPace,
) -> Result<bool, FillError> {
    let worker = Rc::clone(&body.worker);
    let mut held = Bytes::new();
    loop {
        match next_or_put(&mut sink, body, &mut pace, &mut held).await? {
            OriginPart::Data(piece) => {
                pace.arrived(piece.len(), &worker, &mut sink.writer);
                let last = std::mem::replace(&mut held, piece);
                sink.put(&last, &body.permitted_by()).await?;
                sink.flush_due(&body.permitted_by()).await?;
                body.worker.notify_stored();
            }
            OriginPart::End(_) => {
                sink.put(&held, &body.permitted_by()).await?;
                return sink.finish(&body.permitted_by()).await;
            }
        }
    }
}

/// Waits for the next part of the body. If the part has not arrived yet, writes the piece that is
/// `held` back first.
async fn next_or_put(
    sink: &mut BodySink,
    body: &mut OriginBody,
    pace: &mut FillPace,
    held: &mut Bytes,
) -> Result<OriginPart, FillError> {
    let worker = Rc::clone(&body.worker);
    let permitted_by = body.permitted_by();
    let part = match body.takes_turns() {
        true => {
            let arrived = poll_once(pin!(body.next())).await;
            match arrived {
                Some(part) => part,
                // Such a body has no encoder, which could hold back bytes.
                None => {
                    sink.put(&std::mem::take(held), &permitted_by).await?;
                    pace.next(pin!(body.next()), &worker, &mut sink.writer).await
                }
            }
        }
        false => {
            let mut next = pin!(body.next());
            match poll_once(next.as_mut()).await {
                Some(part) => part,
                None => {
                    sink.put(&std::mem::take(held), &permitted_by).await?;
                    let soon = match sink.flush_wait() {
                        Some(wait) => timeout(wait, next.as_mut()).await.ok(),
                        None => None,
                    };
                    match soon {
                        Some(part) => part,
                        None => {
                            sink.flush_behind(&permitted_by).await?;
                            pace.next(next.as_mut(), &worker, &mut sink.writer).await
                        }
                    }
                }
            }
        }
    };
    part.map_err(|_| FillError::Broken)
}

/// Appends a piece as soon as the record has room for it. If there is no room, and another request
/// waits for a permit of the origin, cuts off the slowest reader to make room.
async fn append(
    writer: &mut BodyWriter,
    piece: &[u8],
    permitted_by: &PermittedBy,
) -> Result<(), NoReaders> {
    if piece.is_empty() {
        return Ok(());
    }
    writer.announce(piece.len());
    loop {
        match permitted_by.holding(writer.room(), || 0).await {
            Ok(room) => break room?,
            Err(Preempted) => writer.cut_slowest(),
        }
    }
    writer.append(piece)
}

/// Appends bytes that an encoder has released, in pieces that fit into the growing record.
async fn append_all(
    writer: &mut BodyWriter,
    bytes: &[u8],
    permitted_by: &PermittedBy,
) -> Result<(), FillError> {
    for piece in bytes.chunks(COMPRESS_TURN_BYTES) {
        append(writer, piece, permitted_by).await?;
    }
    Ok(())
}
