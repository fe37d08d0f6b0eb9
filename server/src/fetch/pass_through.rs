//! Passing a request through: an exchange whose response no other request shares. The request's
//! body may still be sent to the origin while the response arrives.

use std::pin::pin;
use std::time::Duration;

use forebay_http::fields::{Field, FieldBlock, FieldId, Fields};
use forebay_http::framing::BodyFraming;
use forebay_http::policy::update::is_outdated_by_head;
use http::Method;
use tokio::time::timeout;

use super::answer::OriginAnswer;
use super::exchange::{Exchange, ServedClient, exchange};
use super::outbound::{Outbound, OutboundLine, OutboundMessage, Purpose};
use super::tunnel::WantedUpgrade;
use super::upload::{BodyUpload, FirstPart};
use crate::accept::Client;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::CLIENT_CHECK_MS;
use crate::lookup::selected;
use crate::parse::RequestBody;
use crate::response::{Response, StreamedResponse};
use crate::store::{StoreContext, UnsafeTarget, note_storable};
use crate::trace::{FetchStep, RequestStep};
use crate::transaction::Transaction;
use crate::transport::ClientEnd;

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
    let body = transaction.take_body()?;
    let mut message = OutboundMessage {
        line: &line,
        fields: transaction.request.head.fields(),
        framing: transaction.request.framing,
    };
    let hook = transaction.hook_context();
    let whole_fields;
    if message.has_body() && needs_whole(transaction, message) {
        whole_fields = without_range(message.fields);
        message.fields = whole_fields.fields();
    }
    let (client, interim) = (transaction.client, &transaction.interim());
    let reports = (interim, transaction.trace());
    transaction.trace().step(|| RequestStep::Fetch(FetchStep::Alone));
    let served = ServedClient::of(transaction);
    let request = Exchange::new(served, hook, message, Purpose::PassThrough, reports)
        .upgrading(upgrade.as_ref().map(|upgrade| &upgrade.protocols));
    let (mut upload, mut early) = (None, Vec::new());
    let mut answer = match body.is_whole() {
        true => {
            let answer =
                while_client_stays(client, &request.outbound, exchange(&request, None)).await?;
            if answer.switched.is_some() {
                early = body.into_unread();
            }
            Box::pin(with_decodable_body(transaction, message, answer)).await?
        }
        false => Box::pin(with_content(&request, client, body, &mut upload)).await?,
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
        note_storable(&store_context(transaction, message), transaction.key, &answer.head);
    }
    transaction.cache_status.fwd_status = Some(answer.received_status);
    answer.head.block.remove(|field| route.route.settings.hides(field));
    Ok(Response::Streamed(Box::new(StreamedResponse { answer, upload })))
}

/// Forwards a request with its content. The rest of the content is sent by `upload`, while the
/// response arrives.
async fn with_content<'t>(
    request: &Exchange<'_>,
    client: &'t Client,
    mut body: RequestBody<'t>,
    upload: &mut Option<BodyUpload<'t>>,
) -> Result<OriginAnswer, Fault> {
    let length = body.length();
    let settings = request.route_settings();
    let bytes_max = match request.outbound.is_grpc() {
        // The client may wait for an answer to its first message, and both sides may be quiet.
        true => {
            body.permit_pauses(settings.origin_idle_ms_max);
            0
        }
        false => settings.upload_buffer_bytes,
    };
    let first = FirstPart::read(client, &mut body, length, bytes_max).await?;
    let (body, outbound) = BodyUpload::begin(client, first, body, length);
    let body = upload.insert(body);
    let outbound = Some((outbound, body.progress()));
    let answer = body.until_answer(exchange(request, outbound));
    while_client_stays(client, &request.outbound, answer).await
}

/// Runs `work` until it ends. If the client of a call of gRPC leaves, ends the call, because its
/// server may work for long on an answer that no client wants.
///
/// # Errors
/// The errors of `work`, or [`Fault::ClientGone`].
async fn while_client_stays<T>(
    client: &Client,
    outbound: &Outbound<'_>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    if !outbound.is_grpc() {
        return work.await;
    }
    let mut work = pin!(work);
    loop {
        let turn = timeout(Duration::from_millis(CLIENT_CHECK_MS), work.as_mut());
        if let Ok(done) = turn.await {
            return done;
        }
        if client.transport.client_end() == ClientEnd::Both {
            client.worker.count(Counter::ClientsLeft);
            return Err(Fault::ClientGone);
        }
    }
}

/// Returns the context that decides about the response to `message`.
fn store_context<'a>(
    transaction: &'a Transaction<'_>,
    message: OutboundMessage<'a>,
) -> StoreContext<'a> {
    let (hook, route) = (transaction.hook_context(), transaction.route());
    let (network, request) = (transaction.client.network(), message.client_request());
    StoreContext { hook, network, route, request, path_query: message.line.path_query() }
}

/// Whether the range of a GET is left out, because the body may have to be decoded. A request with
/// content is sent only once, so a part of an encoded body could not be replaced by the whole body.
/// The server may ignore a range (RFC 9110 §14.2).
fn needs_whole(transaction: &Transaction<'_>, message: OutboundMessage<'_>) -> bool {
    message.fields.contains(FieldId::Range)
        && *message.line.method() == Method::GET
        && store_context(transaction, message).may_take_coding_off()
}

/// Copies the fields, except those that request a range.
fn without_range(fields: Fields<'_>) -> FieldBlock {
    let mut block = FieldBlock::new();
    let is_kept = |field: &Field<'_>| !matches!(field.id, FieldId::Range | FieldId::IfRange);
    fields.iter().filter(is_kept).for_each(|field| block.push_field(field));
    block
}

/// Requests the whole response if the origin has applied a range to a body whose coding the client
/// does not accept: only the whole body can be decoded, and the client counts the decoded bytes.
/// The server may ignore a range (RFC 9110 §14.2).
async fn with_decodable_body(
    transaction: &Transaction<'_>,
    message: OutboundMessage<'_>,
    mut answer: OriginAnswer,
) -> Result<OriginAnswer, Fault> {
    let (served, hook) = (ServedClient::of(transaction), transaction.hook_context());
    let context = store_context(transaction, message);
    // A 416 does not say which coding the body has.
    let is_refused = answer.head.status == 416 && context.may_take_coding_off();
    let has_range = message.fields.contains(FieldId::Range);
    if !has_range
        || *message.line.method() != Method::GET
        || !(is_refused || context.needs_whole(&answer.head))
    {
        return Ok(answer);
    }
    // The connection is free before the next request needs one.
    answer.body.take().discard();
    let fields = without_range(message.fields);
    let message = OutboundMessage { fields: fields.fields(), ..message };
    let reports = (&transaction.interim(), transaction.trace());
    let request = Exchange::new(served, hook, message, Purpose::PassThrough, reports);
    let whole = exchange(&request, None).await?;
    if is_refused && !context.takes_coding_off((whole.head.status, whole.head.block.fields())) {
        whole.body.discard();
        answer.head.content_length = Some(0);
        answer.head.framing = BodyFraming::Length(0);
        return Ok(answer);
    }
    Ok(whole)
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
