//! Looking at a store without taking part in it: reading it from another process, and checking it.
//!
//! Nothing here pins or writes. What is looked at may be taken out, moved and written over in the
//! meantime, so everything is copied between two looks at a segment's generation, as
//! `segment/unpinned.rs` says, and a fault is told only if it stands still.
//!
//! | file | what |
//! |---|---|
//! | `view.rs` | the areas of a region, in the hands of who takes part or of who may only read |
//! | `reader.rs`, `records.rs` | [`StoreReader`]: what a tool asks for |
//! | `check/` | the one checker: [`StoreReader::check`] and [`Store::check`](crate::Store::check) |
//! | `report.rs`, `finding.rs` | what a check has found |
//!
//! Invariants:
//! - Whatever the region holds, nothing here panics, reads outside of it, or goes on for ever.

pub(crate) mod check;
mod finding;
mod reader;
mod records;
mod report;
pub(crate) mod view;

pub use check::CheckDepth;
pub use finding::{Finding, FindingKind, Severity};
pub use reader::{RegionStats, SegmentCounts, StoreReadError, StoreReader};
pub use records::{CopiedRecord, KeyParts, ListedRecord, RecordKind};
pub use report::{CheckProgress, StoreReport};
