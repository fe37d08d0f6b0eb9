//! Moves the body of an origin's response into the store.

use std::pin::pin;
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
use crate::limits::FILL_GRACE_MS;
use crate::poll_once::poll_once;
use crate::store::BodyWriter;

/// The reason that the end of a body was not reached.
enum FillError {
    /// The origin's response is not whole; [`OriginBody`] has already reported the fault.
    Broken,
    /// The record is not going to be stored, and it has no readers.
    NoReaders,
}

impl From<NoReaders> for FillError {
    fn from(NoReaders: NoReaders) -> FillError {
        FillError::NoReaders
    }
}

/// Measures how fast an origin sends a body: a slow body must not take the memory of arriving
/// responses for long.
///
/// A leaky bucket: waiting for the origin fills it, and bytes empty it by the time that they need
/// at the least rate.
pub(super) struct FillPace {
    rate_min: u64,
    deadline_ms: u64,
    behind_ms: u64,
    is_too_slow: bool,
}

impl FillPace {
    /// The pace of a body that begins to arrive now.
    pub(super) fn new(settings: &RouteSettings) -> FillPace {
        FillPace {
            rate_min: settings.fill_rate_min,
            deadline_ms: clock::monotonic_ms().saturating_add(u64::from(settings.fill_ms_max)),
            behind_ms: 0,
            is_too_slow: false,
        }
    }

    fn waited(&mut self, ms: u64) {
        self.behind_ms = self.behind_ms.saturating_add(ms);
    }

    /// Whether the body has become too slow with these bytes; true at most once.
    fn is_too_slow_after(&mut self, bytes: u64) -> bool {
        if let Some(ms) = bytes.saturating_mul(1000).checked_div(self.rate_min) {
            self.behind_ms = self.behind_ms.saturating_sub(ms);
        } else {
            self.behind_ms = 0;
        }
        let is_slow = self.behind_ms >= FILL_GRACE_MS || clock::monotonic_ms() >= self.deadline_ms;
        is_slow && self.mark_too_slow()
    }

    /// The time until the body is too slow if nothing arrives; long if it is so already.
    fn left(&self) -> Duration {
        let ms = match self.is_too_slow {
            true => u64::from(u32::MAX),
            false => {
                let grace_ms = match self.rate_min {
                    0 => u64::MAX,
                    _ => FILL_GRACE_MS.saturating_sub(self.behind_ms),
                };
                grace_ms.min(self.deadline_ms.saturating_sub(clock::monotonic_ms()))
            }
        };
        Duration::from_millis(ms)
    }

    /// Notes that the body is too slow. Returns false if that was noted before.
    fn mark_too_slow(&mut self) -> bool {
        !std::mem::replace(&mut self.is_too_slow, true)
    }
}

/// Writes the whole body into its growing record, and counts the outcome.
pub(super) async fn fill_record(writer: BodyWriter, mut body: OriginBody, pace: FillPace) {
    let worker = Rc::clone(&body.worker);
    match write_all(writer, &mut body, pace).await {
        Ok(true) => worker.count(Counter::Stored),
        Ok(false) | Err(FillError::NoReaders) => worker.count(Counter::NotStored),
        Err(FillError::Broken) => worker.count(Counter::FillsAborted),
    }
    worker.notify_stored();
}

/// Writes the body; returns whether it was stored.
///
/// The last piece that arrived is held back until the next piece, the end or a fault is known, or
/// until waiting is necessary. So an overlong response is recognised before readers see its last
/// piece.
async fn write_all(
    mut writer: BodyWriter,
    body: &mut OriginBody,
    mut pace: FillPace,
) -> Result<bool, FillError> {
    let worker = Rc::clone(&body.worker);
    let mut held = Bytes::new();
    loop {
        let part = {
            let permitted_by = body.permitted_by();
            let mut next = pin!(body.next());
            match poll_once(next.as_mut()).await {
                Some(part) => part,
                None => {
                    append(&mut writer, std::mem::take(&mut held), &permitted_by).await?;
                    let since_ms = clock::monotonic_ms();
                    let part = match timeout(pace.left(), next.as_mut()).await {
                        Ok(part) => part,
                        Err(_) => {
                            if pace.mark_too_slow() {
                                worker.count(Counter::FillsTooSlow);
                                writer.stop_storing();
                            }
                            next.await
                        }
                    };
                    pace.waited(clock::monotonic_ms().saturating_sub(since_ms));
                    part
                }
            }
        };
        match part.map_err(|_| FillError::Broken)? {
            OriginPart::Data(piece) => {
                if pace.is_too_slow_after(piece.len() as u64) {
                    worker.count(Counter::FillsTooSlow);
                    writer.stop_storing();
                }
                let last = std::mem::replace(&mut held, piece);
                append(&mut writer, last, &body.permitted_by()).await?;
                body.worker.notify_stored();
            }
            OriginPart::End(_) => {
                append(&mut writer, held, &body.permitted_by()).await?;
                return Ok(writer.finish().await);
            }
        }
    }
}

/// Appends a piece once there is room. If another request then waits for the connection to the
/// origin, the slowest reader is cut off, which makes room.
async fn append(
    writer: &mut BodyWriter,
    piece: Bytes,
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
    writer.append(&piece)
}
