//! Sends a stored response: the whole response, a range of it, or a 304.

use std::ops::Range;

use forebay_cache::StoredBody;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::conditional::write_fields_of_304;
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::range::{RangeDecision, byte_ranges, write_content_range};

use super::Delivered;
use super::head::{Head, HeadContext, WrittenHead};
use super::long::LongBodyPart;
use super::multipart::MultipartBody;
use super::origin_error::{is_error, queue_origin_error};
use crate::clock;
use crate::limits::INLINE_BODY_BYTES_MAX;
use crate::lookup::{Hit, SelectedPart, stored_block, stored_meta, write_strong_tag};
use crate::response::ConfirmedResponse;
use crate::send_queue::SendQueue;
use crate::transaction::Transaction;

/// Appends the response, except for a long body, whose selected part is returned. Drops the hit:
/// the queue has a copy of the body or a handle to the body, and fragments are pinned later.
pub(super) fn queue_stored(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    hit: Hit<'_>,
) -> (Delivered, Option<LongBodyPart>) {
    let (meta, block) = (&hit.stored.meta, hit.stored.block());
    let head = StoredHead { meta, block, age: hit.age, own_lines: &[] };
    queue_part(transaction, queue, &hit, &head)
}

/// Appends a response that the origin has confirmed, in the same way as [`queue_stored`].
pub(super) fn queue_confirmed(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    response: ConfirmedResponse<'_>,
) -> (Delivered, Option<LongBodyPart>) {
    let ConfirmedResponse { hit, head, own_lines } = response;
    let own_lines = own_lines.bytes();
    let merged = head.as_deref().and_then(|head| Some((head, stored_meta(head)?)));
    let head = match &merged {
        Some((head, meta)) => {
            let age = current_age(meta.initial_age_s, meta.response_time, clock::unix_seconds());
            StoredHead { meta, block: stored_block(head, meta), age, own_lines }
        }
        None => {
            let (meta, block) = (&hit.stored.meta, hit.stored.block());
            StoredHead { meta, block, age: hit.age, own_lines }
        }
    };
    queue_part(transaction, queue, &hit, &head)
}

/// The head of a stored response with the lines for one client.
struct StoredHead<'a> {
    meta: &'a StoredMeta,
    block: &'a [u8],
    age: u32,
    /// Field lines that are meant only for this client.
    own_lines: &'a [u8],
}

// RFC: 9111-3.3-3, 9110-15.3.7-2, 9110-15.3.7-4, 9110-15.3.7.1-1, 9110-14.4-6, 5861-4-2
#[inline]
fn queue_part(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    hit: &Hit<'_>,
    head: &StoredHead<'_>,
) -> (Delivered, Option<LongBodyPart>) {
    let StoredHead { meta, block, age, own_lines } = *head;
    let context = HeadContext::of(transaction);
    let SelectedPart::Body(decision) = hit.part else {
        return (queue_not_modified(&context, queue, (meta, block), age, own_lines), None);
    };
    let body = hit.stored.found.body();
    let part = hit.part.bytes(body.bytes());
    assert!(part.end <= body.bytes(), "the selected range lies within the body");
    let count = part.end - part.start;
    let status = match decision {
        RangeDecision::Whole if is_error(meta.status) => {
            match queue_origin_error(&context, queue, (meta.status, block)) {
                Some(delivered) => return (delivered, None),
                None => meta.status,
            }
        }
        RangeDecision::Whole => meta.status,
        RangeDecision::Part { .. } => 206,
        RangeDecision::Unsatisfiable => 416,
        RangeDecision::Parts => return queue_parts(transaction, queue, hit, head),
    };
    let block = block_for(status, block);
    let framing = body_framing(status, count);
    let head = Head { status, block, age: Some(age), framing };
    let WrittenHead { status, keep_alive } = head.write_with(&context, queue.text(), |text| {
        text.extend_from_slice(own_lines);
        write_content_range_line(decision, Some(body.bytes()), text);
    });
    if context.form.head_only {
        return (Delivered { status, body_bytes: 0, keep_alive }, None);
    }
    let delivered = Delivered { status, body_bytes: count, keep_alive };
    match body {
        StoredBody::Long(long) => {
            write_strong_tag(meta, block, transaction.tag);
            let known = Some(hit.stored.found.version());
            let multipart = None;
            (delivered, Some(LongBodyPart { long, known, part, is_chunked: false, multipart }))
        }
        StoredBody::Whole(_) => {
            queue_body(transaction, queue, hit, part.start as u32..part.end as u32);
            (delivered, None)
        }
    }
}

