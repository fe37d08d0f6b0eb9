//! Segments: memory that is appended to, sealed, and reclaimed whole; and the records in it.
//!
//! `docs/format/store.md` describes the bytes. What names a record, the word of an index, is not
//! known here: who appends gets a [`Location`] and publishes it.
//!
//! | who | does |
//! |---|---|
//! | owner | [`Segments::claim`], [`OpenSegment::append`], publishes, [`OpenSegment::seal`] |
//! | reader | pins the segment, looks at the word again, [`Segments::record`] |
//! | reclaimer | [`Table::drain`], [`Segments::scan`], takes words out, pins, [`Segments::free`] |
//! | who moves a record | [`MarksWord::freeze`], [`OpenSegment::append_copy`], swaps the word |
//! | who goes on for a dead one | [`Progress`] |
//! | sweeper | [`Segments::suspect`] |
//! | who comes first after it | [`Segments::adopt`], checks the records, [`OpenSegment::seal`] |
//! | tool | [`Outside::copy`], [`Outside::glimpse`], [`Outside::describe`], [`Outside::walk`] |
//!
//! Invariants:
//! - What is read from shared words is checked before it is used: a place, a length, a state may be
//!   damaged, and nothing here panics for it or reads outside of a segment.
//! - Bytes are borrowed only as long as nobody can write them: unsafe functions say by what.
#![allow(unsafe_code)]

mod append;
mod data;
mod header;
mod marks;
mod outside;
mod progress;
mod record;
mod scan;
mod segments;
#[cfg(loom)]
mod shadow;
mod size;
mod state;
mod table;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub(crate) use append::{NewRecord, NotAppended, OpenSegment};
pub(crate) use data::LoadWords;
pub(crate) use header::{Header, Kind, SEQUENCE_MAX};
pub(crate) use marks::{Marks, MarksWord};
pub(crate) use outside::{Copied, Described, NotCopied, Outside};
pub(crate) use progress::Progress;
pub(crate) use record::Record;
pub(crate) use scan::{Damage, Scanned};
pub(crate) use segments::Segments;
pub(crate) use size::{DATA_BYTES_MAX, Geometry, Location, UNIT_BYTES};
pub(crate) use state::{Phase, Queue, SEGMENT_WORDS, State};
pub(crate) use table::Table;
