//! Evaluates the client's preconditions on responses that are passed through.

use forebay_http::date::write_date;
use forebay_http::fields::FieldId;
use forebay_http::policy::conditional::{
    ConditionalResult, conditional_on_response, fields_of_304,
};
use forebay_http::policy::reuse::ForwardReason;

use crate::counters::Counter;
use crate::response::{Response, StreamedResponse};
use crate::transaction::Transaction;

/// Whether the client's preconditions are evaluated on a response that was forwarded for `reason`.
/// Preconditions are ignored where this server cannot act as a cache (RFC 9110 §13.2.1).
// RFC: 9111-4.3.2-2, 9110-13.1.3-2, 9110-13.2.1-3, 9110-13.2.1-4
pub(super) fn is_evaluated(reason: ForwardReason) -> bool {
    !matches!(reason, ForwardReason::Bypass | ForwardReason::Method)
}

/// Turns the response into a 304 if the client's preconditions say that the client already has it.
pub(super) fn evaluate<'t>(
    transaction: &Transaction<'t>,
    response: Box<StreamedResponse<'t>>,
) -> Response<'t> {
    let request = transaction.request.head.fields();
    let fields = response.answer.head.block.fields();
    let result = conditional_on_response(request, response.answer.head.status, fields);
    if result == ConditionalResult::Send || response.upload.is_some() {
        return Response::Streamed(response);
    }
    transaction.worker().count(Counter::ForwardedNotModified);
    let mut kept = fields_of_304(fields);
    if !kept.fields().contains(FieldId::Date) {
        // A recipient that has a clock adds a missing Date (RFC 9110 §6.6.1).
        kept.push(b"date", &write_date(response.answer.response_time));
    }
    response.answer.body.discard();
    Response::NotModified(Box::new(kept))
}
