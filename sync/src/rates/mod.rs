//! Rate limits that all threads share: a table of fixed size, without a lock.
//!
//! [`CellRate`] decides, as a pure function of time: the generic cell rate algorithm. [`RateTable`]
//! keeps one word for each key and changes it by compare-exchange. Time is an argument everywhere.

mod cell_rate;
#[cfg(all(test, loom))]
mod loom_tests;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

pub use cell_rate::CellRate;
pub use table::{RateDecision, RateTable};
