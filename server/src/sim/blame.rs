//! The log of disturbances of a run, which alone excuse an error.

use std::cell::RefCell;

/// A disturbance still has consequences for so long after its end: bytes are on their way, and
/// responses that broke off are given up.
const ECHO_MS: u64 = 1_000;

/// The same for a response that broke off at the origin: a fetch that waits for a client reads the
/// end of the response only when the client goes on. No client pauses longer.
const FETCH_ECHO_MS: u64 = 13_000;

/// The requests that a disturbance can make fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Requests for this URL: the origin answered one of them with a fault.
    Url(usize),
    /// Any request that the origin gets: a connection was refused.
    Origin,
    /// Requests that are not sent twice: a pooled connection to the origin died.
    Unsafe,
    /// Requests to a worker, which was restarted.
    Worker(usize),
}

#[derive(Clone, Copy, Debug)]
struct Disturbance {
    scope: Scope,
    /// `u64::MAX` while it lasts.
    ended_ms: u64,
}

/// All disturbances so far.
#[derive(Debug, Default)]
pub(super) struct BlameLog(RefCell<Vec<Disturbance>>);

/// A request that failed, or a response that broke off.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedRequest {
    pub(super) url: usize,
    pub(super) worker: usize,
    pub(super) is_unsafe: bool,
    /// Whether a part of the response arrived, so that no other request could replace it.
    pub(super) has_begun: bool,
    pub(super) began_ms: u64,
}

impl BlameLog {
    /// Enters a disturbance that is over at once.
    pub(super) fn note(&self, scope: Scope, now_ms: u64) {
        self.end(self.begin(scope), now_ms);
    }

    /// Enters a disturbance that lasts until [`BlameLog::end`] is called with the number that is
    /// returned.
    pub(super) fn begin(&self, scope: Scope) -> usize {
        let mut entries = self.0.borrow_mut();
        entries.push(Disturbance { scope, ended_ms: u64::MAX });
        entries.len() - 1
    }

    pub(super) fn end(&self, number: usize, now_ms: u64) {
        self.0.borrow_mut()[number].ended_ms = now_ms;
    }

    /// Whether a disturbance explains the failure. A collapsed request gets the response of an
    /// earlier one, whose disturbance lasts while the origin answers it.
    pub(super) fn excuses(&self, failed: &FailedRequest) -> bool {
        let concerns = |scope| match scope {
            Scope::Url(url) => url == failed.url,
            Scope::Origin => true,
            Scope::Unsafe => failed.is_unsafe,
            // Another worker's fetch may have been joined: it ends in the middle of a response.
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
