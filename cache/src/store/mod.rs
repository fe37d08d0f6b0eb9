//! The public interface of the store.
//!
//! | file | holds |
//! |---|---|
//! | `store.rs`, `config.rs`, `layout.rs` | opening a store: a budget is divided into a region |
//! | `shared.rs`, `hash.rs`, `ghosts.rs` | state that the threads of a process share |
//! | `worker.rs` | a thread's handle, and the parts that own its state |
//! | `record_index.rs`, `record_access.rs`, `lookup.rs` | finding records |
//! | `body_handle.rs`, `long.rs`, `variants.rs` | sending bodies; fragments; variants |
//! | `selectors.rs` | the selectors of a request, which select variants |
//! | `parts.rs` | bodies that lack fragments, and fetches of those |
//! | `fill.rs`, `gate.rs` | collapsed fetches |
//! | `copy_variant.rs` | storing a variant for another selector |
//! | `respond.rs`, `put_variant.rs`, `put.rs`, `appender.rs` | storing, renewing |
//! | `record_keys.rs`, `key_index_sweep.rs` | keeping the key index consistent with the records |
//! | `purge.rs`, `select.rs` | purging; selections by prefix or tags, listing |
//! | `maintenance.rs`, `reclaim.rs`, `victim.rs`, `drain*.rs` | reclaiming segments |
//! | `recover.rs` | cleaning up after dead participants |
//! | `verify.rs` | verifying records that an earlier process has stored |
//! | `stats.rs`, `check.rs`, `test_hooks.rs` | counters, checks, hooks for tests |

mod appender;
mod body_handle;
mod check;
mod config;
mod copy_variant;
mod drain;
mod drain_state;
mod fill;
mod gate;
mod ghosts;
pub(crate) mod hash;
mod key_index_sweep;
pub(crate) mod layout;
pub(crate) mod long;
mod lookup;
mod maintenance;
mod parts;
mod purge;
mod put;
mod put_variant;
mod reclaim;
mod record_access;
mod record_index;
mod record_keys;
mod recover;
mod respond;
mod select;
mod selectors;
mod shared;
mod stats;
#[allow(clippy::module_inception, reason = "the file of the type that the folder is about")]
mod store;
mod test_hooks;
#[cfg(test)]
mod tests;
pub(crate) mod variants;
mod verify;
mod victim;
mod worker;

pub use body_handle::{BodyHandle, ConnectionTag, Revoked, SendGuard};
pub use check::KeyIndexReport;
pub use config::{ConfigError, OpenError, StoreConfig};
pub use copy_variant::ConfirmedVariant;
pub use fill::{CollapseResult, Fill, Leader};
pub use long::LongBody;
pub use lookup::{BaseRecord, Lookup, RecordVersion, StoredBody, StoredRecord};
pub use parts::FragmentReader;
pub use purge::{CoveredKeys, PastPurge, PurgeBusy, PurgeResult};
pub use put::RecordTimes;
pub use select::{KeyIndexDamaged, ListedResource, Selection, SelectionSize, WalkProgress};
pub use selectors::{push_selector, selector_list, selectors};
pub use stats::Stats;
pub(crate) use stats::{Accounts, accounts};
pub use store::Store;
pub use test_hooks::{IndexedRecord, PhaseCounts};
pub use worker::StoreWorker;
