//! Step four: finds a stored response that may answer this request (RFC 9111 §4).

mod bypass;
mod find;
mod other_variants;
mod plan;
mod selected_part;
mod stored;

pub(crate) use bypass::{bypass, check_extended_connect, wanted_upgrade};
pub(crate) use find::{lookup, lookup_stale, selected, validated};
pub(crate) use other_variants::OtherVariant;
pub(crate) use plan::{ForwardPlan, MissingPart};
pub(crate) use selected_part::SelectedPart;
pub use stored::write_stored_head;
pub(crate) use stored::{Stale, StoredResponse, stored_block, stored_meta, write_strong_tag};

use forebay_cache::StoreWorker;
use forebay_http::policy::reason::Reason;
use forebay_http::policy::reuse::ForwardReason;

use crate::config::Route;

/// The result of a lookup.
#[expect(clippy::large_enum_variant, reason = "a box would cost each hit an allocation")]
pub(crate) enum LookupResult<'w> {
    /// A stored response answers the request.
    Hit(Hit<'w>),
    /// The request must go to the origin.
    Forward(Box<ForwardPlan>),
}

/// A stored response that may be served.
pub(crate) struct Hit<'w> {
    pub(crate) stored: StoredResponse<'w>,
    /// The part that answers the request. Its fragments are in the store, or can be fetched.
    pub(crate) part: SelectedPart,
    pub(crate) age: u32,
    pub(crate) ttl: i64,
}

/// The purpose of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupMode {
    /// To answer a request: a stored response counts as used, and an unusable one is removed.
    Answer,
    /// To inspect the store without changing it.
    Inspect,
}

/// The input of a lookup: the store, the key, the route and the time.
pub(crate) struct LookupQuery<'a> {
    pub(crate) store: &'a StoreWorker,
    pub(crate) mode: LookupMode,
    /// Whether requests are answered from the store.
    pub(crate) is_used: bool,
    /// The reason that [`bypass`] has returned for the request, if any.
    pub(crate) bypass: Option<(ForwardReason, Reason)>,
    /// Whether rules forbid answering the request from the store.
    pub(crate) is_ruled_out: bool,
    pub(crate) route: &'a Route,
    pub(crate) key: &'a [u8],
    /// The current time, in seconds since 1970.
    pub(crate) now: u64,
}
