//! Step four: finds a stored response that may answer this request (RFC 9111 §4).

mod bypass;
mod find;
mod selected_part;
mod stored;

pub(crate) use bypass::bypass;
pub(crate) use find::{lookup, lookup_stale, selected, validated};
pub(crate) use selected_part::SelectedPart;
pub use stored::write_stored_head;
pub(crate) use stored::{Stale, StoredResponse, stored_block, stored_meta, write_strong_tag};

use std::ops::Range;

use forebay_cache::{LongBody, RecordVersion, StoreWorker};
use forebay_http::policy::reason::{Detail, Reason};
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

/// The plan for a request that goes to the origin.
pub(crate) struct ForwardPlan {
    pub(crate) reason: ForwardReason,
    /// The `detail` of Cache-Status, if the reason needs one.
    pub(crate) detail: Option<Detail>,
    /// Whether the response may be stored and shared with other requests that wait for it.
    /// Otherwise the request is passed through.
    pub(crate) fills: bool,
    /// Whether the resource is known to have variants.
    pub(crate) varies: bool,
    /// Whether a stored response may answer the request after it is validated.
    pub(crate) is_stale: bool,
    /// The stored response to validate, if the new response may be stored.
    pub(crate) stale: Option<Stale>,
    /// The bytes of the first unit, if the request asks for a range and parts may be stored.
    pub(crate) unit: Option<Range<u64>>,
    /// The missing part of the stored response that answers the request.
    pub(crate) missing: Option<MissingPart>,
}

/// A stored response that answers a request once a missing part of its body is fetched.
pub(crate) struct MissingPart {
    pub(crate) known: RecordVersion,
    pub(crate) body: LongBody,
    /// The first missing fragment.
    pub(crate) number: u32,
    /// The strong entity tag of the stored response.
    pub(crate) tag: Vec<u8>,
    pub(crate) ttl: i64,
}

impl ForwardPlan {
    /// Creates the plan for a request that is passed through.
    pub(crate) fn new(reason: ForwardReason) -> ForwardPlan {
        ForwardPlan {
            reason,
            detail: None,
            fills: false,
            varies: false,
            is_stale: false,
            stale: None,
            unit: None,
            missing: None,
        }
    }

    /// Creates the plan for a request that neither reads from the store nor adds to it.
    pub(crate) fn unshared(reason: ForwardReason, detail: Reason) -> ForwardPlan {
        ForwardPlan { detail: Some(detail.into()), ..ForwardPlan::new(reason) }
    }

    /// Whether the request is collapsed with others.
    pub(crate) fn collapses(&self) -> bool {
        self.fills || self.unit.is_some()
    }
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
