//! Passing a request through: an exchange whose response no other request shares. The request's
//! body may still be sent to the origin while the response arrives.

use forebay_http::fields::FieldId;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::update::is_outdated_by_head;

use super::answer::OriginAnswer;
use super::exchange::{Exchange, ServedClient, exchange};
use super::outbound::{OutboundLine, OutboundMessage, Purpose};
use super::tunnel::WantedUpgrade;
use super::upload::{BodyUpload, FirstPart};
use crate::counters::Counter;
use crate::fault::Fault;
use crate::lookup::selected;
use crate::response::{Response, StreamedResponse};
use crate::store::{StoreContext, UnsafeTarget, note_storable};
use crate::trace::{FetchStep, RequestStep};
use crate::transaction::Transaction;

/// Forwards the request to the origin. `is_shareable` says whether the request could have been
/// collapsed with others. If so, and if the response turns out to be storable, later requests for
/// the key are collapsed again.
///
/// # Errors
/// The exchange failed, or the client did not send its whole body.
pub(super) async fn pass_through<'t>(
    transaction: &mut Transaction<'t>,
    is_shareable: bool,
) -> Result<Response<'t>, Fault> {
    let line = OutboundLine::new(&transaction.request)?;
    let upgrade = WantedUpgrade::of(transaction)?;
    let target = UnsafeTarget::of(&transaction.request);
    let mut body = transaction.take_body()?;
    let message = OutboundMessage {
        line: &line,
        fields: transaction.request.head.fields(),
        has_body: transaction.request.has_body(),
    };
    let hook = transaction.hook_context();
    let (client, interim) = (transaction.client, &transaction.interim());
    let reports = (interim, transaction.trace());
    transaction.trace().step(|| RequestStep::Fetch(FetchStep::Alone));
    let served = ServedClient::of(transaction);
    let request = Exchange::new(served, hook, message, Purpose::PassThrough, reports)
        .upgrading(upgrade.as_ref().map(|upgrade| &upgrade.protocols));
    let (mut upload, mut early) = (None, Vec::new());
    let mut answer = match body.is_whole() {
        true => {
            let answer = exchange(&request, None).await?;
            if answer.switched.is_some() {
                early = body.into_unread();
            }
            answer
        }
        false => {
            let length = match transaction.request.framing {
                BodyFraming::Length(length) => Some(length),
                _ => None,
            };
            let settings = &transaction.route().route.settings;
            let first = {
                let bytes_max = settings.upload_buffer_bytes;
                Box::pin(FirstPart::read(client, &mut body, length, bytes_max)).await?
            };
            let (body, outbound) = BodyUpload::begin(client, first, body, length);
            let body = upload.insert(body);
            let outbound = Some((outbound, body.progress()));
            Box::pin(body.until_answer(exchange(&request, outbound))).await?
        }
    };
    if let Some(upgrade) = upgrade
        && let Some(tunnel) = upgrade.settle(transaction, &mut answer, early).await?
    {
        return Ok(Response::Tunnel(Box::new(tunnel)));
    }
    let (worker, route) = (transaction.worker(), transaction.route());
    if let Some(target) = target {
        let fields = answer.received_fields();
        let invalidated = target.invalidate(worker, route, answer.received_status, fields);
        match &mut upload {
            Some(upload) => upload.beside(invalidated).await,
            None => invalidated.await,
        }
    }
    note_head(transaction, &answer);
    if is_shareable && !answer.is_fallback {
        let (network, path_query) = (client.network(), line.path_query());
        let request = message.client_request();
        let context = StoreContext { hook, network, route, request, path_query };
        note_storable(&context, transaction.key, &answer.head);
    }
    transaction.cache_status.fwd_status = Some(answer.received_status);
    answer.head.block.remove(|field| route.route.settings.hides(field));
    Ok(Response::Streamed(Box::new(StreamedResponse { answer, upload })))
}

/// RFC 9111 §4.3.5: if the origin's answer to a HEAD shows another version, marks the stored
/// response that the HEAD selects as stale, so that the next request validates it. The stored
/// fields do not change, because the request may have fields that influence the answer and are not
/// part of the key. An answer that may be meant for its client alone changes nothing.
// RFC: 9111-4.3.5-1, 9111-4.3.5-3
fn note_head(transaction: &Transaction<'_>, answer: &OriginAnswer) {
    let request = &transaction.request;
    let is_personal =
        request.directives.is_authorized || request.head.fields().contains(FieldId::Cookie);
    if !request.form.head_only || answer.received_status != 200 || is_personal {
        return;
    }
    let query = transaction.lookup_query();
    if query.bypass.is_some() || query.is_ruled_out || !query.is_used {
        return;
    }
    let mut variant = Vec::new();
    let Some(stored) = selected(&query, request, &mut variant) else { return };
    let (block, body_bytes) = (stored.block(), stored.found.body().bytes());
    let head = (answer.head.block.fields(), answer.head.content_length);
    if is_outdated_by_head(&stored.meta, block, body_bytes, head) {
        let variant = (!variant.is_empty()).then_some(&*variant);
        if query.store.mark_stale(query.key, variant, stored.found.version()) {
            transaction.worker().count(Counter::OutdatedByHead);
        }
    }
}
