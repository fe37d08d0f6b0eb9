//! Gets the missing part of a stored body from the origin, if fragments of the body were evicted
//! while it was sent.
//!
//! The part is requested as a range of the same version, which a strong validator names (RFC 9110
//! §13.1.5, §15.3.7.3). So parts of two versions are never combined.

use std::ops::Range;

use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::range::{RangeDecision, write_content_range};
use forebay_http::response::ResponseHead;
use forebay_http::write;

use super::answer::OriginBody;
use super::exchange::{Exchange, exchange};
use super::outbound::{OutboundLine, OutboundMessage, Purpose};
use crate::interim::InterimQueue;
use crate::transaction::Transaction;

/// The missing part of a body. It is never empty.
pub(crate) struct MissingRange {
    pub(crate) part: Range<u64>,
    /// Length of the whole body.
    pub(crate) body_bytes: u64,
}

/// Asks the origin for the missing part of the version that `transaction.tag` names; `None` if
/// there is no tag, the exchange fails, or the response is not exactly this part of this version.
pub(crate) async fn resume(
    transaction: &Transaction<'_>,
    missing: &MissingRange,
) -> Option<OriginBody> {
    let tag = &**transaction.tag;
    if tag.is_empty() {
        return None;
    }
    let mut range = b"bytes=".to_vec();
    write::decimal(&mut range, missing.part.start);
    range.push(b'-');
    write::decimal(&mut range, missing.part.end - 1);
    let mut fields = FieldBlock::new();
    fields.push(b"range", &range);
    fields.push(b"if-range", tag);
    let line = OutboundLine::new(&transaction.request).ok()?;
    let message = OutboundMessage {
        line: &line,
        fields: transaction.request.head.fields(),
        has_body: transaction.request.has_body(),
    };
    // Interim responses are dropped, because none can be sent between two parts of a body.
    let interim = InterimQueue::new();
    let hook = transaction.hook_context();
    let request = Exchange::new(
        transaction.client.network(),
        hook,
        message,
        Purpose::Resume(&fields),
        &interim,
    );
    let answer = exchange(&request, None).await.ok()?;
    missing.is_answered_by(&answer.head, tag).then_some(answer.body)
}

impl MissingRange {
    /// Whether a response is exactly the missing part of the version with this tag.
    fn is_answered_by(&self, head: &ResponseHead, tag: &[u8]) -> bool {
        let part = RangeDecision::Part { first: self.part.start, last: self.part.end - 1 };
        let mut content_range = Vec::new();
        write_content_range(part, self.body_bytes, &mut content_range);
        let fields = head.block.fields();
        head.status == 206
            && fields.only(FieldId::ContentRange) == Some(&content_range)
            && fields.only(FieldId::Etag) == Some(tag)
    }
}
