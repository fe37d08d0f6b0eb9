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

/// The configuration and state that decide how a request joins the fetches of its key.
pub(crate) struct JoinContext<'a> {
    pub(crate) route: RouteMatch<'a>,
    worker: &'a Worker,
    config: &'a Config,
    network: ClientNetwork,
    pool: Rc<OriginPool>,
}

/// The key of a request that joins a fetch.
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
        let pool = worker.origins.likely_pool(route.site, &config.server);
        JoinContext { route, worker, config, network, pool }
    }

    /// Leads a fetch or follows one, if that is possible.
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

    /// Returns the result that [`join`](Self::join) would have, without joining.
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

    /// Whether the last attempt to connect to the origin has failed, as this worker knows it.
    pub(crate) fn origin_is_down(&self) -> bool {
        self.pool.health.is_down()
    }

    /// Returns the reason why the last attempt to connect to the origin has failed.
    pub(crate) fn origin_failure(&self) -> Option<Fault> {
        self.pool.health.failure()
    }

    /// Whether the origin is down and a request would probe it now.
    pub(crate) fn would_probe(&self) -> bool {
        self.pool.health.is_probe_due()
    }
}

/// Whether the response may be meant only for the client that sent the request, although others may
/// share it.
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

/// Returns the reason why a response was not stored.
pub(super) fn reason_of(declined: DeclineReason) -> Option<Reason> {
    match declined {
        DeclineReason::TooLarge => Some(Reason::TooLarge),
        DeclineReason::Code(code) => Reason::from_code(code),
    }
}

/// Returns the step of a trace for the result of joining.
pub(super) fn joined_step(joined: &CollapseResult) -> FetchStep {
    match joined {
        CollapseResult::Stored => FetchStep::Found,
        CollapseResult::Leader(..) => FetchStep::Leads,
        CollapseResult::Follower(_) => FetchStep::Follows,
        CollapseResult::Declined(declined) => FetchStep::Declined(declined_detail(declined.reason)),
    }
}

/// Returns the detail of a request for a key that is declined.
pub(crate) fn declined_detail(declined: DeclineReason) -> Detail {
    Detail::caused(Reason::Declined, reason_of(declined))
}
