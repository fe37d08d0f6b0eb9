//! Validates a stored response for one request that cannot share the fetch of another request.

use forebay_cache::RecordVersion;
use forebay_http::fields::FieldBlock;
use forebay_http::framing::BodyFraming;

use super::exchange::{Exchange, ServedClient, exchange};
use super::lead::conditions;
use super::outbound::{OutboundLine, OutboundMessage, Purpose};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::lookup::{Stale, validated};
use crate::response::{ConfirmedResponse, Response, StreamedResponse};
use crate::store::{StoreContext, note_storable};
use crate::trace::{FetchStep, RequestStep};
use crate::transaction::Transaction;

/// Asks the origin whether a stored response is still valid. Returns the stored response or the
/// origin's new response; `None` if the stored response is gone, or if the 304 refers to another
/// response.
///
/// # Errors
/// The exchange failed.
pub(super) async fn validate<'t>(
    transaction: &mut Transaction<'t>,
    stale: &Stale,
    varies: bool,
) -> Result<Option<Response<'t>>, Fault> {
    let line = OutboundLine::new(&transaction.request)?;
    let fields = transaction.request.head.fields();
    let message = OutboundMessage { line: &line, fields, framing: BodyFraming::None };
    let conditions = conditions(Some(stale), &[]);
    let interim = &transaction.interim();
    let hook = transaction.hook_context();
    let purpose = Purpose::Validate(&conditions);
    let reports = (interim, transaction.trace());
    transaction.trace().step(|| RequestStep::Fetch(FetchStep::Alone));
    let client = ServedClient::of(transaction);
    let request = Exchange::new(client, hook, message, purpose, reports);
    let mut answer = exchange(&request, None).await?;
    let (worker, route) = (transaction.worker(), transaction.route());
    let (request, path_query) = (message.client_request(), line.path_query());
    let network = client.network;
    let context = StoreContext { hook, network, route, request, path_query };
    let is_confirmed = answer.received_status == 304;
    if !is_confirmed {
        if !answer.is_fallback {
            note_storable(&context, transaction.key, &answer.head);
        }
        transaction.cache_status.fwd_status = Some(answer.received_status);
        answer.head.block.remove(|field| route.route.settings.hides(field));
        return Ok(Some(Response::Streamed(Box::new(StreamedResponse { answer, upload: None }))));
    }
    // A 304 has no body. Reading its end returns the connection to the pool.
    answer.body.next().await?;
    if answer.is_fallback {
        // The stored response was the file at this path, which is missing now.
        return Ok(None);
    }
    let Some(renewed) = context.renewed_head(stale, &answer.head.block, &answer.timing()) else {
        return Ok(None);
    };
    worker.count(Counter::Validated);
    if renewed.refused.is_none() {
        // The key is no longer declined: the next request leads a fetch, which stores the renewed
        // head.
        transaction.store().forget_declined(transaction.key);
    }
    let own_lines = context.own_lines_of_304(&answer.head.block);
    transaction.cache_status.fwd_status = Some(304);
    Ok(confirmed(transaction, (stale.known, varies), Some(renewed.head), own_lines))
}

/// Returns the stored response that the origin has confirmed for this request alone, with `head`
/// instead of the stored head and with `own_lines` added. Returns `None` if the response is no
/// longer stored.
pub(super) fn confirmed<'t>(
    transaction: &Transaction<'t>,
    (known, varies): (RecordVersion, bool),
    head: Option<Vec<u8>>,
    own_lines: FieldBlock,
) -> Option<Response<'t>> {
    let variant = varies.then_some(&**transaction.variant);
    let hit = validated(&transaction.lookup_query(), &transaction.request, variant, known)?;
    Some(Response::Confirmed(Box::new(ConfirmedResponse { hit, head, own_lines })))
}
