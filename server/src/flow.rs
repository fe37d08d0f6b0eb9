//! The path of a request through the server. Read this file first.
//!
//! ```text
//! accept → parse → key → lookup ─┬─ hit ──────────────────────────────► deliver
//!                                └─ miss → fetch (or follow) → store → deliver
//! ```
//!
//! Each step is a folder of its name. [`respond`] names the steps in this order. A hit runs from
//! `parse` to `deliver` without waiting and without a heap allocation, unless its body is stored in
//! fragments; a request that goes to the origin waits, and so does a PURGE.

use std::cell::OnceCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use forebay_http::fields::{FieldId, FieldSet};
use forebay_http::policy::cache_status::{CacheOutcome, CacheStatus};
use forebay_http::policy::early_hints::{hints, takes_hints};
use forebay_http::policy::range::RangeDecision;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::reuse::ForwardReason;
use forebay_rules::apply::OwnAnswer;
use forebay_rules::ast::{Hook, HttpControl};
use forebay_rules::run::CacheResult;

use crate::accept::Client;
use crate::buffers::Buffers;
use crate::config::Config;
use crate::counters::Counter;
use crate::deliver::{
    BegunDelivery, DeliverError, Delivered, begin, deliver_fault, finish, refuse, relay_interim,
};
use crate::fault::Fault;
use crate::fetch::{StaleAnswer, StaleHit, resolve, stale_at_once, stale_if_error};
use crate::interim::InterimQueue;
use crate::key::{LocalRequest, check_content, is_loop, local_request};
use crate::log::Access;
use crate::lookup::{ForwardPlan, Hit, LookupResult, SelectedPart, Stale};
use crate::parse::{Request, ResponseForm};
use crate::response::{Response, SyntheticResponse};
use crate::store::{PurgeRequest, purge};
use crate::trace::RequestStep;
use crate::transaction::{Transaction, TransactionStart};

/// Answers the request whose head of `head_bytes` is at the start of the input. If this is the
/// `last` request of the connection, the connection ends after the response.
///
/// # Errors
/// A fault after a part of the response was sent: the connection must be reset.
pub(crate) async fn answer(
    client: &Client,
    config: &Rc<Config>,
    buffers: &mut Buffers,
    head_bytes: usize,
    last: bool,
) -> Result<AfterResponse, Fault> {
    let Buffers { input, parts, queue, transaction: buffers } = buffers;
    client.begin_request();
    let has_body = parts.seen().intersects(FRAMING_FIELDS);
    let (head, body) = input.split_head(head_bytes, has_body);
    let head = parts.head(head);
    let log = Access::begin(client, head);
    let mut received = match Request::check(head, client.scheme) {
        Ok(received) => received,
        Err(fault) => {
            let cache_status = (&CacheStatus::UNUSED, &config.server.cache_name);
            client.worker.fault(fault, client.peer.ip());
            let refused = refuse(client, queue, fault, ResponseForm::UNKNOWN);
            log.end(client, refused.status, refused.body_bytes, cache_status);
            return Ok(AfterResponse::Linger);
        }
    };
    received.form.keep_alive &= !last;
    let interim = OnceCell::new();
    let start = TransactionStart {
        client,
        config,
        received: &received,
        body,
        buffers,
        interim: &interim,
        log,
    };
    let mut transaction = Transaction::begin(start);
    let form = received.form;
    let response = {
        let mut work = pin!(respond(&mut transaction));
        // A hit is ready at once, and does not pay for the allocation of the relay.
        match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            Poll::Ready(response) => Ok(response),
            Poll::Pending => relay_interim(client, form, &interim, queue, work).await,
        }
    };
    if let Ok(response) = &response {
        transaction.trace().step(|| response_step(response));
    }
    let delivered = match response {
        Ok(Ok(response)) => match begin(&mut transaction, queue, response) {
            BegunDelivery::Queued(delivered) => Ok(delivered),
            BegunDelivery::Rest(rest) => finish(&mut transaction, queue, rest).await,
        },
        Ok(Err(fault)) => Err(DeliverError::Before(fault)),
        Err(error) => Err(error),
    };
    let delivered = match delivered {
        Err(DeliverError::Before(fault)) if fault != Fault::ClientGone => {
            client.worker.fault(fault, client.peer.ip());
            client.worker.count(Counter::FaultsSent);
            Ok(deliver_fault(&transaction, queue, fault))
        }
        delivered => delivered,
    };
    end(transaction, delivered, last)
}

