//! Decides which origin gets a request, and whether the request is sent again after a failure: to
//! the next origin of its route or, if no other one gets requests, to the same origin once more.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::rc::Rc;

use http::Request;
use hyper::client::conn::TrySendError;

use super::answer::OriginAnswer;
use super::choose::Candidate;
use super::connect::ConnectFailure;
use super::exchange::Exchange;
use super::group::{ChoiceTerms, GroupMember, OriginChoice, TriedOrigins};
use super::hedge::AttemptEnd;
use super::retry_budget::RetryBudget;
use super::upload::{OutboundBody, UploadProgress};
use crate::clock;
use crate::counters::Counter;
use crate::fault::{Fault, Side};
use crate::trace::RequestStep;
use crate::transport::tls::refused_certificate;

/// The reason why an attempt to send a request brought no response.
pub(super) enum ExchangeError {
    /// No byte of the request was sent: no permit was free in time, no connection could be opened,
    /// or the connection was closed.
    Unsent(OutboundBody, ConnectFailure),
    /// The connection ended before the head of a response was complete.
    Dead {
        /// The system's error, if there was one.
        cause: Option<String>,
        /// Whether the origin reset the connection. An origin that closes an idle connection does
        /// not reset it: even if the next request crosses the end of the connection, that end is
        /// read before the reset that answers the request.
        is_reset: bool,
        /// Whether the end of a shared connection is recorded already, by another exchange.
        is_known: bool,
    },
    /// The answer had an error status, and the request goes on to another origin.
    ErrorStatus,
    Fault(Fault),
}

/// The attempts to send one request.
pub(super) struct Attempts {
    pub(super) tried: Cell<TriedOrigins>,
    /// How often the request may still be sent, including the last attempt that has begun.
    pub(super) left: Cell<u8>,
    /// The time of the first attempt.
    began_ms: u64,
    /// Whether an origin was sent the request, or a part of it, before the last attempt that ended.
    pub(super) was_sent: Cell<bool>,
    /// Whether two attempts are in progress. If one of them fails, the other goes on.
    pub(super) has_other: Cell<bool>,
    /// The origins whose answers the request has left because of their statuses.
    left_answers: RefCell<Vec<LeftAnswer>>,
}

/// An answer with an error status that the client does not get.
struct LeftAnswer {
    origin: GroupMember,
    authority: Rc<str>,
    status: u16,
}

impl Attempts {
    /// Begins attempts of which there are at most `tries_max`.
    pub(super) fn begin(tries_max: u8) -> Attempts {
        Attempts {
            tried: Cell::default(),
            left: Cell::new(tries_max),
            began_ms: clock::monotonic_ms(),
            was_sent: Cell::default(),
            has_other: Cell::default(),
            left_answers: RefCell::default(),
        }
    }

    /// Records the end of an attempt that another one follows.
    pub(super) fn note_ended(&self, error: &ExchangeError) {
        self.was_sent.update(|was_sent| was_sent || !matches!(error, ExchangeError::Unsent(..)));
    }
}

impl ExchangeError {
    /// Returns the reason why a connection over HTTP/1.1 brought no response.
    pub(super) fn of_http1(mut error: TrySendError<Request<OutboundBody>>) -> ExchangeError {
        if let Some(request) = error.take_message() {
            return ExchangeError::Unsent(request.into_body(), Fault::OriginBroke.into());
        }
        let error = error.into_error();
        let source = std::error::Error::source(&error);
        let broken = source.and_then(|source| source.downcast_ref::<std::io::Error>());
        if let Some(fault) = broken.and_then(refused_certificate) {
            return ExchangeError::Fault(fault);
        }
        let is_cut = error.is_incomplete_message() || error.is_canceled() || error.is_closed();
        if is_cut || broken.is_some() {
            let is_reset = broken.is_some_and(|error| error.kind() == ErrorKind::ConnectionReset);
            let cause = broken.map(std::io::Error::to_string);
            return ExchangeError::Dead { cause, is_reset, is_known: false };
        }
        if error.is_user() || error.is_body_write_aborted() {
            return ExchangeError::Fault(Fault::RequestBody);
        }
        ExchangeError::Fault(Fault::OriginAnswer("the origin's answer is malformed"))
    }

