//! A long stored body: fragments, each lent when its turn has come.
//!
//! A client may take long for it, and the store may need the room: so few fragments are held at a
//! time, and one that has gone before its turn ends the answer. Parts of two versions are never
//! put together.

use std::ops::Range;

use forebay_cache::LongBody;

use super::{Answered, Broken, Reply};
use crate::fault::Fault;
use crate::limits::LENT_FRAGMENTS_MAX;
use crate::out::Out;

/// An answer whose head is in the queue, and the part of a long body that follows it.
pub(crate) struct LongAnswer {
    pub(super) answered: Answered,
    pub(super) long: LongBody,
    pub(super) part: Range<u64>,
}

/// Sends the body; the last of it stays in the queue.
///
/// # Errors
/// A fragment has gone, or the client is gone or too slow.
pub(crate) async fn serve_long(
    reply: &Reply<'_>,
    out: &mut Out,
    answer: LongAnswer,
) -> Result<Answered, Broken> {
    let LongAnswer { answered, long, part } = answer;
    let client = reply.client;
    for number in long.fragments(part.clone()) {
        let piece = long.part_of(number, &part);
        if out.lent_count() >= LENT_FRAGMENTS_MAX {
            client.flush(out).await.map_err(Broken::Midway)?;
        }
        let Some(lent) = client.worker.store.lend_fragment(&long, number, piece, client.tag())
        else {
            return Err(Broken::Midway(Fault::HitCut));
        };
        out.lent(lent);
    }
    Ok(answered)
}
