//! An origin's body becomes a growing record.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use forebay_cache::{Fill, NoReaders};
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::counters::Counter;
use crate::fetch::{OriginBody, OriginPart, PermittedBy, Preempted};
use crate::limits::{STORE_TRIES_MAX, STORE_TRY_MS, WINDOW_ASK_MS};
use crate::poll_once::poll_once;

/// How a fill ended, if not stored.
enum Unstored {
    /// The origin's answer is not whole, which its body has told.
    Broken,
    NoReaders,
}

/// Appends the body to the record until it is whole, and counts what became of it.
///
/// A piece is published only once the next one, the end or a fault is known or has to be waited
/// for, so that an overlong answer is seen before its last piece is shown to anybody.
pub(super) async fn fill(filling: Fill, mut body: OriginBody, bytes_max: u64) {
    let worker = std::rc::Rc::clone(&body.worker);
    match append_all(filling, &mut body, bytes_max).await {
        Ok(true) => worker.count(Counter::Stored),
        Ok(false) | Err(Unstored::NoReaders) => worker.count(Counter::NotStored),
        Err(Unstored::Broken) => worker.count(Counter::FillsAborted),
    }
    worker.notify_stored();
}

async fn append_all(
    mut filling: Fill,
    body: &mut OriginBody,
    bytes_max: u64,
) -> Result<bool, Unstored> {
    let mut held = Bytes::new();
    loop {
        let part = {
            let permitted_by = body.permitted_by();
            let mut next = pin!(body.next());
            match poll_once(next.as_mut()).await {
                Some(part) => part,
                None => {
                    append(&mut filling, &mut held, bytes_max, &permitted_by).await?;
                    next.await
                }
            }
        };
        match part.map_err(|_| Unstored::Broken)? {
            OriginPart::Data(piece) => {
                append(&mut filling, &mut held, bytes_max, &body.permitted_by()).await?;
                held = piece;
                body.worker.notify_stored();
            }
            OriginPart::End(_) => {
                append(&mut filling, &mut held, bytes_max, &body.permitted_by()).await?;
                return Ok(finish(filling).await);
            }
        }
    }
}

async fn append(
    filling: &mut Fill,
    held: &mut Bytes,
    bytes_max: u64,
    permitted_by: &PermittedBy,
) -> Result<(), Unstored> {
    let piece = std::mem::take(held);
    if piece.is_empty() {
        return Ok(());
    }
    if filling.bytes() + piece.len() as u64 > bytes_max {
        filling.give_up_storing(clock::monotonic_ms());
    }
    let nobody = |NoReaders| Unstored::NoReaders;
    room(filling, permitted_by).await.map_err(nobody)?;
    filling.append(&piece).map_err(nobody)
}

/// Ends the body; was it stored? For room that others are about to give up it waits a little.
async fn finish(mut filling: Fill) -> bool {
    for _ in 0..STORE_TRIES_MAX {
        match filling.try_finish() {
            Ok(is_stored) => return is_stored,
            Err(same) => filling = *same,
        }
        sleep(Duration::from_millis(STORE_TRY_MS)).await;
    }
    filling.finish()
}

/// Waits for room; asked again at times, since the store has no clock to see who is too slow. If
/// another request waits for the connection to the origin, the slowest reader is left behind.
async fn room(filling: &mut Fill, permitted_by: &PermittedBy) -> Result<(), NoReaders> {
    loop {
        let room = async {
            loop {
                let room = poll_fn(|cx| filling.poll_room(cx, clock::monotonic_ms()));
                if let Ok(room) = timeout(Duration::from_millis(WINDOW_ASK_MS), room).await {
                    return room;
                }
            }
        };
        // There is room as soon as the slowest takes something.
        match permitted_by.holding(room, || 0).await {
            Ok(room) => return room,
            Err(Preempted) => filling.cut_slowest(),
        }
    }
}
