//! Hedging: a request that an origin has not answered after some time also goes to another origin,
//! and the first answer is used (Dean and Barroso, The Tail at Scale, CACM 2013).
//!
//! Both attempts run in the task of the request. Dropping the slower one closes its connection and
//! returns its permit, as a timeout does.

use std::pin::pin;
use std::time::Duration;

use http::Method;
use tokio::time::timeout;

use super::answer::OriginAnswer;
use super::choose::Candidate;
use super::exchange::Exchange;
use super::failover::{Attempts, ExchangeError};
use super::group::OriginChoice;
use super::permits::ExchangePermit;
use super::upload::OutboundBody;
use crate::clock;
use crate::config::OriginMember;
use crate::counters::Counter;
use crate::poll_once::poll_once;
use crate::trace::RequestStep;

/// The answer, or the origin whose attempt failed last and the reason.
pub(super) type AttemptEnd<'a> = Result<OriginAnswer, (OriginChoice<'a>, ExchangeError)>;

impl<'a> Exchange<'a> {
    /// Returns the time in milliseconds after which the request goes to a second origin too; `None`
    /// if it never does. Only a request that changes nothing at the origin is hedged, because both
    /// origins may carry it out.
    pub(super) fn hedge_ms(&self) -> Option<u64> {
        let message = &self.outbound.message;
        let is_safe = matches!(*message.line.method(), Method::GET | Method::HEAD);
        let may = is_safe && !message.has_body() && self.outbound.upgrade.is_none();
        let hedge_ms = u64::from(self.route_settings().hedge_ms);
        (hedge_ms > 0 && may && self.has_others()).then_some(hedge_ms)
    }

    /// Sends the request to the chosen origin and, if it has not answered after `hedge_ms`, to
    /// another one. If one attempt fails, the answer of the other one is used.
    pub(super) async fn attempt_hedged(
        &self,
        choice: OriginChoice<'a>,
        attempts: &Attempts,
        hedge_ms: u64,
    ) -> AttemptEnd<'a> {
        // The time to wait for a permit does not count: the client has caused the wait itself.
        let permit = match self.permit_in_turn(&choice.pool).await {
            Ok(permit) => permit,
            Err(fault) => {
                return Err((choice, ExchangeError::Unsent(OutboundBody::None, fault.into())));
            }
        };
        let began_us = clock::monotonic_us();
        let mut first = pin!(self.attempt_of(choice.clone(), permit, attempts));
        let limit = Duration::from_millis(hedge_ms);
        if let Ok(answered) = timeout(limit, first.as_mut()).await {
            return answered;
        }
        let Some((other, permit)) = self.hedge_origin(&choice, attempts).await else {
            return first.await;
        };
        self.worker().count(Counter::HedgedRequests);
        self.trace.step(|| RequestStep::Hedge);
        let mut second = pin!(self.attempt_of(other, permit, attempts));
        attempts.has_other.set(true);
        let (answered, is_first) = tokio::select! {
            biased;
            answered = first.as_mut() => (answered, true),
            answered = second.as_mut() => (answered, false),
        };
        attempts.has_other.set(false);
        let (answered, is_first) = match answered {
            Ok(answer) => {
                if !is_first {
                    // The first origin would have taken at least so long.
                    let took_us = clock::monotonic_us().saturating_sub(began_us);
                    self.note_latency(&choice, took_us);
                    let authority = &choice.pool.authority;
                    choice.in_group.note_lost_hedge(self.worker(), authority);
                }
                (Ok(answer), is_first)
            }
            Err((failed, error)) => {
                self.note_failed(&failed, &error, None);
                attempts.note_ended(&error);
                self.trace.step(|| RequestStep::OriginFailed { fault: error.fault().reason() });
                match is_first {
                    true => (second.await, false),
                    false => (first.await, true),
                }
            }
        };
        if answered.is_ok() && !is_first {
            self.worker().count(Counter::HedgesWon);
        }
        answered
    }

    async fn attempt_of(
        &self,
        choice: OriginChoice<'a>,
        permit: ExchangePermit,
        attempts: &Attempts,
    ) -> AttemptEnd<'a> {
        let attempt = self.attempt(&choice, permit, attempts, (OutboundBody::None, None));
        attempt.await.map_err(|error| (choice, error))
    }

    /// Chooses the origin for the second attempt, and takes its permit and a retry; `None` if there
    /// is no other origin, if it has no permit free, or if the budget does not allow hedging. A
    /// hedge waits for nothing, because waiting would only add to the load.
    async fn hedge_origin(
        &self,
        first: &OriginChoice<'a>,
        attempts: &Attempts,
    ) -> Option<(OriginChoice<'a>, ExchangePermit)> {
        let (members, tried) = (self.route.origins.members(), attempts.tried.get());
        let is_first = |member: &&OriginMember| member.address.authority == first.address.authority;
        let (zone, own) = (&self.settings().zone, members.iter().find(is_first));
        let rank = own.map(|own| own.rank(zone)).unwrap_or_default();
        // An origin takes no requests from one of a lower rank.
        let is_peer = |one: &Candidate| one.rank <= rank;
        let may_start = attempts.left.get() > 1 && !self.is_late(attempts);
        if !may_start || !self.usable(attempts).iter().any(is_peer) {
            return None;
        }
        let other = self.next_origin(attempts, false)?;
        let permit = poll_once(pin!(self.permit(&other.pool))).await;
        let Some(permit) = permit.and_then(Result::ok).filter(|_| self.takes_hedge()) else {
            // The request may still go on to this origin after a failure.
            attempts.tried.set(tried);
            return None;
        };
        attempts.left.update(|left| left - 1);
        Some((other, permit))
    }

    /// Takes a retry for a hedge. If too few are left, counts a refused hedge and returns false.
    fn takes_hedge(&self) -> bool {
        let percent = self.settings().origin_retry_percent;
        let retries = &self.worker().origins.group(&self.route.origins).retries;
        let is_taken = retries.take_spare(percent, clock::monotonic_ms());
        if !is_taken {
            self.worker().count(Counter::HedgesRefused);
        }
        is_taken
    }
}
