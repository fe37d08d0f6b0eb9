//! Whether an origin can be reached, as one worker knows it.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock;
use crate::limits::ORIGIN_PROBE_MS;

/// Whether connections to an origin can be opened. While they cannot, stale responses are served
/// without asking, and one request at a time finds out whether the origin is back.
#[derive(Debug, Default)]
pub(super) struct OriginHealth {
    is_down: Cell<bool>,
    is_probed: Cell<bool>,
    next_probe_ms: Cell<u64>,
}

/// A request that finds out whether an origin is back. Until it is dropped, no other one starts.
#[derive(Debug)]
pub(super) struct ProbeGuard(Rc<OriginHealth>);

impl OriginHealth {
    /// Whether the last attempt to open a connection failed, and no exchange has succeeded since.
    pub(super) fn is_down(&self) -> bool {
        self.is_down.get()
    }

    /// Records that no connection could be opened.
    pub(super) fn note_unreachable(&self) {
        self.is_down.set(true);
        self.next_probe_ms.set(clock::monotonic_ms() + ORIGIN_PROBE_MS);
    }

    /// Records that the origin has answered. Returns whether it was down before.
    pub(super) fn note_answer(&self) -> bool {
        self.is_down.replace(false)
    }

    /// Lets the caller probe an origin that is down; `None` if it is too early, or another request
    /// does.
    pub(super) fn probe(self: &Rc<Self>) -> Option<ProbeGuard> {
        let is_due = clock::monotonic_ms() >= self.next_probe_ms.get();
        if !is_due || self.is_probed.replace(true) {
            return None;
        }
        Some(ProbeGuard(Rc::clone(self)))
    }
}

impl Drop for ProbeGuard {
    fn drop(&mut self) {
        self.0.is_probed.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_is_down_is_probed_by_one_request_at_a_time() {
        let health = Rc::new(OriginHealth::default());
        assert!(!health.is_down() && !health.note_answer());
        health.note_unreachable();
        assert!(health.is_down());
        assert!(health.probe().is_none(), "it has just failed");
        health.next_probe_ms.set(0);
        let probe = health.probe().expect("it is due");
        assert!(health.probe().is_none(), "a probe is under way");
        drop(probe);
        assert!(health.probe().is_some());
        assert!(health.note_answer() && !health.is_down());
    }
}
