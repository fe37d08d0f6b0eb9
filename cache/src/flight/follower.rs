//! The side of a flight that waits: first for what becomes of it, then for its body.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::growing_record::{Opening, Phase, ReadEvent, VariantKey};
use super::lead::RenewedHead;
use super::shared::{Flight, FollowerHandle};

/// What has become of a fetch.
#[derive(Debug)]
pub enum FollowOutcome {
    /// A response arrives, or has arrived: read it. If it has a [`BodyReader::base`], check first
    /// that it is the right variant.
    Growing(BodyReader),
    /// The record that is stored is good, with this head. It need not be stored any longer.
    Validated(RenewedHead),
    /// Fetch alone: the response is not storable, or the window has gone on without this follower.
    Declined,
    /// The fetch failed before anything of the body could be read.
    Failed,
}

/// Waits for the outcome of a fetch. Dropping it leaves.
pub struct Follower {
    seat: Option<FollowerHandle>,
}

impl Follower {
    pub(super) fn new(flight: &Arc<Flight>) -> Self {
        Self { seat: Some(FollowerHandle::new(flight)) }
    }

    /// The outcome, once. After it has been taken, `Failed`.
    pub fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<FollowOutcome> {
        let Some(seat) = self.seat.take() else {
            return Poll::Ready(FollowOutcome::Failed);
        };
        let Poll::Ready(phase) = seat.poll_phase(cx) else {
            self.seat = Some(seat);
            return Poll::Pending;
        };
        Poll::Ready(match phase {
            Phase::Growing(opening) => FollowOutcome::Growing(BodyReader { seat, opening }),
            Phase::Validated(renewed) => FollowOutcome::Validated(renewed),
            Phase::Declined => FollowOutcome::Declined,
            Phase::Waiting | Phase::Failed => FollowOutcome::Failed,
        })
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("waiting", &self.seat.is_some()).finish()
    }
}

/// Reads a growing record from its start. Dropping it leaves.
pub struct BodyReader {
    seat: FollowerHandle,
    opening: Arc<Opening>,
}

impl BodyReader {
    /// The head, as it was given to `begin`.
    pub fn head(&self) -> &[u8] {
        &self.opening.head
    }

    /// The names and the variant of the response, if it has variants.
    pub fn base(&self) -> Option<&VariantKey> {
        self.opening.base.as_ref()
    }

    /// Length of the body, if it was known at its beginning.
    pub fn body_bytes(&self) -> Option<u64> {
        self.opening.body_bytes
    }

    /// Pushes what has arrived and was not yet handed over, at most `bytes_max` bytes (and at
    /// least one), to `out`. Woken when more arrives or the body ends.
    pub fn poll_fragments(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: u64,
        out: &mut Vec<Bytes>,
    ) -> Poll<ReadEvent> {
        self.seat.poll_read(cx, bytes_max, out)
    }

    /// Says that the caller's client makes it wait. What is not handed over yet need not be held
    /// for it once it is stored: the next read tells where, if it is no longer held.
    pub fn step_aside(&self) {
        self.seat.step_aside();
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader").field("opening", &self.opening).finish()
    }
}