/// The fields that announce a body: a request with neither field has no body (RFC 9112 §6.3).
const FRAMING_FIELDS: FieldSet = FieldSet::of(&[FieldId::ContentLength, FieldId::TransferEncoding]);

/// The fate of the connection after a response.
pub(crate) enum AfterResponse {
    /// The connection takes the next request.
    KeepAlive,
    /// The connection ends; every byte that the client sent was read.
    Close,
    /// The connection ends, and the client may still be sending.
    Linger,
}

/// Runs the steps from a checked request to its response.
///
/// # Errors
/// The request cannot be answered as asked; nothing was sent yet.
// RFC: 9111-5.2.1.7-1
async fn respond<'t>(transaction: &mut Transaction<'t>) -> Result<Response<'t>, Fault> {
    #[cfg(test)]
    crate::tests::panic_if_asked(transaction.request.target.path_query);
    if is_loop(&transaction.request, &transaction.worker().via) {
        return Err(Fault::Loop);
    }
    if let Some(answer) = transaction.run_request_rules(Hook::ReadRequest)? {
        return Ok(ruled(transaction, answer));
    }
    let route = transaction.find_route()?;
    if let Some(answer) = transaction.run_request_rules(Hook::Remap)? {
        return Ok(ruled(transaction, answer));
    }
    check_content(route, &transaction.request)?;
    if route.route.settings.ignore_client_no_cache {
        let directives = &mut transaction.request.directives;
        *directives = directives.accepting_fresh();
    }
    let local = local_request(route, &transaction.request);
    if local == Some(LocalRequest::Options) {
        return Ok(SyntheticResponse::Options.into());
    }
    transaction.normalise();
    transaction.write_key();
    if local == Some(LocalRequest::Purge) {
        let asked = PurgeRequest {
            worker: transaction.worker(),
            client: transaction.client.peer.ip(),
            route,
            request: &transaction.request,
        };
        let purged = Box::pin(purge(asked)).await?;
        return Ok(SyntheticResponse::Purged(purged).into());
    }
    let plan = match transaction.look_up() {
        LookupResult::Hit(hit) => {
            note_hit(transaction, &hit);
            trace_lookup(transaction);
            return Ok(Response::Stored(hit));
        }
        LookupResult::Forward(plan) => plan,
    };
    let response = respond_without_hit(transaction, plan).await;
    if let Some(detail) = transaction.cache_status.detail {
        transaction.worker().count_reason(detail.reason);
    }
    response
}

fn response_step(response: &Result<Response<'_>, Fault>) -> RequestStep {
    match response {
        Ok(response) => RequestStep::Response { source: response.source() },
        Err(fault) => RequestStep::Fault { fault: fault.reason() },
    }
}

/// Answers a request that is not a hit: with a stale response, or with that of the origin.
///
/// # Errors
/// See [`respond`].
async fn respond_without_hit<'t>(
    transaction: &mut Transaction<'t>,
    plan: ForwardPlan,
) -> Result<Response<'t>, Fault> {
    let mut probe = None;
    if plan.is_stale {
        match stale_at_once(transaction, plan.fills) {
            StaleAnswer::AtOnce(stale) => {
                note_stale_hit(transaction, &stale);
                trace_lookup(transaction);
                return Ok(Response::Stored(stale.hit));
            }
            StaleAnswer::AfterOrigin(guard) => probe = guard,
        }
    }
    note_forward(transaction, &plan);
    trace_lookup(transaction);
    if transaction.request.directives.only_if_cached {
        transaction.cache_status.outcome = CacheOutcome::NotForwarded;
        transaction.cache_status.detail = Some(Reason::OnlyIfCached.into());
        return Err(Fault::OnlyIfCached);
    }
    hint(transaction, plan.stale.as_ref());
    let response = Box::pin(resolve(transaction, plan)).await;
    drop(probe);
    match stale_if_error(transaction, &response) {
        Some(stale) => {
            note_stale_if_error(transaction, &stale, &response);
            transaction.trace().step(|| RequestStep::Stale(transaction.cache_status));
            Ok(Response::Stored(stale.hit))
        }
        None => response,
    }
}

/// Sends a browser the links of the stored page that is validated for it, if the route says so.
fn hint(transaction: &Transaction<'_>, stale: Option<&Stale>) {
    let Some(stale) = stale.filter(|_| transaction.route().route.settings.early_hints) else {
        return;
    };
    let request = &transaction.request;
    let is_for_all = !request.directives.is_authorized || stale.meta.permits_authorized;
    if stale.meta.status != 200 || !is_for_all || !takes_hints(request.head.fields()) {
        return;
    }
    let links = hints(stale.block());
    if !links.bytes().is_empty() {
        transaction.worker().count(Counter::EarlyHints);
        transaction.interim().push(InterimQueue::early_hints(links));
    }
}