/// Appends several ranges of a stored body as multipart content; see [`queue_part`].
// RFC: 9110-15.3.7.2-1
#[cold]
fn queue_parts(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    hit: &Hit<'_>,
    head: &StoredHead<'_>,
) -> (Delivered, Option<LongBodyPart>) {
    let StoredHead { meta, block, age, own_lines } = *head;
    let body = hit.stored.found.body();
    let parts = byte_ranges(transaction.request.head.fields(), body.bytes());
    let mut parts = MultipartBody::new(parts, body.bytes(), block);
    let delivered = parts.queue_head(transaction, queue, (block, age), own_lines);
    match body {
        StoredBody::Long(long) => {
            write_strong_tag(meta, block, transaction.tag);
            let known = Some(hit.stored.found.version());
            (delivered, Some(LongBodyPart::of_parts(long, known, parts, queue)))
        }
        StoredBody::Whole(_) => {
            while let Some(part) = parts.begin_part(queue) {
                queue_body(transaction, queue, hit, part.start as u32..part.end as u32);
            }
            (delivered, None)
        }
    }
}

/// Returns the field lines of a response with this status: the stored ones, except for a 416. That
/// is not a copy of the stored response, so a cache between this server and the client must not
/// store it.
pub(super) fn block_for(status: u16, block: &[u8]) -> &[u8] {
    if status == 416 { b"cache-control: no-store\r\n" } else { block }
}

/// Appends the Content-Range line of a 206 or 416 for a body of this length.
pub(super) fn write_content_range_line(
    decision: RangeDecision,
    body_bytes: Option<u64>,
    text: &mut Vec<u8>,
) {
    if let (true, Some(bytes)) = (decision != RangeDecision::Whole, body_bytes) {
        text.extend_from_slice(b"content-range: ");
        write_content_range(decision, bytes, text);
        text.extend_from_slice(b"\r\n");
    }
}

/// Returns the framing of a body. A 204 has no body and no Content-Length (RFC 9110 §8.6).
fn body_framing(status: u16, bytes: u64) -> BodyFraming {
    if status == 204 { BodyFraming::None } else { BodyFraming::Length(bytes) }
}

/// Queues a copy of a short body, or a handle to a longer one.
fn queue_body(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    hit: &Hit<'_>,
    part: Range<u32>,
) {
    let found = &hit.stored.found;
    if part.len() > INLINE_BODY_BYTES_MAX {
        queue.push_lent(found.pin_body(part, transaction.client.tag()));
        return;
    }
    let part = part.start as usize..part.end as usize;
    queue.text().extend_from_slice(found.whole_body().get(part).unwrap_or_default());
}

/// Appends a 304 for a stored response with this metadata and these field lines. `own_lines` are
/// meant only for this client.
pub(super) fn queue_not_modified(
    context: &HeadContext<'_>,
    queue: &mut SendQueue,
    (meta, block): (&StoredMeta, &[u8]),
    age: u32,
    own_lines: &[u8],
) -> Delivered {
    let head = Head { status: 304, block: &[], age: Some(age), framing: BodyFraming::None };
    let WrittenHead { status, keep_alive } = head.write_with(context, queue.text(), |text| {
        write_fields_of_304(block, meta, text);
        text.extend_from_slice(own_lines);
    });
    Delivered { status, body_bytes: 0, keep_alive }
}
