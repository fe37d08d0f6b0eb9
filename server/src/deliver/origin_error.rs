//! Pages that a route has in place of an origin's error responses.

use forebay_http::fields::FieldId;
use forebay_http::policy::conditional::block_lines;

use super::Delivered;
use super::head::{HeadContext, SyntheticMessage};
use super::synthetic::write_date_field;
use crate::counters::Counter;
use crate::fetch::BodyUpload;
use crate::lookup::stored_block;
use crate::response::{GrowingResponse, StreamedResponse};
use crate::send_queue::SendQueue;
use crate::transaction::Transaction;

/// Appends the page of the route in place of an error of the origin with this status and these
/// field lines; appends nothing and returns `None` if the route has no page for it.
///
/// The stored response and its fetch stay as they are: only this client gets the page.
#[cold]
pub(super) fn queue_origin_error(
    context: &HeadContext<'_>,
    queue: &mut SendQueue,
    (status, block): (u16, &[u8]),
) -> Option<Delivered> {
    let (page, transaction) = context.origin_error_page(status)?;
    transaction.worker().count(Counter::OriginErrorPages);
    let mut lines = page.lines.to_vec();
    let kept = block_lines(block).filter(|(name, _)| is_kept(name));
    kept.for_each(|(_, line)| lines.extend_from_slice(line));
    let message = SyntheticMessage { status, block: &lines, body: &page.body };
    Some(message.write_with(context, queue.text(), write_date_field))
}

/// Whether a field is about the error and not about the content that the page replaces: clients
/// need it to act on the status (RFC 9110 §10.2.1, §10.2.3, §11.6.1).
fn is_kept(name: &[u8]) -> bool {
    let id = FieldId::of(name);
    id == FieldId::SetCookie
        || [&b"allow"[..], b"retry-after", b"www-authenticate"]
            .iter()
            .any(|kept| name.eq_ignore_ascii_case(kept))
}

/// Appends the page of the route in place of an error response that is being stored; the fetch
/// continues. Returns the response itself if it is no error or the route has no page for it.
pub(super) fn queue_growing_error(
    transaction: &Transaction<'_>,
    queue: &mut SendQueue,
    response: Box<GrowingResponse>,
) -> Result<Delivered, Box<GrowingResponse>> {
    let meta = &response.meta;
    if is_error(meta.status) {
        let block = stored_block(response.reader.head(), meta);
        let context = HeadContext::of(transaction);
        if let Some(delivered) = queue_origin_error(&context, queue, (meta.status, block)) {
            response.reader.leave_served();
            return Ok(delivered);
        }
    }
    Err(response)
}

/// Appends the page of the route in place of an error response that is not stored, and discards its
/// body. Returns the response itself if it is no error or the route has no page for it.
pub(super) fn queue_streamed_error<'t>(
    transaction: &mut Transaction<'_>,
    queue: &mut SendQueue,
    response: Box<StreamedResponse<'t>>,
) -> Result<Delivered, Box<StreamedResponse<'t>>> {
    let head = &response.answer.head;
    if !is_error(head.status) {
        return Err(response);
    }
    // The rest of the request's body is not read, so it would be taken for the next request.
    let is_read = response.upload.as_ref().is_none_or(BodyUpload::is_whole);
    let had_unread_body = transaction.has_unread_body;
    transaction.has_unread_body |= !is_read;
    let context = HeadContext::of_synthetic(transaction);
    match queue_origin_error(&context, queue, (head.status, head.block.bytes())) {
        Some(delivered) => {
            response.answer.body.discard();
            Ok(delivered)
        }
        None => {
            transaction.has_unread_body = had_unread_body;
            Err(response)
        }
    }
}

pub(super) fn is_error(status: u16) -> bool {
    status >= 400
}
