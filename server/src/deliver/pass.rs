//! An origin's answer that is not stored, passed on as it comes.

use std::pin::pin;

use forebay_http::date::write_date;
use forebay_http::fields::FieldId;
use forebay_http::framing::BodyFraming;
use forebay_http::write;

use super::growing::{append, end_chunks};
use super::head::{Head, Written, can_chunk};
use super::{Answered, Broken, Reply};
use crate::accept::Client;
use crate::fetch::{OriginAnswer, OriginBody, OriginPart};
use crate::poll_once::poll_once;
use crate::send_queue::{Lender, SendQueue};

/// Sends the answer to its end.
///
/// A piece is sent only once the origin's next piece, end or fault is known or has to be waited
/// for: an answer that turns out broken in the same read is not sent at all.
///
/// # Errors
/// The origin's answer is not whole, or the client is gone, too slow, or had to give way.
pub(crate) async fn deliver_pass(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    mut answer: OriginAnswer,
) -> Result<Answered, Broken> {
    let Reply { client, form, cache, rules } = *reply;
    let begin = out.mark();
    let status = answer.head.status;
    let framing = framing(&answer);
    let block = answer.head.block.bytes();
    let head = Head { status, reason: None, block, age: None, framing, cache, rules: Some(rules) };
    let Written { status, keep_alive } = head.write_with(out.text(), form, |text| {
        // A recipient with a clock adds the Date that is missing (RFC 9110 §6.6.1).
        if !answer.head.block.fields().contains(FieldId::Date) {
            write::date_field(text, &write_date(answer.response_time));
        }
    });
    let chunked = framing == BodyFraming::Chunked && can_chunk(form) && !form.head_only;
    let mut answered = Answered { status, body_bytes: 0, keep_alive };
    let mut begun = false;
    loop {
        match next_or_flush(client, out, &mut answer.body, &mut begun).await {
            Ok(OriginPart::Data(piece)) => {
                answered.body_bytes += piece.len() as u64;
                append(out, piece, chunked, Lender::Origin);
            }
            Ok(OriginPart::End(trailers)) => {
                if chunked {
                    end_chunks(out, trailers.filter(|_| form.trailers));
                }
                return Ok(answered);
            }
            Err(Broken::Before(fault)) if !begun => {
                out.truncate(begin);
                return Err(Broken::Before(fault));
            }
            Err(Broken::Before(fault) | Broken::Midway(fault)) => {
                return Err(Broken::Midway(fault));
            }
        }
        let permitted_by = answer.body.permitted_by();
        let flushed = permitted_by.sending(client, client.flush_if_full(out)).await;
        begun |= flushed.map_err(Broken::Midway)?;
    }
}

/// The framing towards the client: a known length, else chunks.
fn framing(answer: &OriginAnswer) -> BodyFraming {
    if answer.head.status == 204 {
        return BodyFraming::None;
    }
    match (answer.head.framing, answer.head.content_length) {
        // For HEAD and 304 the length is that of the GET; a body does not come.
        (BodyFraming::None, Some(length)) => BodyFraming::Length(length),
        (BodyFraming::None, None) => BodyFraming::None,
        (BodyFraming::Length(length), _) => BodyFraming::Length(length),
        (BodyFraming::Chunked | BodyFraming::UntilClose, _) => BodyFraming::Chunked,
    }
}

/// The origin's next piece; if it has to be waited for, what is ready to be sent goes out before.
pub(super) async fn next_or_flush(
    client: &Client,
    out: &mut SendQueue,
    body: &mut OriginBody,
    begun: &mut bool,
) -> Result<OriginPart, Broken> {
    let permitted_by = body.permitted_by();
    let mut next = pin!(body.next());
    if let Some(part) = poll_once(next.as_mut()).await {
        return part.map_err(Broken::Before);
    }
    *begun = true;
    permitted_by.sending(client, client.flush(out)).await.map_err(Broken::Midway)?;
    next.await.map_err(Broken::Before)
}
