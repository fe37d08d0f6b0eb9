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
//! - Unsafe code is in `segment/` and `index/` and nowhere else.
//!
//! Under `--cfg loom` only the protocols of the store to come are compiled.
#![deny(unsafe_code)]

#[cfg(not(loom))]
mod budget;
#[cfg(not(loom))]
mod check;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod declined;
#[cfg(not(loom))]
mod evict;
#[cfg(not(loom))]
mod filling;
#[cfg(not(loom))]
mod flight;
#[cfg(not(loom))]
mod follow;
#[cfg(not(loom))]
mod growing;
#[doc(hidden)] // For measurements and stress tests, until the store in a region is whole.
#[allow(unsafe_code)] // What words and pins promise each other is a contract of the constructor.
pub mod index;
#[cfg(not(loom))]
mod lead;
#[doc(hidden)]
pub mod policy;
#[cfg(not(loom))]
mod readers;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod resource;
#[expect(dead_code, unused_imports, reason = "the store in a region is not whole yet")]
mod segment;
#[cfg(not(loom))]
mod shard;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod store;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
#[cfg(not(loom))]
mod window;

#[cfg(not(loom))]
pub use config::{ConfigError, StoreConfig};
#[cfg(not(loom))]
pub use filling::{Filling, NobodyListens};
#[cfg(not(loom))]
pub use follow::{Follower, Outcome, ReadEvent, Reader};
#[cfg(not(loom))]
pub use lead::{Leader, Refused};
#[cfg(not(loom))]
pub use record::{Body, Record};
#[cfg(not(loom))]
pub use resource::Base;
#[cfg(not(loom))]
pub use stats::Stats;
#[cfg(not(loom))]
pub use store::{Join, Lookup, Purged, Store};
