//! Obtains the response to a request that is not a hit: the request leads a fetch, follows one, or
//! is passed through.
//!
//! Requests that may share a response are collapsed: the first request leads, and a separate task
//! fetches and stores the response. All of the requests follow the same growing record. A request
//! that cannot use the leader's response is passed through. If a fetch fails, the requests that
//! waited for it start another fetch. After a few failures, a few of them are passed through, and
//! the others fail too.
//!
//! The response to a request with Authorization is probably meant for its client alone. So such a
//! request does not follow a fetch whose response has not arrived yet, and other requests follow
//! the fetch of such a request only once the response is being stored (RFC 9111 §3.5).

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use forebay_cache::{CollapseResult, Follower, Leader, selector_list};
use forebay_http::fields::FieldBlock;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::reason::{Detail, Reason};
use tokio::sync::oneshot;

use super::abandoned::run_while_wanted;
use super::condition;
use super::decompress::decompress;
use super::exchange::ServedClient;
use super::follow::{FollowedFetch, follow, own_response};
use super::fragments::fill_missing;
use super::join::{JoinContext, JoinKey, declined_detail, joined_step};
use super::lead::{FetchOutcome, FetchTask, lead};
use super::named::NamedVariant;
use super::origins::OriginPool;
use super::owned_request::OwnedRequest;
use super::pass_through::pass_through;
use super::sent_path::sent_path;
use super::stale::has_stale;
use super::validate::{confirmed, validate};
use crate::clock;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::{FAILED_FETCHES_MAX, JOINS_MAX};
use crate::lookup::{ForwardPlan, LookupResult, OtherVariant, Stale};
use crate::response::{ConfirmedResponse, Response, StreamedResponse};
use crate::trace::RequestStep;
use crate::transaction::Transaction;

/// Obtains the response to a request that the cache cannot answer.
///
/// # Errors
/// The exchange of this request failed, or the fetches that it followed failed.
pub(crate) async fn resolve<'t>(
    transaction: &mut Transaction<'t>,
    plan: ForwardPlan,
) -> Result<Response<'t>, Fault> {
    check_path(transaction)?;
    let is_evaluated = condition::is_evaluated(plan.reason);
    let mut response = obtain(transaction, plan).await?;
    if let Response::Streamed(streamed) = &mut response {
        decompress(transaction, streamed);
    }
    Ok(match response {
        Response::Streamed(streamed) if is_evaluated => condition::evaluate(transaction, streamed),
        response => response,
    })
}

/// Refuses a path that the route cannot rewrite, before a connection is used for it.
fn check_path(transaction: &Transaction<'_>) -> Result<(), Fault> {
    sent_path(transaction.route().route, transaction.request.target.path_query).map(drop)
}

async fn obtain<'t>(
    transaction: &mut Transaction<'t>,
    mut plan: ForwardPlan,
) -> Result<Response<'t>, Fault> {
    if let Some(missing) = plan.missing.take() {
        if let Some(response) = fill_missing(transaction, &missing, plan.varies).await? {
            return Ok(response);
        }
        plan = match transaction.look_up() {
            LookupResult::Hit(hit) => return Ok(Response::Stored(hit)),
            LookupResult::Forward(plan) => *plan,
        };
    }
    // Only requests that go to the origin by themselves need the memory for it.
    if !plan.collapses() {
        return Box::pin(pass_through(transaction, false)).await;
    }
    let is_whole = plan.fills;
    match collapse(transaction, plan).await? {
        Some(response) => Ok(response),
        None if is_whole => Box::pin(ask_alone(transaction)).await,
        // The request is for a range, and its response is not stored, so the response says little
        // about the responses to other requests.
        None => Box::pin(pass_through(transaction, false)).await,
    }
}

/// Obtains a response that no other request shares. A stored response is still validated first:
/// even if requests cannot share it, the origin need not send it again.
async fn ask_alone<'t>(transaction: &mut Transaction<'t>) -> Result<Response<'t>, Fault> {
    let stale = match transaction.look_up() {
        LookupResult::Forward(plan) => plan.stale.map(|stale| (stale, plan.varies)),
        // Another fetch has stored the response in the meantime.
        LookupResult::Hit(hit) => {
            let (status, meta) = (transaction.cache_status, Some(&hit.stored.meta));
            note_collapsed(transaction, status, hit.ttl, meta);
            return Ok(Response::Stored(hit));
        }
    };
    if let Some((stale, varies)) = stale.filter(|(stale, _)| stale.meta.can_validate())
        && let Some(response) = validate(transaction, &stale, varies).await?
    {
        return Ok(response);
    }
    // The whole response may be storable, but the parts that arrive belong to different versions.
    let parts_differ = Detail::caused(Reason::Declined, Some(Reason::ContentRange));
    let is_shareable = transaction.cache_status.detail != Some(parts_differ);
    pass_through(transaction, is_shareable).await
}

