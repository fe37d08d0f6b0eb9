//! Step six: which responses are stored, under which tags, and how they are removed.
//!
//! Nothing here talks to an origin or to a client. A fetch hands over the heads and bodies that it
//! receives, so `fetch` may use this step, and not the other way round.

mod fill;
mod invalidate;
mod purge;
mod storable;
mod tags;

pub(crate) use fill::BodyWriter;
pub(crate) use invalidate::UnsafeTarget;
pub(crate) use purge::{PurgeRequest, purge};
pub(crate) use storable::{MergedHead, StoreContext, note_storable};
