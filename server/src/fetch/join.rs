//! Joining the fetches of a key: the terms on which a request joins, and a preview of the result.

use std::rc::Rc;

use forebay_cache::{CollapseResult, DeclineReason, JoinPolicy, JoinPreview, JoinTerms};
use forebay_http::fields::FieldId;
use forebay_http::policy::directives::RequestDirectives;
use forebay_http::policy::reason::{Detail, Reason};

use super::origins::OriginPool;
use crate::accept::ClientNetwork;
use crate::clock;
use crate::config::Config;
use crate::fault::Fault;
use crate::key::RouteMatch;
use crate::limits::FOLLOW_STALLED_MS;
use crate::lookup::{ForwardPlan, Stale};
use crate::parse::Request;
use crate::trace::FetchStep;
use crate::worker::Worker;

/// The configuration and the state that decide how a request joins the fetches of its key.
pub(crate) struct JoinContext<'a> {
    pub(crate) route: RouteMatch<'a>,
    worker: &'a Worker,
    config: &'a Config,
    network: ClientNetwork,
    pool: Rc<OriginPool>,
}

/// The key that determines which fetches a request can join.
#[derive(Clone, Copy)]
pub(crate) struct JoinKey<'a> {
    pub(crate) primary: &'a [u8],
    /// The request's selectors, which are used if the resource is known to have variants.
    pub(crate) variant: &'a [u8],
}

impl<'a> JoinContext<'a> {
    pub(crate) fn new(
        worker: &'a Worker,
        config: &'a Config,
        route: RouteMatch<'a>,
        network: ClientNetwork,
    ) -> JoinContext<'a> {
        let pool = worker.origins.likely_pool(route, &config.server);
        JoinContext { route, worker, config, network, pool }
    }

    /// Leads a fetch or follows another request's fetch, if possible.
    pub(super) fn join(
        &self,
        key: JoinKey<'_>,
        request: &Request<'_>,
        plan: &ForwardPlan,
    ) -> CollapseResult {
        let variant = plan.varies.then_some(key.variant);
        let known = plan.stale.as_ref().map(|stale| stale.known);
        let terms = self.terms(request, plan);
        self.worker.store.collapse(key.primary, variant, known, terms)
    }

    /// Returns the result that [`join`](Self::join) would have, but does not join.
    pub(crate) fn preview(
        &self,
        key: JoinKey<'_>,
        request: &Request<'_>,
        plan: &ForwardPlan,
    ) -> JoinPreview {
        let variant = plan.varies.then_some(key.variant);
        let known = plan.stale.as_ref().map(|stale| stale.known);
        let terms = self.terms(request, plan);
        self.worker.store.preview_collapse(key.primary, variant, known, terms)
    }

    fn terms(&self, request: &Request<'_>, plan: &ForwardPlan) -> JoinTerms {
        let route = self.route.route;
        JoinTerms {
            now_ms: clock::monotonic_ms(),
            policy: join_policy(&request.directives, plan),
            declined_ms: u64::from(route.settings.hit_for_miss_ms),
            stalled_ms: FOLLOW_STALLED_MS,
            share: self.config.sites.share_of(route.number),
            has_turn: self.pool.has_turn(self.network),
            is_part: plan.unit.is_some(),
            is_personal: has_cookie(request),
        }
    }

    /// Whether this worker considers the origin down: its last attempt to connect failed a short
    /// time ago.
    pub(crate) fn origin_is_down(&self) -> bool {
        self.pool.health.is_down()
    }

    /// Returns the reason why the origin is down; `None` if it is not.
    pub(crate) fn origin_failure(&self) -> Option<Fault> {
        self.pool.health.failure()
    }

    /// Whether a request would probe the origin now, if the origin is down.
    pub(crate) fn would_probe(&self) -> bool {
        self.pool.health.is_probe_due()
    }
}

/// Whether the request has a cookie, so that the response may be meant only for its client,
/// although other clients are allowed to share it.
pub(super) fn has_cookie(request: &Request<'_>) -> bool {
    request.head.fields().contains(FieldId::Cookie)
}

fn join_policy(directives: &RequestDirectives, plan: &ForwardPlan) -> JoinPolicy {
    let permits_authorized = |stale: &Stale| stale.meta.permits_authorized;
    match directives.is_authorized && !plan.stale.as_ref().is_some_and(permits_authorized) {
        true => JoinPolicy::Arrived,
        false => JoinPolicy::Any,
    }
}

/// Returns the reason why an earlier response was not stored; `None` if it is unknown.
pub(super) fn reason_of(declined: DeclineReason) -> Option<Reason> {
    match declined {
        DeclineReason::TooLarge => Some(Reason::TooLarge),
        DeclineReason::Code(code) => Reason::from_code(code),
    }
}

/// Returns the trace step for the result of joining.
pub(super) fn joined_step(joined: &CollapseResult) -> FetchStep {
    match joined {
        CollapseResult::Stored => FetchStep::Found,
        CollapseResult::Leader(..) => FetchStep::Leads,
        CollapseResult::Follower(_) => FetchStep::Follows,
        CollapseResult::Declined(declined) => FetchStep::Declined(declined_detail(declined.reason)),
    }
}

/// Returns the `detail` of Cache-Status for a request whose key is declined.
pub(crate) fn declined_detail(declined: DeclineReason) -> Detail {
    Detail::caused(Reason::Declined, reason_of(declined))
}
