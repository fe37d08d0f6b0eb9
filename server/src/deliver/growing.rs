//! A response that is being stored, sent to the client as it arrives.
//!
//! A slow client does not hold the memory of the growing record. When a flush has to wait for the
//! client, the parts that are queued for it are copied; it gets later parts from the stored record.

use std::future::{Future, poll_fn};
use std::pin::pin;

use bytes::Bytes;
use forebay_cache::{BodyReader, ReadEvent};
use forebay_http::framing::BodyFraming;
use forebay_http::policy::conditional::{ConditionalResult, conditional};
use forebay_http::policy::freshness::current_age;

use super::chunks::{append_piece, end_chunks};
use super::head::{Head, HeadContext, WrittenHead, can_chunk};
use super::long::{LongBodyPart, deliver_long};
use super::stored::queue_not_modified;
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
    let framing = match (meta.status, reader.body_bytes()) {
        (204, _) => BodyFraming::None,
        (_, Some(length)) => BodyFraming::Length(length),
        (_, None) => BodyFraming::Chunked,
    };
    let head = Head { status: meta.status, block, age: Some(age), framing };
    let own = |text: &mut Vec<u8>| text.extend_from_slice(own_lines.bytes());
    let WrittenHead { status, keep_alive } = head.write_with(&context, queue.text(), own);
    let is_chunked = framing == BodyFraming::Chunked && can_chunk(context.form);
    let mut delivered = Delivered { status, body_bytes: 0, keep_alive };
    let mut fragments = Vec::new();
    let mut begun = false;
    loop {
        let event = read_or_flush(client, queue, &mut reader, &mut fragments, &mut begun).await?;
        for fragment in fragments.drain(..) {
            delivered.body_bytes += fragment.len() as u64;
            append_piece(queue, fragment, is_chunked, Lender::Store);
        }
        match event {
            ReadEvent::Data => {}
            ReadEvent::Done => {
                assert_whole(framing, &delivered);
                break;
            }
            ReadEvent::Stored { long, offset } => {
                delivered.body_bytes = long.bytes();
                let part = offset..long.bytes();
                let rest = LongBodyPart { long, part, is_chunked };
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
    Ok(delivered)
}

/// Reads the bytes that have arrived; if there are none, flushes the queue before it waits.
async fn read_or_flush(
    client: &Client,
    queue: &mut SendQueue,
    reader: &mut BodyReader,
    fragments: &mut Vec<Bytes>,
    begun: &mut bool,
) -> Result<ReadEvent, DeliverError> {
    let bytes_max = READ_BYTES_MAX.min(client.worker.output_share() as u64);
    let more = pin!(poll_fn(|cx| reader.poll_fragments(cx, bytes_max, fragments)));
    if let Some(event) = poll_once(more).await {
        return Ok(event);
    }
    *begun = true;
    flush_aside(reader, client.flush(queue)).await.map_err(DeliverError::Midway)?;
    Ok(poll_fn(|cx| reader.poll_fragments(cx, bytes_max, fragments)).await)
}

/// Runs a flush. If the flush has to wait, the reader steps aside, so that the store keeps no bytes
/// for it.
async fn flush_aside<T>(reader: &BodyReader, flush: impl Future<Output = T>) -> T {
    let mut flush = pin!(flush);
    if let Some(flushed) = poll_once(flush.as_mut()).await {
        return flushed;
    }
    reader.step_aside();
    flush.await
}
