//! A stored response as an answer: whole, a range of it, or 304.

use std::ops::Range;

use forebay_cache::StoredBody;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::conditional::write_fields_of_304;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::range::{RangeDecision, write_content_range};

use super::head::{Head, Written};
use super::long::LongAnswer;
use super::{Answered, Reply};
use crate::limits::INLINE_BODY_BYTES_MAX;
use crate::lookup::{Hit, SelectedPart, write_strong_tag};
use crate::send_queue::SendQueue;

/// How far an answer has come without waiting.
pub(crate) enum Begun {
    /// All of it stands in the queue.
    Whole(Answered),
    /// Its head does; its body is long.
    Long(LongAnswer),
}

/// Appends the answer. The stored response is let go with this: what is still to be sent of it was
/// lent, or will be. `tag` receives what names its version, if its body is long.
pub(crate) fn deliver_stored(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    hit: Hit<'_>,
    tag: &mut Vec<u8>,
) -> Begun {
    let Reply { form, cache, rules, .. } = *reply;
    let (meta, block) = (&hit.stored.meta, hit.stored.block());
    let decision = match hit.part {
        SelectedPart::NotModified => {
            return Begun::Whole(not_modified(reply, out, (meta, block), hit.age));
        }
        SelectedPart::Body(decision) => decision,
    };
    let body = hit.stored.found.body();
    let part = hit.part.bytes(body.bytes());
    let count = part.end - part.start;
    let status = match decision {
        RangeDecision::Whole => meta.status,
        RangeDecision::Part { .. } => 206,
        RangeDecision::Unsatisfiable => 416,
    };
    // A 416 is no copy of the response, and must not be taken for one by a cache before us.
    let block = if status == 416 { b"cache-control: no-store\r\n" } else { block };
    let framing = body_framing(status, count);
    let head = Head {
        status,
        reason: None,
        block,
        age: Some(hit.age),
        framing,
        cache,
        rules: Some(rules),
    };
    let Written { status, keep_alive } = head.write_with(out.text(), form, |text| {
        if decision != RangeDecision::Whole {
            text.extend_from_slice(b"content-range: ");
            write_content_range(decision, body.bytes(), text);
            text.extend_from_slice(b"\r\n");
        }
    });
    if form.head_only {
        return Begun::Whole(Answered { status, body_bytes: 0, keep_alive });
    }
    let answered = Answered { status, body_bytes: count, keep_alive };
    match body {
        StoredBody::Long(long) => {
            write_strong_tag(meta, block, tag);
            Begun::Long(LongAnswer { answered, long, part, chunked: false })
        }
        StoredBody::Whole(_) => {
            append_body(reply, out, &hit, part.start as u32..part.end as u32);
            Begun::Whole(answered)
        }
    }
}

/// 204 has no body and no Content-Length (RFC 9110 §8.6).
fn body_framing(status: u16, bytes: u64) -> BodyFraming {
    if status == 204 { BodyFraming::None } else { BodyFraming::Length(bytes) }
}

/// A little is copied; more is lent.
fn append_body(reply: &Reply<'_>, out: &mut SendQueue, hit: &Hit<'_>, part: Range<u32>) {
    let found = &hit.stored.found;
    if part.len() > INLINE_BODY_BYTES_MAX {
        out.lent(found.pin_body(part, reply.client.tag()));
        return;
    }
    let part = part.start as usize..part.end as usize;
    out.text().extend_from_slice(found.whole_body().get(part).unwrap_or_default());
}

/// Appends a 304 for a stored response: its metadata and its field lines.
pub(super) fn not_modified(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    (meta, block): (&StoredMeta, &[u8]),
    age: u32,
) -> Answered {
    let Reply { form, cache, rules, .. } = *reply;
    let framing = BodyFraming::None;
    let age = Some(age);
    let head =
        Head { status: 304, reason: None, block: &[], age, framing, cache, rules: Some(rules) };
    let Written { status, keep_alive } = head.write_with(out.text(), form, |text| {
        write_fields_of_304(block, meta, text);
    });
    Answered { status, body_bytes: 0, keep_alive }
}
