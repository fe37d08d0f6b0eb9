//! A file that several processes map, with areas in it that protocols use.
//!
//! `docs/format/region.md` describes the bytes and every step at which a process may be killed.
//!
//! Invariants:
//! - A region's file gets its name only when it is complete, so opening it needs no lock.
//! - Header and directory are read once, when a region is opened, and are checked against the
//!   length of the file. They are never read again.
//! - Whatever other processes write into an area later, no access leaves the area.

mod area;
mod error;
mod layout;
mod open;
mod place;
mod reader;
mod spec;
mod unnamed;

pub use area::{Area, ReadOnlyArea};
pub use error::{RegionError, RegionErrorKind};
pub use layout::{AREAS_MAX, PARTICIPANTS_MAX};
pub use open::{Opened, Region, ReplacedWhy, fix_seed_of_thread};
pub use reader::RegionReader;
pub use spec::{AreaSpec, BarrierWish, RegionSpec};
pub use unnamed::UnnamedRegion;

#[cfg(test)]
mod tests;
