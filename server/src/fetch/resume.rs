//! Gets the missing part of a stored body from the origin, if fragments of the body were evicted
//! while it was sent.
//!
//! The part is requested as a range of the same version, which a strong validator identifies (RFC
//! 9110 §13.1.5, §15.3.7.3). So parts of two versions are never combined.

use std::ops::Range;

use forebay_http::fields::{FieldBlock, FieldId};
use forebay_http::policy::range::{RangeDecision, write_content_range, write_range};
use forebay_http::response::ResponseHead;

use super::answer::OriginBody;
use super::exchange::{Exchange, ServedClient, exchange};
use super::outbound::{OutboundLine, OutboundMessage, Purpose};
use crate::interim::InterimQueue;
use crate::transaction::Transaction;

/// The missing part of a body. It is never empty.
pub(crate) struct MissingRange {
    pub(crate) part: Range<u64>,
    /// The length of the whole body.
    pub(crate) body_bytes: u64,
}

/// Asks the origin for the missing part of the version that `transaction.tag` identifies. Returns
/// `None` if there is no tag, the exchange fails, or the response is not exactly this part of this
/// version.
// RFC: 9110-13.1.5-1
pub(crate) async fn resume(
    transaction: &Transaction<'_>,
    missing: &MissingRange,
) -> Option<OriginBody> {
    let tag = &**transaction.tag;
    if tag.is_empty() {
        return None;
    }
    let mut range = Vec::new();
    write_range(&missing.part, &mut range);
    let mut fields = FieldBlock::new();
    fields.push(b"range", &range);
    fields.push(b"if-range", tag);
    let line = OutboundLine::new(&transaction.request).ok()?;
    let message = OutboundMessage {
        line: &line,
        fields: transaction.request.head.fields(),
        framing: transaction.request.framing,
    };
    // Interim responses are dropped, because none can be sent between two parts of a body.
    let interim = InterimQueue::new();
    let hook = transaction.hook_context();
    let request = Exchange::new(
        ServedClient::of(transaction),
        hook,
        message,
        Purpose::Resume(&fields),
        (&interim, transaction.trace()),
    );
    let answer = exchange(&request, None).await.ok()?;
    missing.is_answered_by(&answer.head, tag).then_some(answer.body)
}

impl MissingRange {
    /// Whether a response is exactly the missing part of the version with this tag.
    // RFC: 9110-14.3-1, 9110-14.4-1, 9110-14.4-5, 9110-15.3.7-1, 9110-15.3.7.3-1
    pub(super) fn is_answered_by(&self, head: &ResponseHead, tag: &[u8]) -> bool {
        let part = RangeDecision::Part { first: self.part.start, last: self.part.end - 1 };
        let mut content_range = Vec::new();
        write_content_range(part, self.body_bytes, &mut content_range);
        let fields = head.block.fields();
        head.status == 206
            && fields.only(FieldId::ContentRange) == Some(&content_range)
            && fields.only(FieldId::Etag) == Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC: 9110-14.3-1, 9110-14.4-1, 9110-14.4-5, 9110-15.3.7-1, 9110-15.3.7.3-1
    #[test]
    fn only_the_missing_part_of_the_same_version_is_an_answer() {
        let missing = MissingRange { part: 2..5, body_bytes: 10 };
        for (name, status, range, tag, expected) in [
            ("the part", 206, "bytes 2-4/10", "\"a\"", true),
            ("a whole response", 200, "bytes 2-4/10", "\"a\"", false),
            ("another version", 206, "bytes 2-4/10", "\"b\"", false),
            ("a weak tag", 206, "bytes 2-4/10", "W/\"a\"", false),
            ("another part", 206, "bytes 2-5/10", "\"a\"", false),
            ("another length", 206, "bytes 2-4/11", "\"a\"", false),
            ("an unknown length", 206, "bytes 2-4/*", "\"a\"", false),
            ("another unit", 206, "lines 2-4/10", "\"a\"", false),
            ("a last byte before the first", 206, "bytes 4-2/10", "\"a\"", false),
            ("several parts", 206, "", "\"a\"", false),
        ] {
            let mut block = FieldBlock::new();
            block.push(b"content-range", range.as_bytes());
            block.push(b"etag", tag.as_bytes());
            let framing = forebay_http::framing::BodyFraming::Length(3);
            let head = ResponseHead { status, framing, content_length: Some(3), block };
            assert_eq!(missing.is_answered_by(&head, b"\"a\""), expected, "{name}");
        }
    }
}
