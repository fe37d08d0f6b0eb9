//! Step four: is there a stored response, and may it answer this request (RFC 9111 §4)?

mod bypass;
mod find;
mod selected_part;
mod stored;

pub(crate) use find::{lookup, validated};
pub(crate) use selected_part::SelectedPart;
pub use stored::write_stored_head;
pub(crate) use stored::{Stale, StoredResponse, stored_block, stored_meta, write_strong_tag};

use forebay_cache::StoreWorker;
use forebay_http::policy::reuse::ForwardReason;

use crate::config::Route;

/// What the cache says to a request.
pub(crate) enum LookupResult<'w> {
    /// It has the answer.
    Hit(Hit<'w>),
    /// The origin has to be asked.
    Forward(Forward),
}

/// A stored response that may be served.
pub(crate) struct Hit<'w> {
    pub(crate) stored: StoredResponse<'w>,
    /// What of it answers the request; all of that is there.
    pub(crate) part: SelectedPart,
    pub(crate) age: u32,
    pub(crate) ttl: i64,
}

/// Why and how the origin is asked.
pub(crate) struct Forward {
    pub(crate) reason: ForwardReason,
    /// May the answer be stored and shared with others who wait for it? Otherwise the exchange is
    /// the client's own.
    pub(crate) fills: bool,
    /// The resource is known to have variants.
    pub(crate) varies: bool,
    /// What is stored and has to be validated.
    pub(crate) stale: Option<Stale>,
}

/// Where to look.
pub(crate) struct LookupQuery<'a> {
    pub(crate) store: &'a StoreWorker,
    /// May it be answered from?
    pub(crate) is_used: bool,
    /// Have rules said that the request is not for the cache?
    pub(crate) is_ruled_out: bool,
    pub(crate) route: &'a Route,
    pub(crate) key: &'a [u8],
    /// The time, in unix seconds.
    pub(crate) now: u64,
}
