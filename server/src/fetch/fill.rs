//! Moves the body of an origin's response into the store.

use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use forebay_cache::NoReaders;

use super::answer::{OriginBody, OriginPart, PermittedBy};
use super::preempt::Preempted;
use crate::counters::Counter;
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

/// Writes the whole body into its growing record, and counts the outcome.
pub(super) async fn fill_record(writer: BodyWriter, mut body: OriginBody) {
    let worker = Rc::clone(&body.worker);
    match write_all(writer, &mut body).await {
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
async fn write_all(mut writer: BodyWriter, body: &mut OriginBody) -> Result<bool, FillError> {
    let mut held = Bytes::new();
    loop {
        let part = {
            let permitted_by = body.permitted_by();
            let mut next = pin!(body.next());
            match poll_once(next.as_mut()).await {
                Some(part) => part,
                None => {
                    append(&mut writer, std::mem::take(&mut held), &permitted_by).await?;
                    next.await
                }
            }
        };
        match part.map_err(|_| FillError::Broken)? {
            OriginPart::Data(piece) => {
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
