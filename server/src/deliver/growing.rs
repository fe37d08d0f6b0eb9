//! A response that is still arriving, as an answer: sent as it comes.
//!
//! A client that makes us wait keeps nothing in the memory for what is arriving: what waits for it
//! is copied, and what else it needs it gets from where it is stored.

use std::future::{Future, poll_fn};
use std::pin::pin;

use bytes::Bytes;
use forebay_cache::{BodyHandle, BodyReader, ReadEvent};
use forebay_http::chunked::{CHUNK_END, CHUNK_HEAD_BYTES_MAX, LAST_CHUNK, write_chunk_head};
use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::conditional::{ConditionalResult, conditional};
use forebay_http::policy::freshness::current_age;
use forebay_http::policy::meta::StoredMeta;

use super::head::{Head, Written, can_chunk};
use super::long::{LongAnswer, deliver_long};
use super::rest::RestOf;
use super::stored::not_modified;
use super::{Answered, Broken, Reply};
use crate::accept::Client;
use crate::clock;
use crate::fault::Fault;
use crate::limits::READ_BYTES_MAX;
use crate::lookup::stored_block;
use crate::poll_once::poll_once;
use crate::send_queue::{Lender, SendQueue};

/// Sends the growing record to its end.
///
/// # Errors
/// The fetch broke off, or the client is gone or too slow.
pub(crate) async fn deliver_growing(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    (mut reader, meta): (BodyReader, &StoredMeta),
    rest: &RestOf<'_>,
) -> Result<Answered, Broken> {
    let Reply { client, form, cache, rules } = *reply;
    let asked = rest.request.head.fields();
    let age = current_age(meta.initial_age_s, meta.response_time, clock::unix_seconds());
    let block = stored_block(reader.head());
    if conditional(asked, meta, block) == ConditionalResult::NotModified {
        return Ok(not_modified(reply, out, (meta, block), age));
    }
    let begin = out.mark();
    let framing = match (meta.status, reader.body_bytes()) {
        (204, _) => BodyFraming::None,
        (_, Some(length)) => BodyFraming::Length(length),
        (_, None) => BodyFraming::Chunked,
    };
    let (status, age) = (meta.status, Some(age));
    let head = Head { status, reason: None, block, age, framing, cache, rules: Some(rules) };
    let Written { status, keep_alive } = head.write(out.text(), form);
    let chunked = framing == BodyFraming::Chunked && can_chunk(form);
    let mut answered = Answered { status, body_bytes: 0, keep_alive };
    let mut fragments = Vec::new();
    let mut begun = false;
    loop {
        let event = read_or_flush(client, out, &mut reader, &mut fragments, &mut begun).await?;
        for fragment in fragments.drain(..) {
            answered.body_bytes += fragment.len() as u64;
            append(out, fragment, chunked, Lender::Store);
        }
        match event {
            ReadEvent::Data => {}
            ReadEvent::Done => break,
            ReadEvent::Stored { long, offset } => {
                answered.body_bytes = long.bytes();
                let part = offset..long.bytes();
                let answer = LongAnswer { answered, long, part, chunked };
                Box::pin(deliver_long(reply, out, answer, rest)).await?;
                break;
            }
            ReadEvent::Aborted if begun => return Err(Broken::Midway(Fault::OriginBroke)),
            ReadEvent::Aborted => {
                out.truncate(begin);
                return Err(Broken::Before(Fault::OriginBroke));
            }
        }
        begun |= aside(&reader, client.flush_if_full(out)).await.map_err(Broken::Midway)?;
    }
    if chunked {
        end_chunks(out, None);
    }
    Ok(answered)
}

/// What has arrived; if that is nothing, what is ready to be sent goes out before the wait.
async fn read_or_flush(
    client: &Client,
    out: &mut SendQueue,
    reader: &mut BodyReader,
    fragments: &mut Vec<Bytes>,
    begun: &mut bool,
) -> Result<ReadEvent, Broken> {
    let more = pin!(poll_fn(|cx| reader.poll_fragments(cx, READ_BYTES_MAX, fragments)));
    if let Some(event) = poll_once(more).await {
        return Ok(event);
    }
    *begun = true;
    aside(reader, client.flush(out)).await.map_err(Broken::Midway)?;
    Ok(poll_fn(|cx| reader.poll_fragments(cx, READ_BYTES_MAX, fragments)).await)
}

/// Flushes; if that takes long, nothing is held for this reader meanwhile.
async fn aside<T>(reader: &BodyReader, flush: impl Future<Output = T>) -> T {
    let mut flush = pin!(flush);
    if let Some(flushed) = poll_once(flush.as_mut()).await {
        return flushed;
    }
    reader.step_aside();
    flush.await
}

/// Appends a piece of a body, in a chunk of its own if the body is chunked (RFC 9112 §7.1).
pub(super) fn append(out: &mut SendQueue, piece: Bytes, chunked: bool, lender: Lender) {
    if piece.is_empty() {
        return;
    }
    if chunked {
        let mut space = [0; CHUNK_HEAD_BYTES_MAX];
        out.text().extend_from_slice(write_chunk_head(piece.len() as u64, &mut space));
    }
    out.body(piece, lender);
    if chunked {
        out.text().extend_from_slice(CHUNK_END);
    }
}

/// Appends a part of a stored body in the same way.
pub(super) fn append_lent(out: &mut SendQueue, lent: BodyHandle, chunked: bool) {
    // An empty chunk would be the last one.
    let chunked = chunked && !lent.is_empty();
    if chunked {
        let mut space = [0; CHUNK_HEAD_BYTES_MAX];
        out.text().extend_from_slice(write_chunk_head(lent.len() as u64, &mut space));
    }
    out.lent(lent);
    if chunked {
        out.text().extend_from_slice(CHUNK_END);
    }
}

/// Appends the last chunk and the trailers (RFC 9112 §7.1.2).
pub(super) fn end_chunks(out: &mut SendQueue, trailers: Option<FieldBlock>) {
    let text = out.text();
    text.extend_from_slice(LAST_CHUNK);
    if let Some(trailers) = trailers {
        text.extend_from_slice(trailers.bytes());
    }
    text.extend_from_slice(CHUNK_END);
}
