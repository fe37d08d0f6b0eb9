//! The followers' side of a flight: they wait for its outcome, then read its body.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::declined::DeclineReason;
use super::growing_record::{Opening, Phase, ReadEvent, VariantKey};
use super::leader_guard::RenewedHead;
use super::shared::{Flight, FollowerHandle};

/// The outcome of a collapsed fetch for a follower.
#[derive(Debug)]
pub enum FollowOutcome {
    /// A response is arriving, or has arrived. If it has a [`BodyReader::base`], check that it is
    /// the right variant before reading it.
    Growing(BodyReader),
    /// The stored record was validated and has this head. The record may have been removed since.
    Validated(RenewedHead),
    /// Fetch without collapsing: the response is not storable, or its window continued without this
    /// follower. The reason is given only for a response that is not storable.
    Declined(Option<DeclineReason>),
    /// The fetch failed before any byte of the body could be read. The value is the leader's own
    /// code for the reason, if the leader gave one.
    Failed(Option<u16>),
}

/// Waits for the outcome of a collapsed fetch. Dropping this leaves the flight.
pub struct Follower {
    handle: Option<FollowerHandle>,
}

impl Follower {
    pub(super) fn new(flight: &Arc<Flight>) -> Self {
        Self { handle: Some(FollowerHandle::new(flight)) }
    }

    /// The time at which the leader began to fetch, in milliseconds: `now_ms` of its
    /// [`JoinTerms`](crate::JoinTerms). 0 after the outcome.
    pub fn began_ms(&self) -> u64 {
        self.handle.as_ref().map_or(0, FollowerHandle::began_ms)
    }

    /// Whether the leader said [`JoinTerms::is_personal`](crate::JoinTerms::is_personal). False
    /// after the outcome.
    pub fn is_personal(&self) -> bool {
        self.handle.as_ref().is_some_and(FollowerHandle::is_personal)
    }

    /// Tells the flight that this follower will not read soon: see [`BodyReader::step_aside`].
    pub fn step_aside(&self) {
        if let Some(handle) = &self.handle {
            handle.step_aside();
        }
    }

    /// Polls for the outcome. It is returned once; later polls return `Failed(None)`.
    pub fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<FollowOutcome> {
        let Some(handle) = self.handle.take() else {
            return Poll::Ready(FollowOutcome::Failed(None));
        };
        let Poll::Ready(phase) = handle.poll_phase(cx) else {
            self.handle = Some(handle);
            return Poll::Pending;
        };
        Poll::Ready(match phase {
            Phase::Growing(opening) => FollowOutcome::Growing(BodyReader { handle, opening }),
            Phase::Validated(renewed) => FollowOutcome::Validated(renewed),
            Phase::Declined(reason) => FollowOutcome::Declined(reason),
            Phase::Waiting => FollowOutcome::Failed(None),
            Phase::Failed(code) => FollowOutcome::Failed(code),
        })
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("waiting", &self.handle.is_some()).finish()
    }
}

/// Reads a growing record from its start. Dropping this leaves the flight.
pub struct BodyReader {
    handle: FollowerHandle,
    opening: Arc<Opening>,
}

impl BodyReader {
    /// The head of the response, as the leader passed it.
    pub fn head(&self) -> &[u8] {
        &self.opening.head
    }

    /// The field names and the selector of the response, if it has variants.
    pub fn base(&self) -> Option<&VariantKey> {
        self.opening.base.as_ref()
    }

    /// The length of the body, if it was known when the body began.
    pub fn body_bytes(&self) -> Option<u64> {
        self.opening.body_bytes
    }

    /// Pushes the next bytes that have arrived to `out`: at most `bytes_max` bytes, but at least
    /// one. If there are none, the task is woken when more arrive or the body ends.
    pub fn poll_fragments(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: u64,
        out: &mut Vec<Bytes>,
    ) -> Poll<ReadEvent> {
        self.handle.poll_read(cx, bytes_max, out)
    }

    /// Leaves the flight because the client's response is complete without the body, not because
    /// the client has given up. See
    /// [`FollowerWatch::was_served`](crate::FollowerWatch::was_served).
    pub fn leave_served(self) {
        self.handle.serve();
    }

    /// Tells the flight that the reader's client stalls. Once the body is stored in fragments, the
    /// flight need not hold the rest for this reader: the next read then returns the location of
    /// the stored body.
    pub fn step_aside(&self) {
        self.handle.step_aside();
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader").field("opening", &self.opening).finish()
    }
}
