//! The path of a request through the server. Read this file first.
//!
//! ```text
//! accept → parse → key → lookup ─┬─ hit ──────────────────────────────► deliver
//!                                └─ miss → fetch (or follow) → store → deliver
//! ```
//!
//! Each step is a folder of the same name. [`respond`] calls the steps in this order. A hit runs
//! from `parse` to `deliver` without waiting and without a heap allocation, unless it sends more
//! fragments of a long body than may be pinned at a time; a request that goes to the origin waits,
//! and so does a PURGE.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use forebay_http::fields::{FieldId, FieldSet};
use forebay_http::policy::cache_status::{CacheOutcome, CacheStatus};
use forebay_http::policy::reason::Reason;
use forebay_http::request::Method;
use forebay_rules::apply::OwnAnswer;
use forebay_rules::ast::{Hook, HttpControl};

use crate::accept::Client;
use crate::admission::{RouteAdmission, admit, finish_login};
use crate::buffers::Buffers;
use crate::clock;
use crate::config::Config;
use crate::counters::Counter;
use crate::deliver::{
    BegunDelivery, DeliverError, Delivered, DeliveryRest, begin, deliver_fault, finish, refuse,
    relay_interim,
};
use crate::early_hints::hint;
use crate::fault::{Fault, Side};
use crate::fetch::{StaleAnswer, open_tunnel, resolve, stale_at_once, stale_if_error};
use crate::key::{
    LocalRequest, RouteMatch, check_connect, check_content, https_url, is_loop, local_request,
    redirect_url,
};
use crate::log::{Access, LogOwner};
use crate::login::Login;
use crate::lookup::{ForwardPlan, LookupResult, check_extended_connect};
use crate::outcome::{
    note_fault_reason, note_forward, note_hit, note_stale_hit, note_stale_if_error, note_tunnel,
};
use crate::parse::{Request, ResponseForm};
use crate::response::{Response, SyntheticResponse};
use crate::send_queue::SendQueue;
use crate::store::{PurgeRequest, purge};
use crate::trace::RequestStep;
use crate::transaction::{Transaction, TransactionStart};

/// The state of the answer to a request after the steps that need no wait.
pub(crate) enum AnswerState<'a> {
    /// The response is in the send queue.
    AtOnce(Result<AfterResponse, Fault>),
    /// The remaining work. It is boxed, so that a connection holds no memory for it while its
    /// requests are hits and while it is idle.
    Later(Pin<Box<dyn Future<Output = Result<AfterResponse, Fault>> + 'a>>),
}

/// Answers the request whose head of `head_bytes` is at the start of the input. If this is the
/// `last` request of the connection, the connection ends after the response.
///
/// If the result is a fault, a part of the response has been sent, so the connection must be reset.
pub(crate) fn answer<'a>(
    client: &'a Client,
    config: &'a Rc<Config>,
    buffers: &'a mut Buffers,
    head_bytes: usize,
    last: bool,
) -> AnswerState<'a> {
    let Buffers { input, parts, queue, transaction: buffers } = buffers;
    let has_body = parts.seen().intersects(FRAMING_FIELDS);
    let (head, body) = input.split_head(head_bytes, has_body);
    let head = parts.head(head);
    client.begin_request(&config.server.trusted_proxies, head.fields());
    let mut log = Access::begin(client, head);
    let mut received = match Request::check(head, client.request_scheme()) {
        Ok(received) => received,
        Err(fault) => {
            let cache_status = (&CacheStatus::UNUSED, &config.server.cache_name);
            client.worker.fault(fault, client.address());
            let owner = LogOwner { config, site: None };
            log.begin_entry((client, head, client.worker.request_number()), owner);
            log.note_fault(fault);
            let refused = refuse(client, queue, fault, ResponseForm::UNKNOWN);
            let sent = (refused.status, refused.body_bytes);
            client.worker.site_counts.note_answer(None, sent, &CacheStatus::UNUSED);
            log.end((client, owner), refused.status, refused.body_bytes, cache_status);
            return AnswerState::AtOnce(Ok(AfterResponse::Linger));
        }
    };
    received.form.keep_alive &= !last;
    let start = TransactionStart { client, config, received, body, buffers, log };
    let mut transaction = Transaction::begin(start);
    let delivered = match respond(&mut transaction) {
        Ok(Progress::Response(response)) => {
            trace_response(&transaction, &response);
            match begin(&mut transaction, queue, response) {
                BegunDelivery::Queued(delivered) => Ok(delivered),
                BegunDelivery::Rest(rest) => {
                    let rest = finish_answer(transaction, queue, rest, last);
                    return AnswerState::Later(Box::pin(rest));
                }
            }
        }
        Ok(Progress::Waits(wait)) => {
            return AnswerState::Later(Box::pin(wait_and_answer(transaction, queue, wait, last)));
        }
        Err(fault) => Err(DeliverError::Before(fault)),
    };
    AnswerState::AtOnce(end(transaction, queue, delivered, last))
}

