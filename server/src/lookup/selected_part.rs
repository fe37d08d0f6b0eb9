//! What of a stored response a request gets: the client's conditions and ranges hold for what is
//! stored (RFC 9110 §13, §14).

use std::ops::Range;

use forebay_http::policy::conditional::{ConditionalResult, conditional};
use forebay_http::policy::range::{RangeDecision, range};

use super::StoredResponse;
use crate::parse::Request;

/// What of a stored response answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectedPart {
    /// Nothing: the client's copy is good.
    NotModified,
    /// Its body, or a range of it.
    Body(RangeDecision),
}

impl SelectedPart {
    pub(super) fn of(request: &Request<'_>, stored: &StoredResponse<'_>) -> SelectedPart {
        let fields = request.head.fields();
        let (meta, block) = (&stored.meta, stored.block());
        if conditional(fields, meta, block) == ConditionalResult::NotModified {
            return SelectedPart::NotModified;
        }
        SelectedPart::Body(match request.form.head_only {
            true => RangeDecision::Whole,
            false => range(fields, meta, block, stored.found.body().bytes()),
        })
    }

    /// The bytes that it is, of a body of this length.
    pub(crate) fn bytes(self, body_bytes: u64) -> Range<u64> {
        match self {
            SelectedPart::Body(RangeDecision::Whole) => 0..body_bytes,
            SelectedPart::Body(RangeDecision::Part { first, last }) => first..last + 1,
            SelectedPart::NotModified | SelectedPart::Body(RangeDecision::Unsatisfiable) => 0..0,
        }
    }
}
