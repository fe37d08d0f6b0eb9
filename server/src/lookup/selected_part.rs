//! The part of a stored response that answers a request: the client's conditions and ranges are
//! evaluated against the stored response (RFC 9110 §13, §14).

use std::ops::Range;

use forebay_http::policy::conditional::{ConditionalResult, conditional};
use forebay_http::policy::range::{RangeDecision, range};

use super::StoredResponse;
use crate::parse::Request;

/// The part of a stored response that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectedPart {
    /// No part: the client's copy is still valid, so the answer is a 304.
    NotModified,
    /// The body, or a range of it.
    Body(RangeDecision),
}

impl SelectedPart {
    // RFC: 9110-13.2.1-1, 9110-13.2.2-1, 9110-14.2-1
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

    /// Returns the selected range of bytes in a body of `body_bytes`. For several parts, returns
    /// the whole body.
    pub(crate) fn bytes(self, body_bytes: u64) -> Range<u64> {
        match self {
            SelectedPart::Body(RangeDecision::Whole | RangeDecision::Parts) => 0..body_bytes,
            SelectedPart::Body(RangeDecision::Part { first, last }) => first..last + 1,
            SelectedPart::NotModified | SelectedPart::Body(RangeDecision::Unsatisfiable) => 0..0,
        }
    }
}
