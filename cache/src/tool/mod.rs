//! Reading a store without being a participant: from another process, and to check it.
//!
//! The code here neither pins nor writes. Records may be removed, moved and overwritten at any
//! time, so everything is copied between two loads of a segment's generation, as
//! `segment/unpinned.rs` describes, and a fault is reported only if it persists.
//!
//! | file | holds |
//! |---|---|
//! | `view.rs` | the areas of a region, for participants and for read-only tools |
//! | `reader.rs`, `records.rs` | [`StoreReader`], the interface for tools |
//! | `check/` | the one checker: [`StoreReader::check`] and [`Store::check`](crate::Store::check) |
//! | `report.rs`, `finding.rs` | the results of a check |
//!
//! Invariants:
//! - Whatever the region contains, the code here does not panic, read outside of the region, or
//!   loop forever.

pub(crate) mod check;
mod finding;
mod reader;
mod records;
mod report;
pub(crate) mod view;

pub use check::CheckDepth;
pub use finding::{Finding, FindingKind, FindingSeverity};
pub use reader::{RegionStats, SegmentCounts, StoreReadError, StoreReader};
pub use records::{CopiedRecord, KeyParts, ListedRecord, RecordKind};
pub use report::{CheckProgress, StoreReport};
