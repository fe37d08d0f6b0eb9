//! Flights: responses that are arriving, each fetched by one leader and read by many followers.
//!
//! This module does not know the store: a caller brings a [`Gate`] that answers for it, and the
//! leader stores the bytes that arrive. Flights are private to a process.
//!
//! | role | uses |
//! |---|---|
//! | a caller that finds no stored response | [`Flights::join`]: becomes leader or follower |
//! | leader | [`LeaderGuard`] until the head is there, then [`BodyWriter`] until the body ends |
//! | follower | [`Follower`] until the head is there, then [`BodyReader`] until the body ends |
//! | purge | [`Flights::detach`], [`Flights::detach_where`] |
//!
//! Invariants:
//! - All fragments and heads that are held, and all room reserved for bodies of known length, never
//!   exceed `growing_bytes_max` together. Bytes are charged before they are kept, and given back
//!   when their last clone is dropped. ([`body_writer`] names the exceptions.)
//! - A flight that can be joined will be stored, or has been: a flight that was detached or became
//!   a window is in no table.
//! - A flight that is not joinable before its response arrives has no entry in the table until then.
//! - A flight leaves the table only after its response is stored and its readers know its end. So a
//!   caller that finds no flight, and then asks its gate, finds the record.
//! - Published bytes never move and never change; a reader sees one version from start to end.
//! - Lock order: shard, then flight. Never two of a kind. Gates and the predicates of purges run
//!   under a shard's lock; wakers are woken and dropped outside of all locks.

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
mod window;

pub use body_writer::NoReaders;
pub use flights::{JoinPolicy, JoinTerms};
pub use follower::{BodyReader, FollowOutcome, Follower};
pub use growing_record::{ReadEvent, VariantKey};
pub use leader_guard::{FillRefused, RenewedHead};

pub(crate) use body_writer::BodyWriter;
pub(crate) use flights::{FlightConfig, FlightKey, Flights, Gate, JoinResult, fixed_bytes};
pub(crate) use leader_guard::LeaderGuard;
