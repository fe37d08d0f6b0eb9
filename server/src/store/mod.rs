//! Step six: decides which responses are stored and with which tags, writes them to the store, and
//! purges or invalidates them.
//!
//! Nothing here talks to an origin or to a client. The step `fetch` hands over the heads and bodies
//! that it receives, so `fetch` depends on this step, and this step does not depend on `fetch`.

mod compress;
mod decoder;
mod decompress;
mod encoder;
mod fill;
mod invalidate;
mod purge;
mod purge_scope;
mod storable;
mod tags;

pub(crate) use decoder::BodyDecoder;
pub(crate) use decompress::{CodingUse, coding_use};
pub(crate) use encoder::{BodyEncoder, CompressionRoom};
pub(crate) use fill::BodyWriter;
pub(crate) use invalidate::UnsafeTarget;
pub(crate) use purge::{PurgeRequest, purge};
pub(crate) use storable::{MergedHead, NewRecord, NotStored, StoreContext, note_storable};
