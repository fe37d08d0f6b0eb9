//! The store: keys to records, in a region of memory, bounded, shared by threads and processes.
//!
//! It knows no HTTP: a key is bytes, a head is bytes, a body is fragments. It has no clock (time
//! is an argument) and no runtime (who waits leaves a `Waker`).
//!
//! The way through it: [`StoreWorker::lookup`] finds a record or not. Who finds none calls
//! [`StoreWorker::collapse`]: one caller becomes the [`Leader`] and fetches, all others become a
//! [`Follower`]. The leader turns into a [`Fill`], to which it appends what arrives; every
//! follower turns into a [`BodyReader`] of the same growing record. What is complete is stored in
//! the region, and found from then on.
//!
//! | folder | what |
//! |---|---|
//! | `store/` | all of this, as its users see it |
//! | `index/` | which record is the one of a key: words, and the rules for swapping them |
//! | `segment/` | where records lie: appended to, sealed, reclaimed whole |
//! | `key_index/` | primary keys and tags in order |
//! | `tags/` | tags of records, and expressions over them |
//! | `purge/` | predicates of purges, and who has to look at them |
//! | `flight/` | what is arriving, private to a process |
//! | `policy/` | which segment is reclaimed next, and what becomes of its records |
//! | `tool/` | looking at a store from outside; checking it |
//!
//! Invariants:
//! - What the store holds never exceeds its budget: the region has a fixed size, and so have the
//!   shares for what is arriving and for copies.
//! - A lookup finds no other key's record, and none that was purged before it began.
//! - Bytes that are lent neither move nor change.
//! - Unsafe code is in `segment/`, `index/`, and in the files of `store/` that keep their
//!   contracts.
//!
//! Under `--cfg loom` only the protocols are compiled.
#![deny(unsafe_code)]

#[cfg(not(loom))]
mod flight;
#[doc(hidden)] // For measurements and stress tests.
pub mod index;
#[cfg_attr(loom, allow(dead_code, unused_imports))] // What uses the maps is not compiled.
mod key_index;
#[doc(hidden)] // For the simulator.
pub mod policy;
#[cfg_attr(loom, expect(dead_code, reason = "its users are not compiled"))]
mod purge;
#[cfg(not(loom))]
#[cfg(test)]
#[path = "../../sync/tests/rng/mod.rs"]
mod rng;
#[cfg_attr(loom, expect(dead_code, unused_imports, reason = "its users are not compiled"))]
mod segment;
#[cfg(not(loom))]
mod store;
#[cfg_attr(loom, allow(dead_code, unused_imports))] // Its users are not compiled.
mod tags;
#[cfg(not(loom))]
mod tool;

#[cfg(not(loom))]
pub use flight::{
    BodyReader, FillRefused, FollowOutcome, Follower, NoReaders, ReadEvent, RenewedHead, VariantKey,
};
#[cfg(not(loom))]
pub use store::{
    BaseRecord, BodyHandle, CollapseResult, ConfigError, ConnectionTag, Fill, IndexedRecord,
    KeyIndexDamaged, KeyIndexReport, Leader, ListedResource, LongBody, Lookup, OpenError,
    PhaseCounts, PurgeBusy, PurgeResult, RecordTimes, RecordVersion, Revoked, Selection,
    SelectionSize, SendGuard, Stats, Store, StoreConfig, StoreWorker, StoredBody, StoredRecord,
    WalkProgress,
};
pub use tags::{RecordTags, TAG_BYTES_MAX, TAGS_MAX, TagExpr, TagExprError, TagsError};
#[cfg(not(loom))]
pub use tool::{
    CheckDepth, CheckProgress, CopiedRecord, Finding, FindingKind, FindingSeverity, KeyParts,
    ListedRecord, RecordKind, RegionStats, SegmentCounts, StoreReadError, StoreReader, StoreReport,
};
