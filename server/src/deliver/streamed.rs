//! Sends an origin's response that is not stored to the client as it arrives.

use std::pin::{Pin, pin};
use std::time::Duration;

use forebay_http::date::write_date;
use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::framing::BodyFraming;
use forebay_http::write;
use tokio::time::timeout;

use super::chunks::{append_piece, end_chunks};
use super::head::{Head, HeadContext, WrittenHead, can_chunk};
use super::{DeliverError, Delivered, assert_whole};
use crate::accept::Client;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{OriginAnswer, OriginBody, OriginPart};
use crate::limits::CLIENT_CHECK_MS;
use crate::poll_once::poll_once;
use crate::response::StreamedResponse;
use crate::send_queue::{Lender, SendQueue};
use crate::transaction::Transaction;
use crate::transport::ClientEnd;

/// The time after which a client that sends nothing more counts as one that has left. A client that
/// has only ended its sending side has this time to get more of its response.
const CLIENT_LEFT_MS: u64 = 5_000;

/// Sends the response to its end, and at the same time the rest of the request's body to the
/// origin.
///
/// # Errors
/// See [`stream`].
pub(super) async fn deliver_streamed(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    response: StreamedResponse<'_>,
) -> Result<Delivered, DeliverError> {
    let StreamedResponse { answer, upload } = response;
    let Some(mut upload) = upload else {
        return stream(transaction, queue, answer, true).await;
    };
    // If the client is still sending, the head says that the connection ends: otherwise bytes of
    // the body that are never read would be taken for the next request.
    let may_persist = upload.is_whole();
    let streaming = Box::pin(stream(transaction, queue, answer, may_persist));
    let delivered = upload.beside(streaming).await?;
    // The response may have ended before the request's body was read.
    transaction.has_unread_body = !upload.is_whole();
    Ok(delivered)
}

/// Sends the response to its end.
///
/// The last piece that arrived is held back until the origin's next piece, end or fault arrives, or
/// until the task has to wait. So a response that turns out broken in the same read is not sent.
///
/// # Errors
/// The origin's response is incomplete; or the client is gone, is too slow, or stalled while
/// another request waited for a connection to the origin.
async fn stream(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    mut answer: OriginAnswer,
    may_persist: bool,
) -> Result<Delivered, DeliverError> {
    let (client, mut context) = (transaction.client, HeadContext::of(transaction));
    context.form.keep_alive &= may_persist;
    let form = context.form;
    let begin = queue.mark();
    let framing = framing(&answer);
    let block = answer.head.block.bytes();
    let head = Head { status: answer.head.status, block, age: None, framing };
    let WrittenHead { status, keep_alive } = head.write_with(&context, queue.text(), |text| {
        // A recipient that has a clock adds a missing Date (RFC 9110 §6.6.1).
        if !answer.head.block.fields().contains(FieldId::Date) {
            write::date_field(text, &write_date(answer.response_time));
        }
    });
    let is_chunked = framing == BodyFraming::Chunked && can_chunk(form) && !form.head_only;
    let mut delivered = Delivered { status, body_bytes: 0, keep_alive };
    let mut begun = false;
    loop {
        match next_or_flush(client, queue, &mut answer.body, &mut begun).await {
            Ok(OriginPart::Data(piece)) => {
                delivered.body_bytes += piece.len() as u64;
                append_piece(queue, piece, is_chunked, Lender::Origin);
            }
            Ok(OriginPart::End(trailers)) => {
                assert_whole(answer.head.framing, &delivered);
                if is_chunked {
                    end_chunks(queue, trailers.filter(|_| form.trailers));
                }
                return Ok(delivered);
            }
            Err(DeliverError::Before(fault)) if !begun => {
                queue.truncate(begin);
                return Err(DeliverError::Before(fault));
            }
            Err(DeliverError::Before(fault) | DeliverError::Midway(fault)) => {
                return Err(DeliverError::Midway(fault));
            }
        }
        let permitted_by = answer.body.permitted_by();
        let flushed = permitted_by.sending(client, client.flush_if_full(queue)).await;
        begun |= flushed.map_err(DeliverError::Midway)?;
    }
}

/// Appends a 304 with these fields, in place of a response that is not stored.
pub(super) fn queue_not_modified_response(
    context: &HeadContext<'_>,
    queue: &mut SendQueue,
    fields: &FieldBlock,
) -> Delivered {
    let framing = BodyFraming::None;
    let head = Head { status: 304, block: fields.bytes(), age: None, framing };
    let WrittenHead { status, keep_alive } = head.write(context, queue.text());
    Delivered { status, body_bytes: 0, keep_alive }
}

/// Returns the framing of the response to the client: its length if that is known, otherwise
/// chunks.
fn framing(answer: &OriginAnswer) -> BodyFraming {
    if answer.head.status == 204 {
        return BodyFraming::None;
    }
    match (answer.head.framing, answer.head.content_length) {
        // For HEAD and 304, this is the length that a response to GET would have; no body follows.
        (BodyFraming::None, Some(length)) => BodyFraming::Length(length),
        (BodyFraming::None, None) => BodyFraming::None,
        (BodyFraming::Length(length), _) => BodyFraming::Length(length),
        (BodyFraming::Chunked | BodyFraming::UntilClose, _) => BodyFraming::Chunked,
    }
}

/// Waits for the origin's next piece. If the piece has not arrived yet, flushes the queue first and
/// sets `begun`.
pub(super) async fn next_or_flush(
    client: &Client,
    queue: &mut SendQueue,
    body: &mut OriginBody,
    begun: &mut bool,
) -> Result<OriginPart, DeliverError> {
    let permitted_by = body.permitted_by();
    if body.takes_turns() {
        let arrived = poll_once(pin!(body.next())).await;
        if let Some(part) = arrived {
            return part.map_err(DeliverError::Before);
        }
        *begun = true;
        permitted_by.sending(client, client.flush(queue)).await.map_err(DeliverError::Midway)?;
        return next_beside_client(client, pin!(body.next())).await;
    }
    let mut next = pin!(body.next());
    if let Some(part) = poll_once(next.as_mut()).await {
        return part.map_err(DeliverError::Before);
    }
    *begun = true;
    permitted_by.sending(client, client.flush(queue)).await.map_err(DeliverError::Midway)?;
    next_beside_client(client, next).await
}

/// Waits for the origin's next piece, and checks from time to time whether the client has left: a
/// stream of events may be quiet for long.
///
/// # Errors
/// The origin's response is incomplete, or the client has left.
async fn next_beside_client(
    client: &Client,
    mut next: Pin<&mut impl Future<Output = Result<OriginPart, Fault>>>,
) -> Result<OriginPart, DeliverError> {
    let mut half_ms = 0;
    loop {
        let turn = timeout(Duration::from_millis(CLIENT_CHECK_MS), next.as_mut());
        if let Ok(part) = turn.await {
            return part.map_err(DeliverError::Before);
        }
        half_ms = match client.transport.client_end() {
            ClientEnd::Open => 0,
            ClientEnd::Half => half_ms + CLIENT_CHECK_MS,
            ClientEnd::Both => CLIENT_LEFT_MS,
        };
        if half_ms >= CLIENT_LEFT_MS {
            client.worker.count(Counter::ClientsLeft);
            return Err(DeliverError::Midway(Fault::ClientGone));
        }
    }
}
