//! Flights: responses that are arriving, each fetched by one and followed by many.
//!
//! What is stored is not known here: whoever joins brings a [`Gate`] that answers for it, and a
//! leader stores what arrives itself. Flights are private to a process.
//!
//! | who | does |
//! |---|---|
//! | needs a response that is not stored | [`Flights::join`]: becomes leader or follower |
//! | leader | [`Lead`] until the head is there, then [`BodyWriter`] until the body has ended |
//! | follower | [`Follower`] until the head is there, then [`BodyReader`] until the body ends |
//! | purge | [`Flights::detach`], [`Flights::detach_where`] |
//!
//! Invariants:
//! - All fragments and heads that anybody holds, and what was promised to bodies of known length,
//!   never exceed `growing_bytes_max` together. Bytes are charged before they are kept and given
//!   back when the last clone of them is dropped. (The exceptions are named in [`body_writer`].)
//! - A flight that can be joined will be stored, or has been: one that was detached or has become a
//!   window is in no table.
//! - A flight leaves the table only after what it brought is stored and its end is known to its
//!   readers. So who finds no flight, and then asks its gate, finds the record.
//! - Published bytes never move and never change; a reader sees one version from start to end.
//! - Lock order: shard, then flight. Never two of a kind. A gate and the predicate of a purge are
//!   asked under a shard's lock; wakers are woken and dropped outside of all.

mod body_writer;
mod budget;
mod declined;
mod flights;
mod follower;
mod fragment;
mod growing_record;
mod lead;
mod readers;
mod shard;
mod shared;
mod stats;
#[cfg(test)]
mod tests;
mod window;

pub use body_writer::NoReaders;
pub use follower::{BodyReader, FollowOutcome, Follower};
pub use growing_record::{ReadEvent, VariantKey};
pub use lead::{FillRefused, RenewedHead};

pub(crate) use body_writer::BodyWriter;
pub(crate) use flights::{FlightConfig, FlightKey, Flights, Gate, JoinResult, fixed_bytes};
pub(crate) use lead::Lead;
