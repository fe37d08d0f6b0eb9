//! The plan for a request that no stored response answers.

use std::ops::Range;

use forebay_cache::{LongBody, RecordVersion};
use forebay_http::policy::reason::{Detail, Reason};
use forebay_http::policy::reuse::ForwardReason;

use super::{OtherVariant, Stale};

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
    /// The stored response to validate, if there is one and the new response may be stored.
    pub(crate) stale: Option<Stale>,
    /// Other variants that answer the request if the origin names them.
    pub(crate) others: Vec<OtherVariant>,
    /// The bytes of the first unit to fetch, if the request asks for a range and parts may be
    /// stored.
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
            others: Vec::new(),
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
