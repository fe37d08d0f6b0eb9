//! Decides which origin gets a request, and whether the request is sent again after a failure: to
//! the next origin of its route or, if the route has only one, to the same origin once more.

use super::answer::OriginAnswer;
use super::connect::ConnectFailure;
use super::exchange::Exchange;
use super::group::{OriginChoice, TriedOrigins};
use super::upload::{OutboundBody, UploadProgress};
use crate::clock;
use crate::counters::Counter;
use crate::events::Event;
use crate::fault::{Fault, Side};
use crate::trace::RequestStep;

/// The reason why an attempt to send a request brought no response.
pub(super) enum ExchangeError {
    /// No byte of the request was sent: no connection could be opened, or the connection was
    /// closed.
    Unsent(OutboundBody, ConnectFailure),
    /// The connection ended before the head of a response was complete.
    Dead {
        /// The system's error, if there was one.
        cause: Option<String>,
        /// Whether the origin reset the connection. An origin that closes an idle connection does
        /// not reset it: even if the next request crosses the end of the connection, that end is
        /// read before the reset that answers the request.
        is_reset: bool,
    },
    Fault(Fault),
}

impl ExchangeError {
    fn fault(&self) -> Fault {
        match self {
            ExchangeError::Unsent(_, failure) => failure.fault,
            ExchangeError::Fault(fault) => *fault,
            ExchangeError::Dead { .. } => Fault::OriginBroke,
        }
    }

    /// Returns the details that the fault does not contain: the address and the system's error.
    fn cause(&self) -> Option<&str> {
        match self {
            ExchangeError::Unsent(_, ConnectFailure { cause, .. })
            | ExchangeError::Dead { cause, .. } => cause.as_deref(),
            ExchangeError::Fault(_) => None,
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
        let (mut tried, began_ms) = (TriedOrigins::default(), clock::monotonic_ms());
        let mut choice = self.next_origin(&mut tried).ok_or(Fault::Internal)?;
        let mut tries_left = self.route_settings().origin_tries_max;
        self.note_request();
        loop {
            let error = match self.attempt(&choice, upload, progress.as_ref()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let fault = error.fault();
            self.note_failed(&choice, &error);
            tries_left = tries_left.saturating_sub(1);
            if tries_left == 0 || !self.may_go_on(&error, began_ms) {
                return Err(fault);
            }
            let next = self.next_origin(&mut tried);
            if next.is_none() && !self.may_repeat(&error) {
                return Err(fault);
            }
            if !matches!(error, ExchangeError::Unsent(..)) && !self.takes_retry() {
                return Err(fault);
            }
            self.worker().count(match next {
                Some(_) => Counter::OriginFailovers,
                None => Counter::OriginRetries,
            });
            self.trace.step(|| RequestStep::OriginFailed { fault: fault.reason() });
            choice = next.unwrap_or(choice);
            upload = match error {
                ExchangeError::Unsent(upload, _) => upload,
                _ => OutboundBody::None,
            };
        }
    }

    fn next_origin(&self, tried: &mut TriedOrigins) -> Option<OriginChoice<'a>> {
        let url_hash = || self.outbound.message.line.hash();
        self.worker().origins.choose(&self.route.origins, self.settings(), url_hash, tried)
    }

    fn has_others(&self) -> bool {
        self.route.origins.members().len() > 1
    }

    /// Records the request in the retry budget, which grows with each request.
    fn note_request(&self) {
        let percent = self.settings().origin_retry_percent;
        self.worker().origins.group(&self.route.origins).retries.note_request(percent);
    }

    /// Whether the only origin of a route may get the request once more: the origin closed the
    /// connection before it answered, and the request was not repeated before (RFC 9110 §9.2.2). If
    /// so, marks the request as repeated.
    fn may_repeat(&self, error: &ExchangeError) -> bool {
        let is_dead = matches!(error, ExchangeError::Dead { .. });
        is_dead && !self.has_others() && !self.is_repeated.replace(true)
    }

    /// Takes a retry from the budget. If the budget is empty, counts a refused retry and returns
    /// false.
    fn takes_retry(&self) -> bool {
        let percent = self.settings().origin_retry_percent;
        let retries = &self.worker().origins.group(&self.route.origins).retries;
        let is_taken = retries.take(percent, clock::monotonic_ms());
        if !is_taken {
            self.worker().count(Counter::OriginRetriesRefused);
        }
        is_taken
    }

    /// Whether the error permits sending the request again, to another origin or to the same one:
    /// its time limit has not passed, and either none of it was sent, or it may be repeated.
    fn may_go_on(&self, error: &ExchangeError, began_ms: u64) -> bool {
        let settings = self.route_settings();
        let limit_ms = u64::from(settings.origin_connect_ms_max)
            + u64::from(settings.origin_first_byte_ms_max);
        if clock::monotonic_ms().saturating_sub(began_ms) >= limit_ms {
            return false;
        }
        match error {
            ExchangeError::Unsent(_, failure) => failure.fault.side() == Side::Origin,
            ExchangeError::Dead { .. } | ExchangeError::Fault(Fault::OriginFirstByteTimeout) => {
                self.outbound.message.is_repeatable()
            }
            ExchangeError::Fault(_) => false,
        }
    }

    /// Reports a failure of an origin. If its site has other origins, an origin that fails
    /// repeatedly is ejected for a while.
    fn note_failed(&self, choice: &OriginChoice<'_>, error: &ExchangeError) {
        let (fault, authority) = (error.fault(), &choice.address.authority);
        if fault.side() != Side::Origin {
            return;
        }
        self.worker().origin_fault(fault, authority, error.cause());
        choice.member.counts.note_failed(fault);
        if !self.has_others() || matches!(fault, Fault::OriginAnswer(_)) {
            return;
        }
        let (now_ms, is_unreachable) = (clock::monotonic_ms(), fault.is_unreachable());
        let ejected = choice.member.ejection.note_failed(now_ms, is_unreachable);
        if let Some(for_ms) = ejected {
            self.worker().count(Counter::OriginEjections);
            choice.member.counts.note_ejected();
            let (name, reason) = (choice.group.name_of(choice.address), fault.reason());
            let detail =
                format_args!("{name}: {reason}; the origin gets no requests for {for_ms} ms");
            self.worker().event(Event::OriginDown, &detail);
        }
    }
}
