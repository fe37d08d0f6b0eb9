//! Step six: a fetch whose answer may be stored, shared by all who wait for it.
//!
//! One request leads: a task of its own fetches and stores, and goes on if its client leaves. All
//! others follow the same growing record. Whoever can't use what the leader brings asks the
//! origin for itself.

mod fill;
mod invalidate;
mod lead;
mod obtain;
mod purge;
mod tags;

pub(crate) use invalidate::UnsafeTarget;
pub(crate) use lead::notice_storable;
pub(crate) use obtain::{Needs, Source, obtain};
pub(crate) use purge::{is_purge, purge_asked};
