//! A stored response as an answer: whole, a range of it, or 304.

use forebay_cache::Record;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::conditional::{Conditional, conditional, write_fields_of_304};
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::range::{RangeDecision, range, write_content_range};

use super::Answered;
use super::head::Head;
use crate::lookup::StoredResponse;
use crate::out::{Lender, Out};
use crate::parse::{ReplyForm, Request};

/// Appends the answer. The client's conditions and ranges hold for what is stored.
pub(crate) fn serve_stored(
    out: &mut Out,
    request: &Request<'_>,
    stored: &StoredResponse,
    age: u32,
    cache: &CacheStatus,
) -> Answered {
    let fields = request.head.fields();
    let (meta, block) = (&stored.meta, stored.block());
    if conditional(fields, meta, block) == Conditional::NotModified {
        return not_modified(out, request.form, (meta, block), age, cache);
    }
    let body_bytes = stored.record.body().len();
    let part = match request.form.head_only {
        true => RangeDecision::Whole,
        false => range(fields, meta, block, body_bytes),
    };
    let (status, first, count) = match part {
        RangeDecision::Whole => (meta.status, 0, body_bytes),
        RangeDecision::Part { first, last } => (206, first, last - first + 1),
        RangeDecision::Unsatisfiable => (416, 0, 0),
    };
    // A 416 is no copy of the response, and must not be taken for one by a cache before us.
    let block = if status == 416 { b"cache-control: no-store\r\n" } else { block };
    let head = Head { status, block, age: Some(age), framing: body_framing(status, count), cache };
    let keep_alive = head.write_with(out.text(), request.form, |text| {
        if part != RangeDecision::Whole {
            text.extend_from_slice(b"content-range: ");
            write_content_range(part, body_bytes, text);
            text.extend_from_slice(b"\r\n");
        }
    });
    if request.form.head_only {
        return Answered { status, body_bytes: 0, keep_alive };
    }
    append_body(out, &stored.record, first, count);
    Answered { status, body_bytes: count, keep_alive }
}

/// 204 has no body and no Content-Length (RFC 9110 §8.6).
fn body_framing(status: u16, bytes: u64) -> BodyFraming {
    if status == 204 { BodyFraming::None } else { BodyFraming::Length(bytes) }
}

fn append_body(out: &mut Out, record: &Record, first: u64, count: u64) {
    for fragment in record.body().shared(first..first + count) {
        out.body(fragment, Lender::Store);
    }
}

/// Appends a 304 for a stored response: its metadata and its field lines.
pub(super) fn not_modified(
    out: &mut Out,
    form: ReplyForm,
    (meta, block): (&StoredMeta, &[u8]),
    age: u32,
    cache: &CacheStatus,
) -> Answered {
    let framing = BodyFraming::None;
    let head = Head { status: 304, block: &[], age: Some(age), framing, cache };
    let keep_alive = head.write_with(out.text(), form, |text| {
        write_fields_of_304(block, meta, text);
    });
    Answered { status: 304, body_bytes: 0, keep_alive }
}
