//! How a request that is not a hit gets its answer: by leading a fetch, by following one, or by
//! asking the origin for itself.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use forebay_cache::{BodyReader, CollapseResult, FollowOutcome, Follower, Leader, RenewedHead};
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::policy::meta::StoredMeta;
use forebay_http::policy::reuse::{ReuseDecision, judge};
use forebay_http::policy::vary::{FieldNames, secondary_key};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::lead::{FetchOutcome, FetchTask, lead};
use crate::accept::Client;
use crate::clock;
use crate::config::Config;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::fetch::{InterimQueue, OriginAnswer, OwnedRequest};
use crate::key::RouteMatch;
use crate::limits::JOINS_MAX;
use crate::lookup::{
    Forward, Hit, LookupQuery, LookupResult, Stale, lookup, stored_meta, validated,
};
use crate::parse::Request;
use crate::rules::HookContext;

/// Where the answer comes from.
pub(crate) enum Source<'w> {
    /// To be used without waiting.
    Stored(Box<Hit<'w>>),
    Growing(BodyReader, Box<StoredMeta>),
    Pass(Box<OriginAnswer>),
    /// Nobody else's fetch will do: ask the origin for this request alone.
    Alone,
}

/// An answer's source, and what Cache-Status says of it.
pub(crate) struct Obtained<'w> {
    pub(crate) source: Source<'w>,
    pub(crate) cache: CacheStatus,
}

/// What an answer is needed for.
pub(crate) struct Needs<'a> {
    pub(crate) client: &'a Client,
    pub(crate) config: &'a Rc<Config>,
    pub(crate) place: RouteMatch<'a>,
    pub(crate) request: &'a Request<'a>,
    pub(crate) key: &'a [u8],
    /// Gets what comes before the answer.
    pub(crate) interim: &'a InterimQueue,
    pub(crate) ruling: &'a HookContext<'a>,
}

/// Obtains an answer for a request that `forward` speaks of. `variant` holds its secondary key if
/// the resource is known to have variants.
///
/// # Errors
/// The fetch that this request leads has failed.
pub(crate) async fn obtain<'w>(
    needs: &Needs<'w>,
    mut forward: Forward,
    variant: &mut Vec<u8>,
) -> Result<Obtained<'w>, Fault> {
    let mut cache = CacheStatus::forwarded(forward.reason);
    for _ in 0..JOINS_MAX {
        match needs.join(&forward, variant) {
            CollapseResult::Declined => {
                cache.detail = Some("declined");
                break;
            }
            CollapseResult::Stored => match needs.look_again(variant) {
                LookupResult::Hit(hit) => {
                    needs.client.worker.count(Counter::Collapsed);
                    cache.collapsed = true;
                    cache.ttl = Some(hit.ttl);
                    return Ok(Obtained { source: Source::Stored(Box::new(hit)), cache });
                }
                // Since it was looked at, another process has taken over.
                LookupResult::Forward(again) if !again.fills => break,
                LookupResult::Forward(again) => forward = again,
            },
            CollapseResult::Leader(leader, follower) => {
                let variant = forward.varies.then_some(&**variant);
                return needs.lead((leader, follower), forward.stale, variant, cache).await;
            }
            CollapseResult::Follower(follower) => {
                match needs.follow(follower, forward.varies, variant).await {
                    Followed::Source(source, ttl) => {
                        cache.collapsed = true;
                        cache.ttl = Some(ttl);
                        needs.client.worker.count(Counter::Collapsed);
                        return Ok(Obtained { source, cache });
                    }
                    Followed::OtherVariant => forward.varies = true,
                    Followed::Nothing(detail) => {
                        cache.detail = Some(detail);
                        break;
                    }
                }
            }
        }
    }
    Ok(Obtained { source: Source::Alone, cache })
}

