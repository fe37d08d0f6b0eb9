//! Sends a long stored body. Each of its fragments is pinned only shortly before it is sent.
//!
//! A client may read the body slowly, and the store may need the memory, so only a few fragments
//! are pinned at a time. Missing fragments are fetched in units of `range_unit_bytes`: if a
//! fragment is missing when its turn comes, its unit is fetched, and stored again. If that is not
//! possible, the rest of the part is requested from the origin, and not stored.

use std::ops::Range;

use forebay_cache::{Follower, FragmentReader, LongBody, ReadEvent, RecordVersion};

use super::DeliverError;
use super::chunks::{append_lent, append_piece};
use super::growing::{flush_aside, read_or_flush};
use super::multipart::MultipartBody;
use super::streamed::next_or_flush;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{
    FragmentFault, FragmentSource, MissingRange, OriginPart, fetch_ahead, forget_changed,
    obtain_fragment, resume,
};
use crate::limits::{FRAGMENT_TRIES_MAX, LENT_FRAGMENTS_MAX};
use crate::send_queue::{Lender, SendQueue};
use crate::transaction::Transaction;

/// A part of a long body that is still to be sent. The head of the response is in the queue.
pub(crate) struct LongBodyPart {
    pub(super) long: LongBody,
    /// The version of the stored head; `None` if the body has just arrived.
    pub(super) known: Option<RecordVersion>,
    pub(super) part: Range<u64>,
    /// Whether the body is sent in chunks, because its length was unknown at the start.
    pub(super) is_chunked: bool,
    /// The parts after this one, if the response has several.
    pub(super) multipart: Option<Box<MultipartBody>>,
}

impl LongBodyPart {
    /// Returns the parts of a body, and appends the head of the first part to `queue`.
    pub(super) fn of_parts(
        long: LongBody,
        known: Option<RecordVersion>,
        mut parts: MultipartBody,
        queue: &mut SendQueue,
    ) -> LongBodyPart {
        let part = parts.begin_part(queue).unwrap_or_default();
        LongBodyPart { long, known, part, is_chunked: false, multipart: Some(Box::new(parts)) }
    }

    /// Queues the first fragments, as many as are in memory and one connection may pin at a time.
    /// Returns the part that is left, if any.
    pub(super) fn queue_ready(
        mut self,
        transaction: &Transaction<'_>,
        queue: &mut SendQueue,
    ) -> Option<LongBodyPart> {
        let (store, tag) = (transaction.store(), transaction.client.tag());
        while self.part.start < self.part.end && queue.lent_count() < LENT_FRAGMENTS_MAX {
            let number = self.long.fragments(self.part.clone()).start;
            let piece = self.long.part_of(number, &self.part);
            let piece_bytes = u64::from(piece.end - piece.start);
            let Some(lent) = store.pin_fragment(&self.long, number, piece, tag) else { break };
            append_lent(queue, lent, self.is_chunked);
            self.part.start += piece_bytes;
        }
        let is_queued = self.part.start >= self.part.end && self.multipart.is_none();
        (!is_queued).then_some(self)
    }
}

/// Sends a part of a body and the parts that follow it. The last bytes stay in the queue.
///
/// # Errors
/// A fragment is gone and the origin cannot replace it, or the client is gone or too slow.
pub(super) async fn deliver_long(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    body: LongBodyPart,
) -> Result<(), DeliverError> {
    let LongBodyPart { long, known, part, is_chunked, multipart } = body;
    let source = LongBodySource { long, known, is_chunked };
    deliver_part(transaction, queue, source, part).await?;
    let Some(mut parts) = multipart else { return Ok(()) };
    while let Some(part) = parts.begin_part(queue) {
        deliver_part(transaction, queue, source, part).await?;
    }
    Ok(())
}

/// The properties that all parts of a long body share; see [`LongBodyPart`].
#[derive(Clone, Copy)]
struct LongBodySource {
    long: LongBody,
    known: Option<RecordVersion>,
    is_chunked: bool,
}