/// Leads a fetch or follows another request's fetch. Returns `None` if the request has to be passed
/// through. Sets the cache status of the transaction, unless this request leads a fetch that fails.
async fn collapse<'t>(
    transaction: &mut Transaction<'t>,
    mut plan: ForwardPlan,
) -> Result<Option<Response<'t>>, Fault> {
    let worker = transaction.worker();
    let mut status = CacheStatus::forwarded(plan.reason);
    let (began_ms, mut failed_count) = (clock::monotonic_ms(), 0);
    for joins_left in (0..JOINS_MAX).rev() {
        let joined = join(transaction, &plan);
        transaction.trace().step(|| RequestStep::Fetch(joined_step(&joined)));
        match joined {
            CollapseResult::Declined(declined) => {
                worker.count(Counter::HitsForMiss);
                status.detail = Some(declined_detail(declined.reason));
                break;
            }
            CollapseResult::Stored => match transaction.look_up() {
                LookupResult::Hit(hit) => {
                    note_collapsed(transaction, status, hit.ttl, Some(&hit.stored.meta));
                    return Ok(Some(Response::Stored(hit)));
                }
                // Another process has taken over since the first lookup.
                LookupResult::Forward(again) if !again.collapses() => {
                    status.detail = again.detail;
                    break;
                }
                LookupResult::Forward(again) => plan = *again,
            },
            CollapseResult::Leader(leader, follower) => {
                return start_fetch(transaction, leader, follower, plan, status).await;
            }
            CollapseResult::Follower(follower) => {
                match follow(transaction, follower, plan.varies, began_ms).await {
                    FollowedFetch::Response { response, ttl } => {
                        note_collapsed(transaction, status, ttl, response.stored_meta());
                        return Ok(Some(response));
                    }
                    FollowedFetch::OtherVariant => plan.varies = true,
                    FollowedFetch::TooEarly | FollowedFetch::Personal => {}
                    FollowedFetch::Failed(Some(code))
                        if plan.is_stale && has_stale(transaction) =>
                    {
                        transaction.cache_status = CacheStatus { collapsed: true, ..status };
                        return Err(Fault::FetchesFailed(code));
                    }
                    FollowedFetch::Failed(fault_status) => {
                        // Failures caused by limits of the leading request do not count. But the
                        // origin may have received that request before it met the limits, so the
                        // number of tries is limited too.
                        failed_count += u32::from(fault_status.is_some());
                        let waited_ms = clock::monotonic_ms().saturating_sub(began_ms);
                        let limit_ms = transaction.route().route.settings.origin_first_byte_ms_max;
                        if failed_count == FAILED_FETCHES_MAX
                            || joins_left == 0
                            || waited_ms >= u64::from(limit_ms)
                        {
                            status.detail = Some(Reason::LeaderFailed.into());
                            transaction.cache_status = status;
                            let fault_status = fault_status.unwrap_or(Fault::OriginBusy.status());
                            return try_alone(transaction, fault_status).await.map(Some);
                        }
                    }
                    FollowedFetch::Unusable(detail) => {
                        status.detail = Some(detail);
                        break;
                    }
                }
            }
        }
    }
    // There is no detail yet if the request has used up its attempts to join a fetch.
    status.detail.get_or_insert(Reason::NotShared.into());
    transaction.cache_status = status;
    Ok(None)
}

/// Records that the request was answered by another request's fetch.
fn note_collapsed(
    transaction: &mut Transaction<'_>,
    status: CacheStatus,
    ttl: i64,
    meta: Option<&StoredMeta>,
) {
    transaction.worker().count(Counter::Collapsed);
    let detail = meta.and_then(StoredMeta::detail);
    transaction.cache_status = CacheStatus { collapsed: true, ttl: Some(ttl), detail, ..status };
}

/// Passes a request through after the fetches that it followed have failed, because the failures
/// may be the fault of the requests that led these fetches. Does so only while few such requests to
/// the origin are in progress, and while no other one is of the same client network.
async fn try_alone<'t>(
    transaction: &mut Transaction<'t>,
    fault_status: u16,
) -> Result<Response<'t>, Fault> {
    let pool = origin_pool(transaction);
    let Some(_try) = pool.try_alone(transaction.client.network()) else {
        transaction.worker().count(Counter::CollapseFailures);
        return Err(Fault::FetchesFailed(fault_status));
    };
    Box::pin(pass_through(transaction, false)).await
}

pub(super) fn origin_pool(transaction: &Transaction<'_>) -> Rc<OriginPool> {
    let route = transaction.route();
    transaction.worker().origins.likely_pool(route, &transaction.config.server)
}