/// What following brought.
enum Followed<'w> {
    /// An answer, and how long it stays fresh.
    Source(Source<'w>, i64),
    /// The answer is for other request fields; the own secondary key is known now.
    OtherVariant,
    /// Nothing that this request may use.
    Nothing(&'static str),
}

impl<'w> Needs<'w> {
    fn join(&self, forward: &Forward, variant: &[u8]) -> CollapseResult {
        let variant = forward.varies.then_some(variant);
        let known = forward.stale.as_ref().map(|stale| stale.known);
        self.client.worker.store.collapse(self.key, variant, known, clock::monotonic_ms())
    }

    fn wanted(&self) -> LookupQuery<'w> {
        LookupQuery {
            store: &self.client.worker.store,
            is_used: self.client.worker.store_is_used(),
            is_ruled_out: false,
            route: self.place.route,
            key: self.key,
            now: clock::unix_seconds(),
        }
    }

    fn look_again(&self, variant: &mut Vec<u8>) -> LookupResult<'w> {
        lookup(&self.wanted(), self.request, variant)
    }

    /// What was declared good, if it is still there.
    fn validated(&self, renewed: &RenewedHead, variant: Option<&[u8]>) -> Option<Hit<'w>> {
        validated(&self.wanted(), self.request, variant, renewed.version()?)
    }

    async fn lead(
        &self,
        (leader, follower): (Leader, Follower),
        stale: Option<Stale>,
        variant: Option<&[u8]>,
        mut cache: CacheStatus,
    ) -> Result<Obtained<'w>, Fault> {
        let asked = OwnedRequest::copy(self.request, self.ruling)?;
        let task = FetchTask {
            worker: Rc::clone(&self.client.worker),
            config: Rc::clone(self.config),
            number: self.place.route.number,
            asked,
            stale,
            interim: self.interim.clone(),
        };
        let (own, told) = oneshot::channel();
        self.client.worker.spawn(lead(task, leader, own));
        match told.await {
            Ok(FetchOutcome::Follow { fwd_status, progress }) => {
                self.ruling.rule_state.resume(progress);
                cache.fwd_status = Some(fwd_status);
                let source = self.own_source(follower, variant).await?;
                cache.stored = !matches!(source, Source::Alone);
                if !cache.stored {
                    cache.detail = Some("not-reusable");
                }
                Ok(Obtained { source, cache })
            }
            Ok(FetchOutcome::Pass { answer, detail, progress }) => {
                self.ruling.rule_state.resume(progress);
                cache.fwd_status = Some(answer.received_status);
                cache.detail = Some(detail);
                Ok(Obtained { source: Source::Pass(answer), cache })
            }
            Ok(FetchOutcome::Failed(fault)) => Err(fault),
            // The task ended in a panic, which it has counted.
            Err(_) => Err(Fault::Internal),
        }
    }

    /// Waits for another request's fetch, and checks that its answer may be used for this one.
    async fn follow(
        &self,
        mut follower: Follower,
        varies: bool,
        variant: &mut Vec<u8>,
    ) -> Followed<'w> {
        let directives = &self.request.directives;
        if directives.no_cache || directives.max_age == Some(0) {
            // It asks for an answer that is newer than itself.
            return Followed::Nothing("not-followed");
        }
        let wait_ms = u64::from(self.config.server.collapse_wait_ms_max);
        let outcome = poll_fn(|cx| follower.poll_outcome(cx));
        match timeout(Duration::from_millis(wait_ms), outcome).await {
            Err(_) => {
                self.client.worker.count(Counter::CollapseTimeouts);
                Followed::Nothing("collapse-timeout")
            }
            Ok(FollowOutcome::Growing(reader)) => self.follow_growing(reader, variant),
            Ok(FollowOutcome::Validated(renewed)) => {
                let hit = self.validated(&renewed, varies.then_some(&**variant));
                let usable = hit.and_then(|hit| Some((self.usable(&hit.stored.meta)?, hit)));
                match usable {
                    Some((ttl, hit)) => Followed::Source(Source::Stored(Box::new(hit)), ttl),
                    None => Followed::Nothing("not-reusable"),
                }
            }
            Ok(FollowOutcome::Declined) => Followed::Nothing("not-storable"),
            Ok(FollowOutcome::Failed) => Followed::Nothing("leader-failed"),
        }
    }

    fn follow_growing(&self, reader: BodyReader, variant: &mut Vec<u8>) -> Followed<'w> {
        if let Some(base) = reader.base() {
            variant.clear();
            let Some(names) = FieldNames::decode(&base.names) else {
                return Followed::Nothing("not-reusable");
            };
            secondary_key(names, self.request.head.fields(), variant);
            if *variant != base.variant {
                return Followed::OtherVariant;
            }
        }
        let usable = growing_meta(&reader).and_then(|meta| Some((self.usable(&meta)?, meta)));
        match usable {
            Some((ttl, meta)) => Followed::Source(Source::Growing(reader, meta), ttl),
            None => Followed::Nothing("not-reusable"),
        }
    }

    /// Freshness left, if this request may use the response (RFC 9111 §4).
    fn usable(&self, meta: &StoredMeta) -> Option<i64> {
        match judge(meta, &self.request.directives, clock::unix_seconds()) {
            ReuseDecision::Serve { ttl, .. } => Some(ttl),
            ReuseDecision::Validate(_) => None,
        }
    }
    /// What the leader's own client follows; it may use the answer whatever its freshness.
    async fn own_source(
        &self,
        mut follower: Follower,
        variant: Option<&[u8]>,
    ) -> Result<Source<'w>, Fault> {
        match poll_fn(|cx| follower.poll_outcome(cx)).await {
            FollowOutcome::Growing(reader) => {
                let meta = growing_meta(&reader).ok_or(Fault::OriginBroke)?;
                Ok(Source::Growing(reader, meta))
            }
            // What was confirmed may have been purged at the same moment, or left for room.
            FollowOutcome::Validated(renewed) => Ok(self
                .validated(&renewed, variant)
                .map_or(Source::Alone, |hit| Source::Stored(Box::new(hit)))),
            FollowOutcome::Declined | FollowOutcome::Failed => Err(Fault::OriginBroke),
        }
    }
}

fn growing_meta(reader: &BodyReader) -> Option<Box<StoredMeta>> {
    stored_meta(reader.head()).map(Box::new)
}
