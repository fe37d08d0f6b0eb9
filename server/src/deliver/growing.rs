//! Sends a response to the client while it is being stored.
//!
//! A slow client does not hold the memory of the growing record. When a flush has to wait for the
//! client, the parts that are queued for the client are copied; the client gets later parts from
//! the stored record.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::task::Context;

use bytes::Bytes;
use forebay_cache::{BodyReader, ReadEvent};
use forebay_http::fields::Fields;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::conditional::{ConditionalResult, conditional};
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::range::{RangeDecision, byte_ranges, range};

use super::chunks::{append_piece, end_chunks};
use super::head::{Head, HeadContext, WrittenHead, can_chunk};
use super::long::{LongBodyPart, deliver_long};
use super::multipart::MultipartBody;
use super::stored::{block_for, queue_not_modified, write_content_range_line};
use super::{DeliverError, Delivered, assert_whole};
use crate::accept::Client;
use crate::clock;
use crate::fault::Fault;
use crate::limits::READ_BYTES_MAX;
use crate::lookup::{stored_block, write_strong_tag};
use crate::poll_once::poll_once;
use crate::response::GrowingResponse;
use crate::send_queue::{Lender, SendQueue};
use crate::transaction::Transaction;

/// Sends the growing record to its end.
///
/// # Errors
/// The origin's response broke off, or the client is gone or too slow.
pub(super) async fn deliver_growing(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    response: GrowingResponse,
) -> Result<Delivered, DeliverError> {
    let GrowingResponse { mut reader, meta, own_lines } = response;
    let block = stored_block(reader.head(), &meta);
    write_strong_tag(&meta, block, transaction.tag);
    let transaction = &*transaction;
    let (client, context) = (transaction.client, HeadContext::of(transaction));
    let age = current_age(meta.initial_age_s, meta.response_time, clock::unix_seconds());
    let fields = transaction.request.head.fields();
    if conditional(fields, &meta, block) == ConditionalResult::NotModified {
        let own = own_lines.bytes();
        let delivered = queue_not_modified(&context, queue, (&meta, block), age, own);
        reader.leave_served();
        return Ok(delivered);
    }
    let begin = queue.mark();
    let mut part = SelectedBytes::of(fields, &meta, block, reader.body_bytes());
    let (mut delivered, framing) =
        part.queue_head(transaction, queue, (&meta, block, age), own_lines.bytes());
    let is_chunked = framing == BodyFraming::Chunked && can_chunk(context.form);
    // A response with several parts has a known length, which includes the heads of the parts.
    let is_counted = part.decision == RangeDecision::Parts;
    let mut fragments = Vec::new();
    let mut begun = false;
    while !part.is_sent() {
        let event = read_or_flush(client, queue, &mut reader, &mut fragments, &mut begun).await?;
        for fragment in fragments.drain(..) {
            let sent = part.append(queue, fragment, is_chunked);
            delivered.body_bytes += if is_counted { 0 } else { sent };
        }
        match event {
            ReadEvent::Data => {}
            ReadEvent::Done => {
                assert_whole(framing, &delivered);
                break;
            }
            ReadEvent::Stored { long, .. } => {
                let rest = part.rest(long.bytes());
                delivered.body_bytes += if is_counted { 0 } else { rest.end - rest.start };
                let multipart = part.multipart.take();
                let rest = LongBodyPart { long, known: None, part: rest, is_chunked, multipart };
                Box::pin(deliver_long(transaction, queue, rest)).await?;
                break;
            }
            ReadEvent::Aborted if begun => return Err(DeliverError::Midway(Fault::OriginBroke)),
            ReadEvent::Aborted => {
                queue.truncate(begin);
                return Err(DeliverError::Before(Fault::OriginBroke));
            }
        }
        let flushed = flush_aside(&reader, client.flush_if_full(queue)).await;
        begun |= flushed.map_err(DeliverError::Midway)?;
    }
    if is_chunked {
        end_chunks(queue, None);
    }
    if part.is_sent() {
        reader.leave_served();
    }
    Ok(delivered)
}

/// The bytes of an arriving body that were selected for the client.
struct SelectedBytes {
    decision: RangeDecision,
    /// The length of the whole body, if it is known.
    body_bytes: Option<u64>,
    /// The selected bytes that have not been sent. The end is `u64::MAX` if the length of the body
    /// is unknown.
    left: Range<u64>,
    /// The number of bytes that have arrived.
    arrived: u64,
    /// The parts that follow the current one, in the ascending order in which they arrive.
    multipart: Option<Box<MultipartBody>>,
}

impl SelectedBytes {
    /// Appends the head of the response. Also returns the framing of its body.
    fn queue_head(
        &mut self,
        transaction: &Transaction<'_>,
        queue: &mut SendQueue,
        (meta, block, age): (&StoredMeta, &[u8], u32),
        own_lines: &[u8],
    ) -> (Delivered, BodyFraming) {
        if let Some(parts) = &mut self.multipart {
            let delivered = parts.queue_head(transaction, queue, (block, age), own_lines);
            self.left = parts.begin_part(queue).unwrap_or_default();
            return (delivered, BodyFraming::Length(delivered.body_bytes));
        }
        let context = HeadContext::of(transaction);
        let (status, framing) = (self.status(meta.status), self.framing(meta.status));
        let head = Head { status, block: block_for(status, block), age: Some(age), framing };
        let WrittenHead { status, keep_alive } = head.write_with(&context, queue.text(), |text| {
            text.extend_from_slice(own_lines);
            write_content_range_line(self.decision, self.body_bytes, text);
        });
        (Delivered { status, body_bytes: 0, keep_alive }, framing)
    }