/// Sends the rest of a response of which only the first part is in the send queue.
async fn finish_answer(
    mut transaction: Transaction<'_>,
    queue: &mut SendQueue,
    rest: DeliveryRest<'_>,
    last: bool,
) -> Result<AfterResponse, Fault> {
    let delivered = finish(&mut transaction, queue, rest).await;
    end(transaction, queue, delivered, last)
}

/// Answers a request that has to wait for its response.
async fn wait_and_answer(
    mut transaction: Transaction<'_>,
    queue: &mut SendQueue,
    wait: Wait,
    last: bool,
) -> Result<AfterResponse, Fault> {
    let interim = transaction.interim();
    let (client, form) = (transaction.client, transaction.form());
    let began_us = clock::monotonic_us();
    let response = {
        // The memory of the wait is freed before the client gets the response, which may take long.
        let mut work = Box::pin(respond_later(&mut transaction, wait));
        relay_interim(client, form, &interim, queue, work.as_mut()).await
    };
    let wait_us = clock::monotonic_us().saturating_sub(began_us);
    client.worker.site_counts.note_wait(transaction.count_slot(), wait_us);
    let delivered = match response {
        Ok(Ok(response)) => {
            trace_response(&transaction, &response);
            match begin(&mut transaction, queue, response) {
                BegunDelivery::Queued(delivered) => Ok(delivered),
                BegunDelivery::Rest(rest) => finish(&mut transaction, queue, rest).await,
            }
        }
        Ok(Err(fault)) => Err(DeliverError::Before(fault)),
        Err(error) => Err(error),
    };
    end(transaction, queue, delivered, last)
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

/// The result of the steps that need no wait.
#[expect(clippy::large_enum_variant, reason = "a box would cost each hit an allocation")]
enum Progress<'t> {
    Response(Response<'t>),
    Waits(Wait),
}

/// The work that a request has to wait for.
enum Wait {
    Login(Box<Login>),
    Purge,
    Tunnel,
    Origin(Box<ForwardPlan>),
}

/// Runs the steps from a checked request to its response, or to the first step that has to wait;
/// [`respond_later`] then continues.
///
/// # Errors
/// The request cannot be answered as asked; nothing has been sent yet.
// RFC: 9111-5.2.1.7-1
fn respond<'t>(transaction: &mut Transaction<'t>) -> Result<Progress<'t>, Fault> {
    #[cfg(test)]
    crate::tests::panic_if_asked(transaction.request.target.path_query);
    if is_loop(&transaction.request, &transaction.worker().via) {
        return Err(Fault::Loop);
    }
    if transaction.worker().has_challenges.get()
        && let Some(proof) = challenge_proof(transaction)
    {
        return Ok(Progress::Response(SyntheticResponse::AcmeChallenge(proof).into()));
    }
    if let Some(answer) = transaction.run_request_rules(Hook::ReadRequest)? {
        return Ok(ruled(transaction, answer));
    }
    let route = transaction.find_route()?;
    if route.route.is_restricted() {
        match admit(transaction)? {
            RouteAdmission::Served => {}
            RouteAdmission::Login(login) => return Ok(Progress::Waits(Wait::Login(login))),
            RouteAdmission::HttpsRedirect => return redirect_to_https(transaction),
        }
    }
    respond_to_admitted(transaction, route)
}

