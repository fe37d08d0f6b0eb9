//! The store as its users see it.
//!
//! | file | what |
//! |---|---|
//! | `store.rs`, `config.rs`, `layout.rs` | open: how a budget becomes a region |
//! | `shared.rs`, `hash.rs` | what a process has of it |
//! | `worker.rs` | a thread's part |
//! | `lookup.rs`, `lend.rs`, `long.rs`, `variants.rs` | finding, and sending what was found |
//! | `fill.rs`, `respond.rs`, `put.rs` | fetching for many, storing, renewing |
//! | `enter.rs`, `tidy.rs` | keeping keys and tags in order |
//! | `purge.rs`, `select.rs` | taking out, as a promise; by prefix or tags; listing |
//! | `turn.rs`, `reclaim.rs`, `choose.rs`, `steps.rs`, `leftover.rs` | making room |
//! | `recover.rs` | cleaning up after the dead |
//! | `stats.rs`, `check.rs` | what it all takes; what is wrong |

mod check;
mod choose;
mod config;
mod enter;
mod fill;
pub(crate) mod hash;
pub(crate) mod layout;
mod leftover;
mod lend;
pub(crate) mod long;
mod lookup;
mod probe;
mod purge;
mod put;
mod reach;
mod reclaim;
mod recover;
mod respond;
mod select;
mod shared;
mod stats;
mod steps;
#[allow(clippy::module_inception, reason = "the file of the type that the folder is about")]
mod store;
#[cfg(test)]
mod tests;
mod tidy;
mod turn;
pub(crate) mod variants;
mod worker;

pub use check::KeyIndexReport;
pub use config::{ConfigError, OpenError, StoreConfig};
pub use fill::{Filling, Join, Leader};
pub use lend::{Lent, LentIsLost, Reading, Tag};
pub use long::LongBody;
pub use lookup::{Found, FoundBase, Known, Lookup, StoredBody};
pub use probe::{Named, Phases};
pub use purge::{PurgeBusy, Purged};
pub use put::Times;
pub use select::{KeyIndexDamaged, ListedResource, Selection, Walked, Weighed};
pub use stats::Stats;
pub(crate) use stats::{Accounts, accounts};
pub use store::Store;
pub use worker::StoreWorker;
