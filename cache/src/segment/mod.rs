//! Segments: memory that is appended to, sealed, and reclaimed whole; and the records in it.
//!
//! `docs/format/store.md` describes the bytes. This module does not know index words, which name
//! records: an append returns a [`Location`], which the caller publishes.
//!
//! | actor | does |
//! |---|---|
//! | owner | [`Segments::claim`], [`OpenSegment::append`], publishes, [`OpenSegment::seal`] |
//! | reader | pins the segment, reads the word again, [`Segments::record`] |
//! | reclaimer | [`SegmentTable::drain`], [`Segments::scan`], removes words, [`Segments::free`] |
//! | mover of a record | [`MarksWord::freeze`], [`OpenSegment::append_copy`], swaps the word |
//! | reclaimer after a death | continues the drain that [`DrainProgress`] describes |
//! | sweeper of a dead owner | [`Segments::suspect`] |
//! | next owner | [`Segments::adopt`], checks the records, [`OpenSegment::seal`] |
//! | tool | reads through an [`UnpinnedReader`] |
//!
//! Invariants:
//! - Every value from shared words is checked before use. A location, a length or a state may be
//!   damaged; no function here panics for that reason, or reads outside of a segment.
//! - Bytes are borrowed only while no thread can write them. The contract of each unsafe function
//!   says why.
#![allow(unsafe_code)]

mod append;
mod data;
mod drain_progress;
mod header;
mod marks;
mod record;
mod scan;
mod segments;
#[cfg(loom)]
mod shadow;
mod size;
mod state;
mod table;
mod unpinned;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub(crate) use append::{AppendError, NewRecord, OpenSegment};
pub(crate) use data::LoadWords;
pub(crate) use drain_progress::DrainProgress;
pub(crate) use header::{HeaderKind, RecordHeader, SEQUENCE_MAX};
pub(crate) use marks::{MarksWord, RecordMarks};
pub(crate) use record::Record;
pub(crate) use scan::{RecordDamage, ScannedRecord};
pub(crate) use segments::Segments;
pub(crate) use size::{DATA_BYTES_MAX, Geometry, Location, UNIT_BYTES};
pub(crate) use state::{SEGMENT_WORDS, SegmentPhase, SegmentQueue, SegmentState};
pub(crate) use table::SegmentTable;
pub(crate) use unpinned::{CopyError, RecordCopy, SegmentSnapshot, UnpinnedReader};