/// Runs the steps of [`respond`] for a client that the route serves.
///
/// # Errors
/// See [`respond`].
#[inline]
fn respond_to_admitted<'t>(
    transaction: &mut Transaction<'t>,
    route: RouteMatch<'t>,
) -> Result<Progress<'t>, Fault> {
    if let Some(answer) = transaction.run_request_rules(Hook::Remap)? {
        return Ok(ruled(transaction, answer));
    }
    check_content(route, &transaction.request)?;
    if transaction.client.transport.is_http2_stream() {
        check_extended_connect(&transaction.request, &route.route.settings)?;
    }
    if route.route.settings.ignore_client_no_cache {
        let directives = &mut transaction.request.directives;
        *directives = directives.accepting_fresh();
    }
    let local = local_request(route, &transaction.request);
    match local {
        Some(LocalRequest::Options) => {
            return Ok(Progress::Response(SyntheticResponse::Options.into()));
        }
        Some(LocalRequest::HttpsRedirect) => return redirect_to_https(transaction),
        Some(LocalRequest::Answered) => return answer_of_route(transaction),
        Some(LocalRequest::Connect) => {
            let is_http2 = transaction.client.transport.is_http2_stream();
            check_connect(route, &transaction.request, is_http2)?;
            return Ok(Progress::Waits(Wait::Tunnel));
        }
        Some(LocalRequest::Purge) | None => {}
    }
    transaction.normalise();
    transaction.write_key();
    if local == Some(LocalRequest::Purge) {
        return Ok(Progress::Waits(Wait::Purge));
    }
    match transaction.look_up() {
        LookupResult::Hit(hit) => {
            note_hit(transaction, &hit);
            trace_lookup(transaction);
            Ok(Progress::Response(Response::Stored(hit)))
        }
        LookupResult::Forward(plan) => Ok(Progress::Waits(Wait::Origin(plan))),
    }
}

/// Runs the steps after [`respond`].
///
/// # Errors
/// See [`respond`].
async fn respond_later<'t>(
    transaction: &mut Transaction<'t>,
    wait: Wait,
) -> Result<Response<'t>, Fault> {
    match wait {
        Wait::Login(login) => {
            finish_login(transaction, *login).await?;
            match respond_to_admitted(transaction, transaction.route())? {
                Progress::Response(response) => Ok(response),
                Progress::Waits(wait) => Box::pin(respond_later(transaction, wait)).await,
            }
        }
        Wait::Purge => {
            let asked = PurgeRequest {
                worker: transaction.worker(),
                client: transaction.client.known_address(),
                route: transaction.route(),
                request: &transaction.request,
            };
            let purged = purge(asked).await?;
            Ok(SyntheticResponse::Purged(purged).into())
        }
        Wait::Tunnel => {
            note_tunnel(transaction);
            match open_tunnel(transaction).await {
                Ok(tunnel) => Ok(Response::Tunnel(Box::new(tunnel))),
                Err(fault) => {
                    note_fault_reason(transaction, fault);
                    Err(fault)
                }
            }
        }
        Wait::Origin(plan) => {
            let response = respond_without_hit(transaction, *plan).await;
            if let Some(detail) = transaction.cache_status.detail {
                transaction.worker().count_reason(detail.reason);
            }
            response
        }
    }
}

fn trace_response(transaction: &Transaction<'_>, response: &Response<'_>) {
    transaction.trace().step(|| RequestStep::Response { source: response.source() });
}

/// Answers a request that is not a hit: with a stale response, or with the origin's response.
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
    let response = resolve(transaction, plan).await;
    drop(probe);
    match stale_if_error(transaction, &response) {
        Some(stale) => {
            note_stale_if_error(transaction, &stale, &response);
            transaction.trace().step(|| RequestStep::Stale(transaction.cache_status));
            Ok(Response::Stored(stale.hit))
        }
        None => {
            if let Err(fault) = &response {
                note_fault_reason(transaction, *fault);
            }
            response
        }
    }
}

fn trace_lookup(transaction: &Transaction<'_>) {
    transaction.trace().step(|| RequestStep::Lookup(transaction.cache_status));
}

/// Returns the proof for a certificate authority that checks a challenge of the order in progress;
/// `None` for all other requests. This comes before rules, routes and redirects, which must not
/// keep a certificate from being renewed.
#[cold]
fn challenge_proof(transaction: &Transaction<'_>) -> Option<Box<str>> {
    let request = transaction.received();
    if !matches!(request.head.method(), Method::Get | Method::Head) {
        return None;
    }
    let (host, worker) = (request.target.authority?.host, transaction.worker());
    let proof = worker.challenge_content(host, request.target.path_query)?;
    worker.count(Counter::AcmeHttpChallenges);
    Some(proof)
}

