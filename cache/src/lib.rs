//! The store: a bounded map from keys to records, in a region of memory that threads and processes
//! share.
//!
//! The store knows no HTTP: a key is bytes, a head is bytes, a body is fragments. It has no clock
//! (time is an argument) and no runtime (a task that waits leaves a `Waker`).
//!
//! [`StoreWorker::lookup`] looks up a record. A caller that finds none calls
//! [`StoreWorker::collapse`]: one caller becomes the [`Leader`] and fetches, all others become
//! [`Follower`]s. The leader turns into a [`Fill`] and appends the body as it arrives; each
//! follower turns into a [`BodyReader`] of the same growing record. A complete record is stored in
//! the region, and later lookups find it.
//!
//! | folder | holds |
//! |---|---|
//! | `store/` | the public interface: lookups, fills, purges, reclaiming |
//! | `index/` | a hash table of 64-bit words that name records, and the rules for swapping them |
//! | `segment/` | the memory of records: segments are appended to, sealed, and reclaimed whole |
//! | `key_index/` | primary keys and tags, in order |
//! | `tags/` | tags of records, and expressions over them |
//! | `purge/` | the ring of purges, which fills check |
//! | `flight/` | responses that are arriving, private to a process |
//! | `policy/` | which segment is reclaimed next, and the fate of its records |
//! | `tool/` | reading and checking a store from outside |
//!
//! Invariants:
//! - The store never uses more memory than its budget: the region, the share for growing records
//!   and the share for copies each have a fixed size.
//! - A lookup never returns the record of another key, nor a record that was purged before the
//!   lookup began.
//! - The bytes of a body handle neither move nor change while a send guard exists.
//! - Unsafe code is in `segment/`, in `index/`, in `key_index/maps.rs`, and in the files of
//!   `store/` that call unsafe functions of these.
//!
//! Under `--cfg loom`, only the protocols between threads are compiled.
#![deny(unsafe_code)]

#[cfg(not(loom))]
mod flight;
#[doc(hidden)] // For measurements and stress tests.
pub mod index;
#[cfg_attr(loom, allow(dead_code, unused_imports))] // The users of the maps are not compiled.
mod key_index;
#[doc(hidden)] // For the simulator.
pub mod policy;
#[cfg_attr(loom, expect(dead_code, reason = "its users are not compiled"))]
mod purge;
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
    BodyReader, DeclineReason, DeclinedUntil, FillRefused, FollowOutcome, Follower, FollowerWatch,
    JoinPolicy, JoinPreview, JoinTerms, NoReaders, ReadEvent, RenewedHead, VariantKey,
};
#[cfg(not(loom))]
pub use store::{
    BaseRecord, BodyHandle, CollapseResult, ConfigError, ConfirmedVariant, ConnectionTag,
    CoveredKeys, Fill, FragmentReader, IndexedRecord, KeyIndexDamaged, KeyIndexReport, Leader,
    ListedResource, LongBody, Lookup, OpenError, PastPurge, PhaseCounts, PurgeBusy, PurgeResult,
    RecordTimes, RecordVersion, Revoked, Selection, SelectionSize, SendGuard, Stats, Store,
    StoreConfig, StoreWorker, StoredBody, StoredRecord, WalkProgress, push_selector, selector_list,
    selectors,
};
pub use tags::{RecordTags, TAG_BYTES_MAX, TAGS_MAX, TagExpr, TagExprError, TagsError};
#[cfg(not(loom))]
pub use tool::{
    CheckDepth, CheckProgress, CopiedRecord, Finding, FindingKind, FindingSeverity, KeyParts,
    ListedRecord, RecordKind, RegionStats, SegmentCounts, StoreReadError, StoreReader, StoreReport,
};
