//! Whether an origin can be reached, as far as one worker knows.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock;
use crate::fault::Fault;
use crate::limits::{ORIGIN_DOWN_MS, ORIGIN_PROBE_MS};

/// Whether connections to an origin can be opened. While they cannot be opened, stale responses are
/// served without asking the origin, and one request at a time probes whether the origin is back.
#[derive(Debug, Default)]
pub(super) struct OriginHealth {
    /// The time of the last failure; `None` if a connection has been opened since.
    failed_ms: Cell<Option<u64>>,
    /// The reason of that failure.
    failed_by: Cell<Option<Fault>>,
    is_probed: Cell<bool>,
    next_probe_ms: Cell<u64>,
}

/// The right to probe an origin that is down. No other probe starts until this guard is dropped.
#[derive(Debug)]
pub(crate) struct ProbeGuard(Rc<OriginHealth>);

impl OriginHealth {
    /// Whether the last attempt to open a connection failed a short time ago, or a probe is in
    /// progress. An older failure says nothing about the origin's state now.
    pub(super) fn is_down(&self) -> bool {
        let is_recent = |failed_ms| clock::monotonic_ms() < failed_ms + ORIGIN_DOWN_MS;
        self.failed_ms.get().is_some_and(|failed_ms| self.is_probed.get() || is_recent(failed_ms))
    }

    /// Returns the reason why no connection could be opened; `None` if the origin is not down.
    pub(super) fn failure(&self) -> Option<Fault> {
        self.failed_by.get().filter(|_| self.is_down())
    }

    /// Records that no connection could be opened, because of `fault`.
    pub(super) fn note_unreachable(&self, fault: Fault) {
        let now_ms = clock::monotonic_ms();
        self.failed_by.set(Some(fault));
        self.failed_ms.set(Some(now_ms));
        self.next_probe_ms.set(now_ms + ORIGIN_PROBE_MS);
    }

    /// Records that a connection could be opened. Returns whether the previous attempt had failed.
    pub(super) fn note_reached(&self) -> bool {
        self.failed_ms.take().is_some()
    }

    /// Lets the caller probe an origin that is down; `None` if it is too early, or another request
    /// is probing it.
    pub(super) fn probe(self: &Rc<Self>) -> Option<ProbeGuard> {
        if !self.is_probe_due() {
            return None;
        }
        self.is_probed.set(true);
        Some(ProbeGuard(Rc::clone(self)))
    }

    /// Whether [`probe`](Self::probe) would let its caller probe the origin.
    pub(super) fn is_probe_due(&self) -> bool {
        clock::monotonic_ms() >= self.next_probe_ms.get() && !self.is_probed.get()
    }
}

impl Drop for ProbeGuard {
    fn drop(&mut self) {
        self.0.is_probed.set(false);
        self.0.next_probe_ms.set(clock::monotonic_ms() + ORIGIN_PROBE_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_is_down_is_probed_by_one_request_at_a_time() {
        let health = Rc::new(OriginHealth::default());
        assert!(!health.is_down() && !health.note_reached());
        health.note_unreachable(Fault::OriginConnect);
        assert!(health.is_down());
        assert!(health.probe().is_none(), "it has just failed");
        health.next_probe_ms.set(0);
        let probe = health.probe().expect("it is due");
        health.next_probe_ms.set(0);
        assert!(health.probe().is_none(), "a probe is under way");
        drop(probe);
        assert!(health.probe().is_none(), "it has just been probed");
        assert!(health.note_reached() && !health.is_down());
    }

    #[test]
    fn an_old_failure_does_not_count() {
        let health = Rc::new(OriginHealth::default());
        health.note_unreachable(Fault::OriginConnect);
        let old_ms = clock::monotonic_ms().checked_sub(ORIGIN_DOWN_MS);
        health.failed_ms.set(Some(old_ms.expect("the machine runs for some seconds")));
        assert!(!health.is_down());
        health.next_probe_ms.set(0);
        let probe = health.probe();
        assert!(health.is_down(), "it is being probed");
        drop(probe);
        assert!(!health.is_down());
    }
}
