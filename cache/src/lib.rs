//! The store: keys to records, in memory, bounded, shared by all workers of a process.
//!
//! It knows no HTTP: a key is bytes, a head is bytes, a body is fragments. It has no clock (time
//! is an argument, in monotonic milliseconds) and no runtime (who waits leaves a `Waker`).
//!
//! The way through it: [`Store::lookup`] finds a record or not. Who finds none calls
//! [`Store::join`]: one caller becomes the [`Leader`] and fetches, all others become a
//! [`Follower`]. The leader turns into a [`Filling`], to which it appends what arrives; every
//! follower turns into a [`Reader`] of the same growing record.
//!
//! Invariants:
//! - What the store holds never exceeds `budget_bytes`. Bytes are charged before they are kept and
//!   given back when the last clone of them is dropped, so memory that left the table but is still
//!   being sent counts too.
//! - A fill is stored only while its flight is registered. `purge` takes out record and flight
//!   under one lock, so what began before a purge is never stored and never joined after it.
//! - Published bytes never move and never change; a reader sees one version from start to end.
//! - Lock order: shard, then flight. Never two shards. Records, wakers and keys are dropped or
//!   woken after the locks are released.
#![forbid(unsafe_code)]

mod budget;
mod check;
mod config;
mod declined;
mod evict;
#[doc(hidden)]
pub mod evict_segments;
mod filling;
mod flight;
mod follow;
mod growing;
mod lead;
mod readers;
mod record;
mod resource;
mod shard;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod window;

pub use config::{ConfigError, StoreConfig};
pub use filling::{Filling, NobodyListens};
pub use follow::{Follower, Outcome, ReadEvent, Reader};
pub use lead::{Leader, Refused};
pub use record::{Body, Record};
pub use resource::Base;
pub use stats::Stats;
pub use store::{Join, Lookup, Purged, Store};