/// Redirects a request without TLS to the same URL with `https`.
#[cold]
fn redirect_to_https<'t>(transaction: &Transaction<'t>) -> Result<Progress<'t>, Fault> {
    let port = transaction.route().route.settings.https_redirect_port;
    let url = https_url(transaction.received(), port)?;
    transaction.worker().count(Counter::HttpsRedirects);
    Ok(Progress::Response(SyntheticResponse::Redirect(url.into()).into()))
}

/// Returns the redirect or the fixed answer of the route.
///
/// # Errors
/// See [`redirect_url`].
#[cold]
fn answer_of_route<'t>(transaction: &Transaction<'t>) -> Result<Progress<'t>, Fault> {
    let Some(redirection) = transaction.route().route.settings.redirect.get() else {
        transaction.worker().count(Counter::FixedAnswers);
        return Ok(Progress::Response(SyntheticResponse::Fixed.into()));
    };
    let url = redirect_url(redirection, transaction.received())?;
    transaction.worker().count(Counter::Redirects);
    Ok(Progress::Response(SyntheticResponse::Moved(url.into()).into()))
}

/// Returns the response that header rules have made in place of the requested one.
fn ruled<'t>(transaction: &Transaction<'t>, answer: OwnAnswer) -> Progress<'t> {
    transaction.worker().count(Counter::RuledAnswers);
    Progress::Response(SyntheticResponse::Ruled(Box::new(answer)).into())
}

/// The status that the access log shows for a response that broke off. The status that was sent
/// would look like a success.
const BROKEN_OFF: u16 = 499;

/// Ends a transaction: answers a fault that occurred before the response, runs the last rules,
/// writes the access log, and decides the fate of the connection.
fn end(
    mut transaction: Transaction<'_>,
    queue: &mut SendQueue,
    delivered: Result<Delivered, DeliverError>,
    last: bool,
) -> Result<AfterResponse, Fault> {
    transaction.begin_entry();
    let owner = transaction.log_owner();
    let mut wanted_only_stored = false;
    let delivered = match delivered {
        Err(DeliverError::Before(fault)) if fault != Fault::ClientGone => {
            wanted_only_stored = fault == Fault::OnlyIfCached;
            transaction.trace().step(|| RequestStep::Fault { fault: fault.reason() });
            let worker = transaction.worker();
            worker.fault(fault, transaction.client.address());
            worker.count(Counter::FaultsSent);
            transaction.log.note_fault(fault);
            Ok(deliver_fault(&transaction, queue, fault))
        }
        delivered => delivered,
    };
    let (site, counts) = (transaction.count_slot(), &transaction.worker().site_counts);
    let Transaction { client, config, rule_state, cache_status, has_unread_body, mut log, .. } =
        transaction;
    let cache = (&cache_status, &config.server.cache_name);
    rule_state.end(client);
    if delivered.is_err() {
        counts.note_broken(site, &cache_status);
    }
    let delivered = match delivered {
        Ok(delivered) => delivered,
        Err(DeliverError::Before(Fault::ClientGone)) => {
            log.trace.step(|| RequestStep::Fault { fault: Fault::ClientGone.reason() });
            return Err(Fault::ClientGone);
        }
        Err(DeliverError::Before(fault) | DeliverError::Midway(fault)) => {
            log.trace.step(|| RequestStep::Fault { fault: fault.reason() });
            client.worker.fault(fault, client.address());
            if fault.side() == Side::Origin {
                client.worker.count(Counter::ServerErrors);
            }
            log.note_fault(fault);
            log.end((client, owner), BROKEN_OFF, 0, cache);
            return Err(fault);
        }
    };
    counts.note_answer(site, (delivered.status, delivered.body_bytes), &cache_status);
    // A client that asks for a stored response only is no sign of an error.
    if delivered.status >= 500 && !wanted_only_stored {
        client.worker.count(Counter::ServerErrors);
    }
    let log = match rule_state.is_off(HttpControl::Logging) {
        true => log.without_entry(),
        false => log,
    };
    log.end((client, owner), delivered.status, delivered.body_bytes, cache);
    Ok(match delivered.keep_alive && !has_unread_body {
        true => AfterResponse::KeepAlive,
        // If this server decides to end the connection, the client may already be sending its next
        // request.
        false if has_unread_body || last => AfterResponse::Linger,
        false => AfterResponse::Close,
    })
}