    pub(super) fn fault(&self) -> Fault {
        match self {
            ExchangeError::Unsent(_, failure) => failure.fault,
            ExchangeError::Fault(fault) => *fault,
            ExchangeError::Dead { .. } => Fault::OriginBroke,
            ExchangeError::ErrorStatus => {
                Fault::OriginAnswer("the origin answered with an error status")
            }
        }
    }

    /// Returns the details that the fault does not contain: the address and the system's error.
    fn cause(&self) -> Option<&str> {
        match self {
            ExchangeError::Unsent(_, ConnectFailure { cause, .. })
            | ExchangeError::Dead { cause, .. } => cause.as_deref(),
            ExchangeError::ErrorStatus | ExchangeError::Fault(_) => None,
        }
    }
}

impl<'a> Exchange<'a> {
    /// Sends the request to one origin of the route after the other, until one answers or the
    /// request must not be repeated.
    pub(super) async fn run(
        &self,
        upload: Option<(OutboundBody, UploadProgress)>,
    ) -> Result<OriginAnswer, Fault> {
        let (mut upload, progress) =
            upload.map_or((OutboundBody::None, None), |(u, p)| (u, Some(p)));
        let attempts = Attempts::begin(self.route_settings().origin_tries_max);
        let mut choice = self.next_origin(&attempts, false).ok_or(Fault::Internal)?;
        self.note_request();
        let mut dead = None;
        loop {
            let attempted = match self.hedge_ms() {
                // The large future is boxed, because most requests are not hedged.
                Some(ms) => Box::pin(self.attempt_hedged(choice, &attempts, ms)).await,
                None => self.attempt_in_turn(choice, &attempts, upload, progress.as_ref()).await,
            };
            let (failed, error) = match attempted {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let fault = error.fault();
            self.note_failed(&failed, &error, progress.as_ref());
            if !self.may_go_on(&error, &attempts) {
                return Err(fault);
            }
            let next = match !attempts.was_sent.get() && self.may_repeat(&error, &attempts) {
                true => None,
                false => {
                    // The request does not wait for a permit a second time.
                    let next = self.next_origin(&attempts, fault == Fault::OriginBusy);
                    Some(next.or_else(|| self.back_to(&mut dead, &error)).ok_or(fault)?)
                }
            };
            // An error status has taken its retry before the answer was given up.
            let is_free = matches!(error, ExchangeError::Unsent(..) | ExchangeError::ErrorStatus);
            if !is_free && !self.takes_retry() {
                return Err(fault);
            }
            attempts.left.update(|left| left - 1);
            self.worker().count(match next {
                Some(_) => Counter::OriginFailovers,
                None => Counter::OriginRetries,
            });
            self.trace.step(|| RequestStep::OriginFailed { fault: fault.reason() });
            attempts.note_ended(&error);
            choice = match next {
                None => failed,
                Some(next) => {
                    if matches!(error, ExchangeError::Dead { .. }) {
                        dead = Some(failed);
                    }
                    next
                }
            };
            upload = match error {
                ExchangeError::Unsent(upload, _) => upload,
                _ => OutboundBody::None,
            };
        }
    }

    /// Sends the request to the chosen origin, once it is the request's turn.
    async fn attempt_in_turn(
        &self,
        choice: OriginChoice<'a>,
        attempts: &Attempts,
        upload: OutboundBody,
        progress: Option<&UploadProgress>,
    ) -> AttemptEnd<'a> {
        let attempted = match self.permit_in_turn(&choice.pool).await {
            Ok(permit) => self.attempt(&choice, permit, attempts, (upload, progress)).await,
            Err(fault) => Err(ExchangeError::Unsent(upload, fault.into())),
        };
        attempted.map_err(|error| (choice, error))
    }

