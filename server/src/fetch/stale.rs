//! Serves stale responses on purpose (RFC 9111 §4.2.4, RFC 5861): immediately, while a fetch in the
//! background validates the response, or in place of an error of the origin.

use std::rc::Rc;

use forebay_cache::CollapseResult;
use forebay_http::policy::reuse::ForwardReason;
use forebay_http::policy::stale::{StaleCause, is_failure_status};
use tokio::sync::oneshot;

use super::health::ProbeGuard;
use super::lead::{FetchTask, lead};
use super::resolve::{fetch_task, join, origin_pool};
use crate::accept::ClientNetwork;
use crate::counters::Counter;
use crate::fault::{Fault, Side};
use crate::limits::{BACKGROUND_FETCHES_MAX, BACKGROUND_FETCHES_PER_NETWORK_MAX};
use crate::lookup::{ForwardPlan, Hit};
use crate::response::Response;
use crate::trace::{FetchStep, RequestStep};
use crate::transaction::Transaction;
use crate::worker::Worker;

/// A stored response that is served although it is stale.
pub(crate) struct StaleHit<'t> {
    pub(crate) hit: Hit<'t>,
    pub(crate) cause: StaleCause,
}

/// Decides whether a stale response answers a request without waiting for the origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StalePlan {
    is_down: bool,
    fills: bool,
    only_if_cached: bool,
}

impl StalePlan {
    /// Creates the plan. `is_down` says whether the last attempt to reach the origin failed, and
    /// `fills` whether a response to the request may be stored.
    pub(crate) fn new(is_down: bool, fills: bool, only_if_cached: bool) -> StalePlan {
        StalePlan { is_down, fills, only_if_cached }
    }

    /// The causes for which a stale response may answer, in the order in which they are tried.
    pub(crate) fn causes(self) -> impl Iterator<Item = StaleCause> {
        let causes =
            [(StaleCause::Revalidating, self.validates()), (StaleCause::Unreachable, self.is_down)];
        causes.into_iter().filter(|(_, applies)| *applies).map(|(cause, _)| cause)
    }

    /// Whether the stale response is validated in the background when it answers the request.
    pub(crate) fn validates(self) -> bool {
        self.fills && !self.only_if_cached
    }

    /// Whether the request may probe an origin that is down.
    pub(crate) fn may_probe(self) -> bool {
        !self.fills && !self.only_if_cached
    }
}

/// Whether a stale response answers a request without waiting for the origin.
#[expect(clippy::large_enum_variant, reason = "it is made once and taken apart at once")]
pub(crate) enum StaleAnswer<'t> {
    /// The stale response answers the request.
    AtOnce(StaleHit<'t>),
    /// The request has to wait for the origin. The guard is held until the origin has answered.
    AfterOrigin(Option<ProbeGuard>),
}

/// Decides whether a stale response answers the request without waiting for the origin. If so,
/// starts a fetch in the background that validates the response. `fills` says whether a response to
/// this request may be stored; if not, the request starts no validation, but it may have to probe
/// an origin that is down.
// RFC: 5861-3-1
pub(crate) fn stale_at_once<'t>(transaction: &mut Transaction<'t>, fills: bool) -> StaleAnswer<'t> {
    let health = Rc::clone(&origin_pool(transaction).health);
    let only_if_cached = transaction.request.directives.only_if_cached;
    let plan = StalePlan::new(health.is_down(), fills, only_if_cached);
    let stale = plan.causes().find_map(|cause| {
        let hit = transaction.look_up_stale(cause)?;
        Some(StaleHit { hit, cause })
    });
    let Some(stale) = stale else { return StaleAnswer::AfterOrigin(None) };
    if plan.validates() {
        validate_in_background(transaction, &stale.hit);
    } else if plan.may_probe()
        && let Some(probe) = health.probe()
    {
        return StaleAnswer::AfterOrigin(Some(probe));
    }
    StaleAnswer::AtOnce(stale)
}

/// Returns the stale response that answers the request in place of the origin's error; `None` if
/// `result` is not an error of the origin, or no stale response may be served.
// RFC: 9111-5.2.2.2-3
pub(crate) fn stale_if_error<'t>(
    transaction: &mut Transaction<'t>,
    result: &Result<Response<'t>, Fault>,
) -> Option<StaleHit<'t>> {
    let cause = match result {
        Ok(Response::Streamed(streamed)) if is_failure_status(streamed.answer.received_status) => {
            StaleCause::Error
        }
        Ok(_) => return None,
        Err(fault) if fault.is_unreachable() => StaleCause::Unreachable,
        Err(fault) if fault.side() == Side::Origin || *fault == Fault::OriginBusy => {
            cause_of_failure(transaction)
        }
        Err(_) => return None,
    };
    let hit = transaction.look_up_stale(cause)?;
    Some(StaleHit { hit, cause })
}

/// Whether a stale response may be served after the fetch of another request has failed.
pub(super) fn has_stale(transaction: &mut Transaction<'_>) -> bool {
    let cause = cause_of_failure(transaction);
    transaction.look_up_stale(cause).is_some()
}

fn cause_of_failure(transaction: &Transaction<'_>) -> StaleCause {
    match origin_pool(transaction).health.is_down() {
        true => StaleCause::Unreachable,
        false => StaleCause::Error,
    }
}

/// Starts a fetch that validates a stored response, unless such a fetch is already in progress, or
/// too many fetches run in the background. While the origin is down, it gets only one such request
/// at a time.
fn validate_in_background(transaction: &Transaction<'_>, hit: &Hit<'_>) {
    let health = Rc::clone(&origin_pool(transaction).health);
    let is_down = health.is_down();
    if is_down && !health.is_probe_due() {
        return;
    }
    let network = transaction.client.network();
    let Some(place) = BackgroundFetch::begin(transaction.worker(), network) else { return };
    let varies = !transaction.variant.is_empty();
    let stale = Some(hit.stored.to_stale());
    let plan = ForwardPlan {
        fills: true,
        varies,
        is_stale: true,
        stale,
        ..ForwardPlan::new(ForwardReason::Stale)
    };
    let CollapseResult::Leader(leader, _) = join(transaction, &plan) else { return };
    let Ok(task) = fetch_task(transaction, (plan.stale, Vec::new()), None) else { return };
    let task = task.in_background(is_down.then(|| health.probe()).flatten());
    let task = FetchTask { client: task.client.unattended(), ..task };
    let (outcome, _) = oneshot::channel();
    transaction.worker().count(Counter::BackgroundFetches);
    transaction.trace().step(|| RequestStep::Fetch(FetchStep::Background));
    transaction.worker().spawn(async move {
        let _place = place;
        lead(task, leader, outcome).await;
    });
}

/// Counts a fetch in the background, until this value is dropped.
struct BackgroundFetch {
    worker: Rc<Worker>,
    network: ClientNetwork,
}

impl BackgroundFetch {
    fn begin(worker: &Rc<Worker>, network: ClientNetwork) -> Option<BackgroundFetch> {
        let mut fetches = worker.background_fetches.borrow_mut();
        let own = fetches.iter().filter(|other| **other == network).count();
        if fetches.len() >= BACKGROUND_FETCHES_MAX || own >= BACKGROUND_FETCHES_PER_NETWORK_MAX {
            return None;
        }
        fetches.push(network);
        Some(BackgroundFetch { worker: Rc::clone(worker), network })
    }
}

impl Drop for BackgroundFetch {
    fn drop(&mut self) {
        let mut fetches = self.worker.background_fetches.borrow_mut();
        if let Some(index) = fetches.iter().position(|network| *network == self.network) {
            fetches.swap_remove(index);
        }
    }
}