pub(super) fn join(transaction: &Transaction<'_>, plan: &ForwardPlan) -> CollapseResult {
    let (worker, network) = (transaction.worker(), transaction.client.network());
    let context = JoinContext::new(worker, transaction.config, transaction.route(), network);
    let key = JoinKey { primary: transaction.key, variant: transaction.variant };
    context.join(key, &transaction.request, plan)
}

/// Collects the data that a fetch for this request needs.
///
/// # Errors
/// The request cannot be forwarded.
pub(super) fn fetch_task(
    transaction: &Transaction<'_>,
    (stale, others): (Option<Stale>, Vec<OtherVariant>),
    unit: Option<Range<u64>>,
) -> Result<FetchTask, Fault> {
    let original = transaction.hook_context().view.original;
    Ok(FetchTask {
        worker: Rc::clone(transaction.worker()),
        config: Rc::clone(transaction.config),
        client: ServedClient::of(transaction),
        route_number: transaction.route().route.number,
        request: OwnedRequest::copy(&transaction.request, original)?,
        rule_state: transaction.rule_state.clone(),
        stale,
        others,
        unit,
        interim: transaction.interim(),
        trace: transaction.trace().clone(),
        probe: Cell::new(None),
    })
}

/// Starts a fetch in a separate task, and follows it.
async fn start_fetch<'t>(
    transaction: &mut Transaction<'t>,
    leader: Leader,
    follower: Follower,
    plan: ForwardPlan,
    mut status: CacheStatus,
) -> Result<Option<Response<'t>>, Fault> {
    let ForwardPlan { stale, others, mut varies, unit, .. } = plan;
    let mut known = stale.as_ref().map(|stale| stale.known);
    let worker = transaction.worker();
    let task = fetch_task(transaction, (stale, others), unit)?;
    let (outcome, ended) = oneshot::channel();
    let (network, followers) = (task.client.network, leader.watch_followers());
    let fetch = lead(task, leader, outcome);
    worker.spawn(run_while_wanted(Rc::clone(worker), network, followers, fetch));
    let response = match ended.await {
        Ok(FetchOutcome::Stored { fwd_status, progress, own_lines, first_part }) => {
            transaction.rule_state.resume(progress);
            transaction.first_part = first_part;
            status.fwd_status = Some(fwd_status);
            let response = own_response(transaction, follower, varies).await?;
            let response = response.map(|response| with_own_lines(response, own_lines));
            status.stored = response.is_some();
            status.detail = match &response {
                Some(response) => response.stored_meta().and_then(StoredMeta::detail),
                None => Some(Reason::NotReusable.into()),
            };
            response
        }
        Ok(FetchOutcome::Confirmed { head, own_lines, progress, detail, variant, is_outdated }) => {
            transaction.rule_state.resume(progress);
            status.detail = Some(detail.into());
            status.fwd_status = Some(304);
            if let Some(NamedVariant { selector, version }) = variant {
                // From now on, the transaction is handled as a request that selects the confirmed
                // variant.
                *transaction.variant = selector_list(&selector);
                (known, varies) = (Some(version), true);
            }
            known.and_then(|known| {
                let response = confirmed(transaction, (known, varies), Some(head), own_lines);
                if is_outdated {
                    let variant = varies.then_some(&**transaction.variant);
                    transaction.store().forget(transaction.key, variant, known);
                }
                response
            })
        }
        Ok(FetchOutcome::NotStored { answer, detail, progress }) => {
            transaction.rule_state.resume(progress);
            status.fwd_status = Some(answer.received_status);
            status.detail = Some(detail.into());
            let streamed = StreamedResponse { answer: *answer, upload: None };
            Some(Response::Streamed(Box::new(streamed)))
        }
        Ok(FetchOutcome::PartNotStored { detail, progress }) => {
            transaction.rule_state.resume(progress);
            status.detail = Some(detail.into());
            None
        }
        Ok(FetchOutcome::Failed(fault)) => return Err(fault),
        // The task panicked. `Worker::spawn` has counted and logged the panic.
        Err(_) => return Err(Fault::Internal),
    };
    transaction.cache_status = status;
    Ok(response)
}

/// Adds the header lines that are meant only for this client to the response that the client gets.
fn with_own_lines(response: Response<'_>, own_lines: FieldBlock) -> Response<'_> {
    match response {
        Response::Growing(mut growing) => {
            growing.own_lines = own_lines;
            Response::Growing(growing)
        }
        Response::Stored(hit) if !own_lines.bytes().is_empty() => {
            Response::Confirmed(Box::new(ConfirmedResponse { hit, head: None, own_lines }))
        }
        response => response,
    }
}