    /// Chooses an origin that the request has not been sent to; if it `waits_no_more`, one that has
    /// a permit free.
    pub(super) fn next_origin(
        &self,
        attempts: &Attempts,
        waits_no_more: bool,
    ) -> Option<OriginChoice<'a>> {
        let terms = ChoiceTerms { network: self.client.network, waits_no_more };
        let url_hash = || self.outbound.message.line.hash();
        let (group, settings) = (&self.route.origins, self.settings());
        let (origins, mut tried) = (&self.worker().origins, attempts.tried.get());
        let choice = origins.choose(group, settings, terms, url_hash, &mut tried);
        attempts.tried.set(tried);
        choice
    }

    /// Returns the origins to which the request may still go, except those that are ejected.
    pub(super) fn usable(&self, attempts: &Attempts) -> Vec<Candidate> {
        let (origins, settings) = (&self.worker().origins, self.settings());
        origins.usable(&self.route.origins, settings, self.client.network, attempts.tried.get())
    }

    /// Whether the request may still go to an origin that answers. Such an origin may be ejected
    /// because it is slow.
    fn has_answering(&self, attempts: &Attempts) -> bool {
        let (origins, settings) = (&self.worker().origins, self.settings());
        let tried = attempts.tried.get();
        origins.has_answering(&self.route.origins, settings, self.client.network, tried)
    }

    pub(super) fn has_others(&self) -> bool {
        self.route.origins.members().len() > 1
    }

    /// Records the request in the retry budget, which grows with each request.
    pub(super) fn note_request(&self) {
        let percent = self.settings().origin_retry_percent;
        self.worker().origins.group(&self.route.origins).retries.note_request(percent);
    }

    /// Whether the origin gets the request once more: it closed the connection before it answered,
    /// no other origin gets requests, and the request was not repeated before (RFC 9110 §9.2.2). An
    /// origin that failed once answers more likely than one that is ejected. If so, marks the
    /// request as repeated.
    fn may_repeat(&self, error: &ExchangeError, attempts: &Attempts) -> bool {
        let is_dead = matches!(error, ExchangeError::Dead { .. });
        is_dead && self.usable(attempts).is_empty() && !self.is_repeated.replace(true)
    }

    /// Returns `dead`, the last origin that closed the connection before it answered, if the
    /// request may go back to it: none of it was sent to the origin that was to repeat it, and the
    /// request was not repeated before. If so, marks the request as repeated.
    fn back_to(
        &self,
        dead: &mut Option<OriginChoice<'a>>,
        error: &ExchangeError,
    ) -> Option<OriginChoice<'a>> {
        let is_unsent = matches!(error, ExchangeError::Unsent(..));
        dead.take_if(|_| is_unsent && !self.is_repeated.replace(true))
    }

    /// Takes a retry from the budget. If the budget is empty, returns false, and counts the request
    /// as refused unless it has been counted.
    pub(super) fn takes_retry(&self) -> bool {
        self.takes(RetryBudget::take)
    }

    fn takes(&self, take: impl Fn(&RetryBudget, u8, u64) -> bool) -> bool {
        let percent = self.settings().origin_retry_percent;
        let retries = &self.worker().origins.group(&self.route.origins).retries;
        let is_taken = take(retries, percent, clock::monotonic_ms());
        if !is_taken && !self.is_refused.replace(true) {
            self.worker().count(Counter::OriginRetriesRefused);
        }
        is_taken
    }

    /// Whether an answer with this status counts as a failure of the origin.
    pub(super) fn is_error(&self, status: u16) -> bool {
        self.has_others() && self.route_settings().origin_error_statuses.has(status)
    }

    /// Whether the request goes on after an answer with this status: to another attempt that is in
    /// progress, or to another origin. In the latter case, takes a retry from the budget; error
    /// statuses are the failures that a client can most easily cause, so they leave half of a full
    /// budget to connections that end.
    ///
    /// An error status counts as a failure of the origin unless another origin gives one to the
    /// same request, because then the reason is more likely the request or its client.
    pub(super) fn leaves(
        &self,
        attempts: &Attempts,
        choice: &OriginChoice<'_>,
        status: u16,
    ) -> bool {
        let mut left = attempts.left_answers.borrow_mut();
        if !self.is_error(status) {
            // Errors are often fast, and the other attempt may end well.
            if attempts.has_other.get() && (status >= 500 || status == 429) {
                return true;
            }
            for LeftAnswer { origin, authority, status } in left.drain(..) {
                origin.note_error_status(self.worker(), &authority, status);
            }
            return false;
        }
        let (origin, authority) = (&choice.in_group, &choice.pool.authority);
        let has_next = || self.has_answering(attempts);
        let may_go_on = || self.may_go_on(&ExchangeError::ErrorStatus, attempts);
        let takes = || self.takes(RetryBudget::take_spare);
        if attempts.has_other.get() || may_go_on() && has_next() && takes() {
            let (origin, authority) = (origin.clone(), Rc::clone(authority));
            left.push(LeftAnswer { origin, authority, status });
            return true;
        }
        if left.is_empty() {
            origin.note_error_status(self.worker(), authority, status);
        }
        false
    }

    /// Whether the time for further attempts is over.
    pub(super) fn is_late(&self, attempts: &Attempts) -> bool {
        let settings = self.route_settings();
        let limit_ms = u64::from(settings.origin_connect_ms_max)
            + u64::from(settings.origin_first_byte_ms_max);
        clock::monotonic_ms().saturating_sub(attempts.began_ms) >= limit_ms
    }

    /// Whether the error permits sending the request again, to another origin or to the same one:
    /// its limits of time and of tries are not reached, and either none of it was sent, or it may
    /// be repeated.
    pub(super) fn may_go_on(&self, error: &ExchangeError, attempts: &Attempts) -> bool {
        if self.is_late(attempts) || attempts.left.get() <= 1 {
            return false;
        }
        match error {
            // The request has waited for a permit already, and does not wait for another one.
            ExchangeError::Unsent(_, ConnectFailure { fault: Fault::OriginBusy, .. }) => {
                self.usable(attempts).iter().any(|one| !one.is_full)
            }
            ExchangeError::Unsent(_, failure) => failure.fault.side() == Side::Origin,
            ExchangeError::Dead { .. }
            | ExchangeError::ErrorStatus
            | ExchangeError::Fault(Fault::OriginFirstByteTimeout) => {
                self.outbound.message.is_repeatable()
            }
            ExchangeError::Fault(_) => false,
        }
    }

    /// Reports a failure of an origin. If its site has other origins, an origin that fails
    /// repeatedly is ejected for a while.
    pub(super) fn note_failed(
        &self,
        choice: &OriginChoice<'_>,
        error: &ExchangeError,
        progress: Option<&UploadProgress>,
    ) {
        let (fault, authority) = (error.fault(), &choice.address.authority);
        if fault.side() != Side::Origin || matches!(error, ExchangeError::ErrorStatus) {
            return;
        }
        self.worker().origin_fault(fault, authority, error.cause());
        choice.in_group.state.counts.note_failed(fault);
        // An origin may close a connection on which the rest of a request does not arrive.
        let is_excused = matches!(error, ExchangeError::Dead { is_known, .. }
            if *is_known || progress.is_some_and(UploadProgress::awaits_client));
        if !self.has_others() || is_excused || matches!(fault, Fault::OriginAnswer(_)) {
            return;
        }
        choice.in_group.note_failed(self.worker(), authority, fault);
        if fault == Fault::OriginFirstByteTimeout && self.outbound.message.is_repeatable() {
            let limit_ms = self.route_settings().origin_first_byte_ms_max;
            self.note_latency(choice, u64::from(limit_ms) * 1000);
        }
    }
}
