//! Flights: responses that are arriving, each fetched by one leader and read by many followers.
//!
//! This module does not access the store: a caller passes a [`Gate`] that answers for the store,
//! and the leader stores the bytes that arrive. Flights are private to a process.
//!
//! | role | uses |
//! |---|---|
//! | a caller that finds no stored response | [`Flights::join`]: becomes leader or follower |
//! | leader | [`LeaderGuard`] until the head is there, then [`BodyWriter`] until the body ends |
//! | follower | [`Follower`] until the head is there, then [`BodyReader`] until the body ends |
//! | purge | [`Flights::detach`], [`Flights::detach_where`] |
//!
//! Invariants:
//! - All fragments and heads that flights hold, and all room that is reserved for bodies of known
//!   length, never exceed `growing_bytes_max` together. Bytes are charged before they are kept, and
//!   given back when their last clone is dropped. ([`body_writer`] names the exceptions.)
//! - A flight leaves the table as soon as it is certain that its response will not be stored: when
//!   it is detached, declined, failed, or becomes a window.
//! - A flight that callers cannot join before its response arrives enters the table only then.
//! - A flight whose response is stored leaves the table only after that, when its readers know its
//!   end. So if a caller finds no flight under the shard's lock, its gate has seen the stored
//!   record under that lock.
//! - Published bytes never move and never change. A reader sees one version from start to end.
//! - Lock order: shard, then flight. A thread never holds two locks of the same kind. Gates and the
//!   predicates of purges run under a shard's lock. Wakers are woken and dropped outside of all
//!   locks.

mod body_writer;
mod budget;
mod declined;
mod flights;
mod follower;
mod fragment;
mod growing_record;
mod leader_guard;
mod readers;
mod shard;
mod shared;
mod stats;
#[cfg(test)]
mod tests;
mod watch;
mod window;

pub use body_writer::NoReaders;
pub use declined::{DeclineReason, DeclinedUntil};
pub use flights::{JoinPolicy, JoinPreview, JoinTerms};
pub use follower::{BodyReader, FollowOutcome, Follower};
pub use growing_record::{ReadEvent, VariantKey};
pub use leader_guard::{FillRefused, RenewedHead};
pub use watch::FollowerWatch;

pub(crate) use body_writer::BodyWriter;
pub(crate) use flights::{FlightConfig, FlightKey, Flights, Gate, JoinResult, fixed_bytes};
pub(crate) use leader_guard::LeaderGuard;
