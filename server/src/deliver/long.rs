//! A long stored body: fragments, each of which is pinned shortly before it is sent.
//!
//! A client may read the body slowly, and the store may need the memory, so only a few fragments
//! are pinned at a time. If a fragment has been evicted before its turn, the origin is asked for
//! that fragment and for the rest of the body.

use std::ops::Range;

use forebay_cache::LongBody;

use super::DeliverError;
use super::chunks::{append_lent, append_piece};
use super::streamed::next_or_flush;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{MissingRange, OriginPart, resume};
use crate::limits::LENT_FRAGMENTS_MAX;
use crate::send_queue::{Lender, SendQueue};
use crate::transaction::Transaction;

/// A part of a long body that is still to be sent. The head of the response is in the queue.
pub(crate) struct LongBodyPart {
    pub(super) long: LongBody,
    pub(super) part: Range<u64>,
    /// Whether the body is sent in chunks, because its length was unknown at the start.
    pub(super) is_chunked: bool,
}

/// Sends a part of a body. The last bytes stay in the queue.
///
/// # Errors
/// A fragment is gone and the origin cannot replace it, or the client is gone or too slow.
pub(super) async fn deliver_long(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    body: LongBodyPart,
) -> Result<(), DeliverError> {
    let LongBodyPart { long, mut part, is_chunked } = body;
    let client = transaction.client;
    for number in long.fragments(part.clone()) {
        let piece = long.part_of(number, &part);
        if queue.lent_count() >= LENT_FRAGMENTS_MAX {
            client.flush(queue).await.map_err(DeliverError::Midway)?;
        }
        let piece_bytes = u64::from(piece.end - piece.start);
        let Some(lent) = transaction.store().pin_fragment(&long, number, piece, client.tag())
        else {
            let missing = MissingRange { part, body_bytes: long.bytes() };
            return Box::pin(deliver_rest(transaction, queue, missing, is_chunked)).await;
        };
        append_lent(queue, lent, is_chunked);
        part.start += piece_bytes;
    }
    Ok(())
}

/// The error if neither the store nor the origin has the remaining part of the body.
const CUT: DeliverError = DeliverError::Midway(Fault::HitCut);

/// Gets the missing part of a body from the origin, and sends it. The last bytes stay in the queue.
async fn deliver_rest(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    missing: MissingRange,
    is_chunked: bool,
) -> Result<(), DeliverError> {
    let client = transaction.client;
    if transaction.tag.is_empty() {
        return Err(CUT);
    }
    // The queue is flushed first, because queued parts must neither wait for the origin nor pin
    // memory of the store until the origin answers.
    client.flush(queue).await.map_err(DeliverError::Midway)?;
    let mut body = resume(transaction, &missing).await.ok_or(CUT)?;
    client.worker.count(Counter::HitsContinued);
    let mut left_bytes = missing.part.end - missing.part.start;
    loop {
        match next_or_flush(client, queue, &mut body, &mut true).await {
            Ok(OriginPart::Data(piece)) => {
                left_bytes = left_bytes.checked_sub(piece.len() as u64).ok_or(CUT)?;
                append_piece(queue, piece, is_chunked, Lender::Origin);
            }
            Ok(OriginPart::End(_)) if left_bytes == 0 => return Ok(()),
            Ok(OriginPart::End(_)) => return Err(CUT),
            Err(DeliverError::Before(fault) | DeliverError::Midway(fault)) => {
                return Err(DeliverError::Midway(fault));
            }
        }
        let permitted_by = body.permitted_by();
        let flushed = permitted_by.sending(client, client.flush_if_full(queue)).await;
        flushed.map_err(DeliverError::Midway)?;
    }
}
