//! A map: byte keys in order, each with an immutable value.

mod bounds;
mod cursor;
mod entry;
mod estimate;
mod handle;
mod range;
mod reader;
mod scan;
mod split;
mod step;
#[cfg(test)]
mod tests;
mod write;

pub use cursor::Cursor;
pub use entry::Entry;
pub use handle::{Map, MapStats};
pub use range::Range;
pub use scan::{KeyValue, Scan};
pub use write::ExpectedState;
