//! Requests for a representation that this server itself holds, such as a file: the evaluation of
//! preconditions and ranges by an origin (RFC 9110 §13.2.2, §14.2).

use crate::fields::{FieldId, Fields};
use crate::policy::conditional::{ConditionalResult, evaluate};
use crate::policy::etag::{EntityTag, tags};
use crate::policy::exchange::date_field;
use crate::policy::range::{RangeDecision, one_range};

/// A representation, as far as preconditions and ranges depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Representation<'a> {
    /// The entity tag, if the representation has one.
    pub etag: Option<EntityTag<'a>>,
    /// The time of its last modification in Unix seconds, if it is known.
    pub modified: Option<u64>,
    /// The length of the body.
    pub body_bytes: u64,
}

/// The answer to a GET or HEAD request for a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepresentationAnswer {
    /// 304: the client's copy is current.
    NotModified,
    /// 412: a precondition failed.
    Failed,
    /// The body or one part of it; never [`RangeDecision::Parts`].
    Body(RangeDecision),
}

/// RFC 9110 §13.2.2: evaluates preconditions in their order, then Range (§14.2). `is_get` is false
/// for HEAD, for which Range has no meaning. `now` is in Unix seconds.
///
/// A request for several parts gets the whole body, as RFC 9110 §14.2 permits.
pub fn answer_of(
    request: Fields<'_>,
    is_get: bool,
    representation: Representation<'_>,
    now: u64,
) -> RepresentationAnswer {
    let Representation { etag, modified, body_bytes } = representation;
    if fails(request, etag, modified) {
        return RepresentationAnswer::Failed;
    }
    if evaluate(request, etag, modified) == ConditionalResult::NotModified {
        return RepresentationAnswer::NotModified;
    }
    let is_range = is_get && if_range_holds(request, etag, modified, now);
    RepresentationAnswer::Body(match is_range {
        true => one_range(request, body_bytes),
        false => RangeDecision::Whole,
    })
}

/// RFC 9110 §13.1.1, §13.1.4: whether If-Match is false, or without it, If-Unmodified-Since.
fn fails(request: Fields<'_>, etag: Option<EntityTag<'_>>, modified: Option<u64>) -> bool {
    if request.contains(FieldId::IfMatch) {
        let mut listed = request.all(FieldId::IfMatch).flat_map(tags);
        let is_any = request.only(FieldId::IfMatch) == Some(b"*");
        return !is_any
            && !etag.is_some_and(|current| listed.any(|tag| tag.matches_strongly(current)));
    }
    let since = date_field(request, FieldId::IfUnmodifiedSince);
    modified.zip(since).is_some_and(|(modified, since)| modified > since)
}

/// RFC 9110 §13.1.5: whether If-Range is absent, or names this representation strongly.
fn if_range_holds(
    request: Fields<'_>,
    etag: Option<EntityTag<'_>>,
    modified: Option<u64>,
    now: u64,
) -> bool {
    if !request.contains(FieldId::IfRange) {
        return true;
    }
    let tag = request.only(FieldId::IfRange).and_then(EntityTag::parse);
    if let Some(tag) = tag {
        return etag.is_some_and(|current| tag.matches_strongly(current));
    }
    // §8.8.2.2: a date is strong if the resource cannot have changed again within that second.
    let date = date_field(request, FieldId::IfRange);
    date.is_some_and(|date| modified == Some(date) && date < now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::date::write_date;
    use crate::fields::FieldBlock;

    const MODIFIED: u64 = 1_700_000_000;

    fn answer(is_get: bool, lines: &[(&str, &str)]) -> RepresentationAnswer {
        let date = |s: u64| String::from_utf8(write_date(s).to_vec()).expect("ASCII");
        let mut block = FieldBlock::new();
        for (name, value) in lines {
            let value = match *value {
                "same" => date(MODIFIED),
                "before" => date(MODIFIED - 1),
                value => value.to_owned(),
            };
            block.push(name.as_bytes(), value.as_bytes());
        }
        let etag = EntityTag::parse(b"\"a\"");
        let held = Representation { etag, modified: Some(MODIFIED), body_bytes: 10 };
        answer_of(block.fields(), is_get, held, MODIFIED + 9)
    }

    #[test]
    fn preconditions_are_evaluated_in_their_order_and_before_ranges() {
        use RepresentationAnswer::{Body, Failed, NotModified};
        let whole = Body(RangeDecision::Whole);
        let part = Body(RangeDecision::Part { first: 2, last: 4 });
        let range = ("range", "bytes=2-4");
        for (lines, expected) in [
            (&[][..], whole),
            (&[("if-match", "\"a\"")], whole),
            (&[("if-match", "*")], whole),
            (&[("if-match", "W/\"a\"")], Failed),
            (&[("if-match", "\"b\", \"c\"")], Failed),
            (&[("if-match", "\"a\""), ("if-unmodified-since", "before")], whole),
            (&[("if-unmodified-since", "before")], Failed),
            (&[("if-unmodified-since", "same")], whole),
            (&[("if-match", "\"a\""), ("if-none-match", "\"a\"")], NotModified),
            (&[("if-none-match", "\"b\", W/\"a\"")], NotModified),
            (&[("if-none-match", "\"b\""), ("if-modified-since", "same")], whole),
            (&[("if-modified-since", "same")], NotModified),
            (&[("if-modified-since", "before")], whole),
            (&[range], part),
            (&[range, ("if-none-match", "\"a\"")], NotModified),
            (&[range, ("if-range", "\"a\"")], part),
            (&[range, ("if-range", "W/\"a\"")], whole),
            (&[range, ("if-range", "\"b\"")], whole),
            (&[range, ("if-range", "same")], part),
            (&[range, ("if-range", "before")], whole),
            (&[("range", "bytes=10-")], Body(RangeDecision::Unsatisfiable)),
            (&[("range", "bytes=0-0,9-9")], Body(RangeDecision::Part { first: 0, last: 9 })),
            (&[("range", "lines=1-2")], whole),
        ] {
            assert_eq!(answer(true, lines), expected, "{lines:?}");
        }
        assert_eq!(answer(false, &[range]), whole);
        assert_eq!(answer(false, &[("if-match", "\"b\"")]), Failed);
    }
}