fn trace_lookup(transaction: &Transaction<'_>) {
    transaction.trace().step(|| RequestStep::Lookup(transaction.cache_status));
}

/// Returns the response that header rules give instead of the requested one.
fn ruled<'t>(transaction: &Transaction<'t>, answer: OwnAnswer) -> Response<'t> {
    transaction.worker().count(Counter::RuledAnswers);
    SyntheticResponse::Ruled(Box::new(answer)).into()
}

#[inline]
fn note_hit(transaction: &mut Transaction<'_>, hit: &Hit<'_>) {
    let detail = hit.stored.meta.detail();
    transaction.cache_status = CacheStatus { detail, ..CacheStatus::hit(hit.ttl) };
    transaction.rule_state.set_cache_result(CacheResult::HitFresh);
    let worker = transaction.worker();
    worker.count(Counter::Hits);
    match hit.part {
        SelectedPart::NotModified => worker.count(Counter::HitsNotModified),
        SelectedPart::Body(RangeDecision::Part { .. } | RangeDecision::Parts) => {
            worker.count(Counter::HitsRange);
        }
        SelectedPart::Body(_) => {}
    }
}

fn note_stale_hit(transaction: &mut Transaction<'_>, stale: &StaleHit<'_>) {
    note_hit(transaction, &stale.hit);
    transaction.cache_status.detail = Some(stale.cause.reason().into());
    transaction.rule_state.set_cache_result(CacheResult::HitStale);
    transaction.worker().count(Counter::HitsStale);
}

fn note_stale_if_error(
    transaction: &mut Transaction<'_>,
    stale: &StaleHit<'_>,
    response: &Result<Response<'_>, Fault>,
) {
    let status = &mut transaction.cache_status;
    if let Ok(Response::Streamed(streamed)) = response {
        status.fwd_status = Some(streamed.answer.received_status);
    }
    status.ttl = Some(stale.hit.ttl);
    status.detail = Some(stale.cause.reason().into());
    transaction.worker().count(Counter::StaleIfError);
}

fn note_forward(transaction: &mut Transaction<'_>, plan: &ForwardPlan) {
    let ForwardPlan { reason, detail, .. } = *plan;
    transaction.cache_status = CacheStatus { detail, ..CacheStatus::forwarded(reason) };
    let (counter, result) = match reason {
        ForwardReason::Bypass | ForwardReason::Method => (Counter::Bypasses, CacheResult::Skipped),
        ForwardReason::Stale | ForwardReason::Request => (Counter::Stale, CacheResult::HitStale),
        _ => (Counter::Misses, CacheResult::Miss),
    };
    transaction.worker().count(counter);
    transaction.rule_state.set_cache_result(result);
}

/// The status that the access log shows for a response that broke off. The status that was sent
/// would look like success.
const BROKEN_OFF: u16 = 499;

/// Ends a transaction: variables of rules, access log, and the fate of the connection.
fn end(
    transaction: Transaction<'_>,
    delivered: Result<Delivered, DeliverError>,
    last: bool,
) -> Result<AfterResponse, Fault> {
    let Transaction { client, config, rule_state, cache_status, has_unread_body, log, .. } =
        transaction;
    let cache = (&cache_status, &config.server.cache_name);
    rule_state.end(client);
    let delivered = match delivered {
        Ok(delivered) => delivered,
        Err(DeliverError::Before(Fault::ClientGone)) => {
            log.trace.step(|| RequestStep::Fault { fault: Fault::ClientGone.reason() });
            return Err(Fault::ClientGone);
        }
        Err(DeliverError::Before(fault) | DeliverError::Midway(fault)) => {
            log.trace.step(|| RequestStep::Fault { fault: fault.reason() });
            client.worker.fault(fault, client.peer.ip());
            log.end(client, BROKEN_OFF, 0, cache);
            return Err(fault);
        }
    };
    let log = match rule_state.is_off(HttpControl::Logging) {
        true => log.without_entry(),
        false => log,
    };
    log.end(client, delivered.status, delivered.body_bytes, cache);
    Ok(match delivered.keep_alive && !has_unread_body {
        true => AfterResponse::KeepAlive,
        // If this server decides to end the connection, the client may already be sending its next
        // request.
        false if has_unread_body || last => AfterResponse::Linger,
        false => AfterResponse::Close,
    })
}