    fn framing(&self, status: u16) -> BodyFraming {
        match (status, self.length()) {
            (204, _) => BodyFraming::None,
            (_, Some(length)) => BodyFraming::Length(length),
            (_, None) => BodyFraming::Chunked,
        }
    }

    /// Returns the status for the selected bytes of a response with the status `whole`.
    fn status(&self, whole: u16) -> u16 {
        match self.decision {
            RangeDecision::Whole => whole,
            RangeDecision::Part { .. } | RangeDecision::Parts => 206,
            RangeDecision::Unsatisfiable => 416,
        }
    }

    fn of(
        request: Fields<'_>,
        meta: &StoredMeta,
        block: &[u8],
        body_bytes: Option<u64>,
    ) -> SelectedBytes {
        // No range can be selected while the length is unknown.
        let decision = body_bytes.map(|bytes| range(request, meta, block, bytes));
        let parts = match (decision, body_bytes) {
            (Some(RangeDecision::Parts), Some(bytes)) => {
                let mut parts = byte_ranges(request, bytes);
                parts.sort_unstable_by_key(|part| part.start);
                Some(Box::new(MultipartBody::new(parts, bytes, block)))
            }
            _ => None,
        };
        let left = match decision {
            Some(RangeDecision::Part { first, last }) => first..last + 1,
            // Of several parts, the first is selected once its head has been queued.
            Some(RangeDecision::Unsatisfiable | RangeDecision::Parts) => 0..0,
            Some(RangeDecision::Whole) | None => 0..body_bytes.unwrap_or(u64::MAX),
        };
        let decision = decision.unwrap_or(RangeDecision::Whole);
        SelectedBytes { decision, body_bytes, left, arrived: 0, multipart: parts }
    }

    /// Returns the number of bytes to send, if it is known.
    fn length(&self) -> Option<u64> {
        (self.left.end < u64::MAX).then(|| self.left.end - self.left.start)
    }

    /// Whether a part of the body was selected and all of it was sent. For a whole body this is
    /// false: its end is read from the growing record, because the body may be incomplete.
    fn is_sent(&self) -> bool {
        self.decision != RangeDecision::Whole && self.left.is_empty() && self.multipart.is_none()
    }

    /// Appends the selected bytes of the next piece of the body, and returns their number.
    fn append(&mut self, queue: &mut SendQueue, piece: Bytes, is_chunked: bool) -> u64 {
        let start = self.arrived;
        self.arrived += piece.len() as u64;
        let mut sent = 0;
        loop {
            let within = |offset: u64| (offset.clamp(start, self.arrived) - start) as usize;
            let selected = piece.slice(within(self.left.start)..within(self.left.end));
            self.left.start = self.left.start.max(self.arrived).min(self.left.end);
            sent += selected.len() as u64;
            append_piece(queue, selected, is_chunked, Lender::Store);
            if !self.left.is_empty() {
                return sent;
            }
            let Some(parts) = &mut self.multipart else { return sent };
            match parts.begin_part(queue) {
                Some(next) => self.left = next,
                None => self.multipart = None,
            }
        }
    }

    /// Returns the selected bytes that have not been sent, in a body of this length.
    fn rest(&self, body_bytes: u64) -> Range<u64> {
        self.left.start..self.left.end.min(body_bytes)
    }
}

/// Reads the bytes that have arrived. If there are none, sets `begun`, flushes the queue, and waits
/// for the next bytes.
pub(super) async fn read_or_flush(
    client: &Client,
    queue: &mut SendQueue,
    reader: &mut BodyReader,
    fragments: &mut Vec<Bytes>,
    begun: &mut bool,
) -> Result<ReadEvent, DeliverError> {
    let mut read = |cx: &mut Context<'_>, reader: &mut BodyReader, held_bytes: usize| {
        // Each poll computes the share again. Many readers may wait for the same bytes; a share
        // from before the wait would not count the bytes that the other readers have taken.
        let share = client.worker.output.share().saturating_sub(held_bytes);
        let bytes_max = READ_BYTES_MAX.min(share as u64);
        reader.poll_fragments(cx, bytes_max, fragments)
    };
    let held_bytes = queue.held_bytes();
    if let Some(event) = poll_once(pin!(poll_fn(|cx| read(cx, reader, held_bytes)))).await {
        return Ok(event);
    }
    *begun = true;
    flush_aside(reader, client.flush(queue)).await.map_err(DeliverError::Midway)?;
    Ok(poll_fn(|cx| read(cx, reader, 0)).await)
}

/// Runs a flush. If the flush has to wait, the reader steps aside: the store need not keep bytes in
/// memory only for this client.
pub(super) async fn flush_aside<T>(reader: &BodyReader, flush: impl Future<Output = T>) -> T {
    let mut flush = pin!(flush);
    if let Some(flushed) = poll_once(flush.as_mut()).await {
        return flushed;
    }
    reader.step_aside();
    flush.await
}