async fn deliver_part(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    source: LongBodySource,
    mut part: Range<u64>,
) -> Result<(), DeliverError> {
    let LongBodySource { long, is_chunked, .. } = source;
    let client = transaction.client;
    let mut ahead = None;
    while part.start < part.end {
        let number = long.fragments(part.clone()).start;
        let piece = long.part_of(number, &part);
        if queue.lent_count() >= LENT_FRAGMENTS_MAX {
            client.flush(queue).await.map_err(DeliverError::Midway)?;
        }
        let piece_bytes = u64::from(piece.end - piece.start);
        match transaction.store().pin_fragment(&long, number, piece, client.tag()) {
            Some(lent) => {
                append_lent(queue, lent, is_chunked);
                part.start += piece_bytes;
            }
            None => {
                let missing = FragmentGap { source, part: part.clone(), number };
                let missing = deliver_missing(transaction, queue, missing, &mut ahead);
                match Box::pin(missing).await? {
                    Some(sent_to) => part.start = sent_to,
                    None => return Ok(()),
                }
            }
        }
    }
    Ok(())
}

/// A part of a body that begins with a missing fragment.
struct FragmentGap {
    source: LongBodySource,
    part: Range<u64>,
    number: u32,
}

/// Sends a missing fragment and the fragments that arrive with it. Returns the offset in the body
/// of the next byte to send, or `None` if the part was sent to its end. `ahead` receives the fetch
/// of the next unit.
async fn deliver_missing(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    missing: FragmentGap,
    ahead: &mut Option<Follower>,
) -> Result<Option<u64>, DeliverError> {
    let FragmentGap { source, part, number } = missing;
    let LongBodySource { long, known, is_chunked } = source;
    // The queue is flushed first, because queued parts must neither wait for the origin nor pin
    // memory of the store until the origin answers.
    transaction.client.flush(queue).await.map_err(DeliverError::Midway)?;
    for _ in 0..FRAGMENT_TRIES_MAX {
        match obtain_fragment(transaction, &long, number).await {
            // The fragment may be evicted again before it is pinned.
            Ok(FragmentSource::Stored) => {
                let piece = long.part_of(number, &part);
                let tag = transaction.client.tag();
                if let Some(lent) = transaction.store().pin_fragment(&long, number, piece, tag) {
                    let sent_to = part.start + lent.len() as u64;
                    append_lent(queue, lent, is_chunked);
                    return Ok(Some(sent_to));
                }
            }
            Ok(FragmentSource::Arriving(arriving)) => {
                if arriving.bytes.end < part.end {
                    let next = long.fragments(arriving.bytes.end..part.end).start;
                    *ahead = fetch_ahead(transaction, &long, next);
                }
                let sent_to =
                    deliver_arriving(transaction, queue, arriving, &part, is_chunked).await?;
                if sent_to > part.start {
                    return Ok(Some(sent_to));
                }
            }
            Err(fault) => {
                if let (FragmentFault::Changed, Some(known)) = (fault, known) {
                    forget_changed(transaction, known);
                }
                break;
            }
        }
    }
    let missing = MissingRange { part, body_bytes: long.bytes() };
    deliver_rest(transaction, queue, missing, is_chunked).await.map(|()| None)
}

/// Sends the bytes of a part that arrive with the fragments of a unit. Returns the offset in the
/// body of the next byte to send; the store may have the bytes from there on.
async fn deliver_arriving(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    arriving: FragmentReader,
    part: &Range<u64>,
    is_chunked: bool,
) -> Result<u64, DeliverError> {
    let client = transaction.client;
    let FragmentReader { mut reader, bytes } = arriving;
    let (mut at, mut sent_to) = (bytes.start, part.start);
    let end = part.end.min(bytes.end);
    let mut pieces = Vec::new();
    while sent_to < end {
        let event = read_or_flush(client, queue, &mut reader, &mut pieces, &mut true).await?;
        for piece in pieces.drain(..) {
            let start = at;
            at += piece.len() as u64;
            let wanted = sent_to.clamp(start, at)..end.clamp(start, at);
            if wanted.start < wanted.end {
                let wanted_in = (wanted.start - start) as usize..(wanted.end - start) as usize;
                sent_to = wanted.end;
                append_piece(queue, piece.slice(wanted_in), is_chunked, Lender::Store);
            }
        }
        if event != ReadEvent::Data {
            break;
        }
        flush_aside(&reader, client.flush_if_full(queue)).await.map_err(DeliverError::Midway)?;
    }
    Ok(sent_to)
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
