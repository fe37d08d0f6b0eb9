//! A watch on the followers of a flight, for a task that owns the flight's leader: it may stop a
//! fetch that nothing follows any more.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::flights::Flights;
use super::shared::Flight;

/// Watches whether a fetch has followers. One task watches a fetch.
pub struct FollowerWatch {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
}

impl FollowerWatch {
    pub(super) fn new(flights: &Arc<Flights>, flight: &Arc<Flight>) -> Self {
        Self { flights: Arc::clone(flights), flight: Arc::clone(flight) }
    }

    /// Whether the fetch has followers or readers.
    pub fn has_followers(&self) -> bool {
        self.flight.has_followers()
    }

    /// Whether a client has got its whole response, and
    /// [left without the body](crate::BodyReader::leave_served).
    pub fn was_served(&self) -> bool {
        self.flight.was_served()
    }

    /// Polls until the last follower or reader has left. Others may join afterwards.
    pub fn poll_unfollowed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.flight.poll_unfollowed(cx)
    }

    /// If the fetch has no followers, removes it from the table, so that no caller can join it any
    /// more. Returns whether it had none; if it had none, the caller has to drop the leader.
    pub fn withdraw(&self) -> bool {
        self.flights.unregister_unfollowed(&self.flight)
    }
}

impl fmt::Debug for FollowerWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowerWatch").field("key", &self.flight.key()).finish()
    }
}
