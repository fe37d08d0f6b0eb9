//! A long stored body: fragments, each lent when its turn has come.
//!
//! A client may take long for it, and the store may need the room: so few fragments are held at a
//! time, and one that has gone before its turn is asked of the origin, with all that follow it.

use std::ops::Range;

use forebay_cache::LongBody;

use super::growing::append_lent;
use super::rest::{Missing, RestOf};
use super::{Answered, Broken, Reply};
use crate::limits::LENT_FRAGMENTS_MAX;
use crate::send_queue::SendQueue;

/// An answer whose head is in the queue, and the part of a long body that follows it.
pub(crate) struct LongAnswer {
    pub(super) answered: Answered,
    pub(super) long: LongBody,
    pub(super) part: Range<u64>,
    /// Goes it in chunks, since its length was not known when it began?
    pub(super) chunked: bool,
}

/// Sends the body; the last of it stays in the queue.
///
/// # Errors
/// A fragment has gone and the origin can't stand in, or the client is gone or too slow.
pub(crate) async fn deliver_long(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    answer: LongAnswer,
    rest: &RestOf<'_>,
) -> Result<Answered, Broken> {
    let LongAnswer { answered, long, mut part, chunked } = answer;
    let client = reply.client;
    for number in long.fragments(part.clone()) {
        let piece = long.part_of(number, &part);
        if out.lent_count() >= LENT_FRAGMENTS_MAX {
            client.flush(out).await.map_err(Broken::Midway)?;
        }
        let piece_bytes = u64::from(piece.end - piece.start);
        let Some(lent) = client.worker.store.pin_fragment(&long, number, piece, client.tag())
        else {
            let missing = Missing { part, body_bytes: long.bytes(), chunked };
            Box::pin(rest.send(reply, out, &missing)).await?;
            return Ok(answered);
        };
        append_lent(out, lent, chunked);
        part.start += piece_bytes;
    }
    Ok(answered)
}
