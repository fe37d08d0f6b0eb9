//! The log of the disturbances of a run. Only a disturbance excuses an error.

use std::cell::RefCell;

/// How long a disturbance has consequences after its end. During this time, bytes are in transit,
/// and the server still gives up responses that broke off.
pub(super) const ECHO_MS: u64 = 1_000;

/// How long the consequences last after a response has broken off at the origin. A fetch that waits
/// for a paused client reads the end of the response only when the client continues, and clients
/// pause for less than this time.
const FETCH_ECHO_MS: u64 = 13_000;

/// How long the server may consider the origin down after a refused connection, including the time
/// of a probe.
const DOWN_ECHO_MS: u64 = 4_000;

/// The requests that may fail because of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Requests for this URL: the origin answered a request for it with a fault.
    Url(usize),
    /// All requests that need the origin: the origin refused a connection.
    Origin,
    /// Requests that the server does not repeat: a pooled connection to the origin broke.
    Unsafe,
    /// Requests to a worker: the worker was restarted.
    Worker(usize),
}

#[derive(Clone, Copy, Debug)]
struct Disturbance {
    scope: Scope,
    /// The time of the end; `u64::MAX` while the disturbance lasts.
    ended_ms: u64,
}

/// All disturbances of a run.
#[derive(Debug, Default)]
pub(super) struct BlameLog(RefCell<Vec<Disturbance>>);

/// A request that failed, or whose response broke off.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedRequest {
    pub(super) url: usize,
    pub(super) worker: usize,
    pub(super) is_unsafe: bool,
    /// Whether a part of the response arrived, so that the server could not repeat the request.
    pub(super) has_begun: bool,
    pub(super) began_ms: u64,
}

impl BlameLog {
    /// Records a disturbance that begins and ends now.
    pub(super) fn note(&self, scope: Scope, now_ms: u64) {
        self.end(self.begin(scope), now_ms);
    }

    /// Records a disturbance that lasts until [`BlameLog::end`] is called with the returned index.
    pub(super) fn begin(&self, scope: Scope) -> usize {
        let mut entries = self.0.borrow_mut();
        entries.push(Disturbance { scope, ended_ms: u64::MAX });
        entries.len() - 1
    }

    pub(super) fn end(&self, number: usize, now_ms: u64) {
        self.0.borrow_mut()[number].ended_ms = now_ms;
    }

    /// Whether the origin refused a connection during a request, or so shortly before the request
    /// that the server may still have considered the origin down.
    pub(super) fn was_unreachable(&self, began_ms: u64) -> bool {
        let is_near = |it: &Disturbance| it.ended_ms.saturating_add(DOWN_ECHO_MS) >= began_ms;
        self.0.borrow().iter().any(|it| it.scope == Scope::Origin && is_near(it))
    }

    /// Whether the origin answered some request for the URL with a fault, either during this
    /// request or a short time before it.
    pub(super) fn was_faulty(&self, url: usize, began_ms: u64) -> bool {
        let is_near = |it: &Disturbance| it.ended_ms.saturating_add(FETCH_ECHO_MS) >= began_ms;
        self.0.borrow().iter().any(|it| it.scope == Scope::Url(url) && is_near(it))
    }

    /// Whether a worker was restarted during a request.
    pub(super) fn was_restarted(&self, worker: usize, began_ms: u64) -> bool {
        let is_restart =
            |it: &Disturbance| it.scope == Scope::Worker(worker) && it.ended_ms >= began_ms;
        self.0.borrow().iter().any(is_restart)
    }

    /// Whether a disturbance excuses the failure. A collapsed request gets the response to an
    /// earlier request; the disturbance of that request lasts as long as the origin is answering
    /// it.
    pub(super) fn excuses(&self, failed: &FailedRequest) -> bool {
        let concerns = |scope| match scope {
            Scope::Url(url) => url == failed.url,
            Scope::Origin => true,
            Scope::Unsafe => failed.is_unsafe,
            // The request may have followed a fetch of the restarted worker. Then its response
            // breaks off.
            Scope::Worker(worker) => worker == failed.worker || failed.has_begun,
        };
        let during = |it: &Disturbance| {
            let echo_ms = match it.scope {
                Scope::Url(_) => FETCH_ECHO_MS,
                _ => ECHO_MS,
            };
            it.ended_ms.saturating_add(echo_ms) >= failed.began_ms
        };
        self.0.borrow().iter().any(|it| concerns(it.scope) && during(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_excuses_the_requests_in_its_scope_while_it_lasts() {
        let log = BlameLog::default();
        let of = |url, worker, is_unsafe, has_begun, began_ms| {
            log.excuses(&FailedRequest { url, worker, is_unsafe, has_begun, began_ms })
        };
        assert!(!of(1, 0, true, true, 0), "there is no disturbance");
        let fault = log.begin(Scope::Url(1));
        assert!(of(1, 0, false, false, 90_000), "it lasts");
        log.end(fault, 200);
        assert!(of(1, 0, false, false, 200 + FETCH_ECHO_MS));
        assert!(!of(1, 0, false, false, 201 + FETCH_ECHO_MS), "it is over");
        assert!(!of(2, 0, true, true, 0), "another URL");
        log.note(Scope::Worker(3), 300);
        assert!(of(2, 3, false, false, 0));
        assert!(of(2, 0, false, true, 0), "it may have followed");
        assert!(!of(2, 0, false, false, 0), "it can be fetched again");
        log.note(Scope::Unsafe, 400);
        assert!(of(2, 0, true, false, 0));
        assert!(!of(2, 0, false, false, 0), "it can be sent again");
        log.note(Scope::Origin, 500);
        assert!(of(2, 0, false, false, 0));
    }
}
