//! OPTIONS that go no further (RFC 9110 §7.6.2).

use forebay_http::fields::FieldId;
use forebay_http::framing::BodyFraming;
use forebay_http::request::Method;

use super::head::{Head, Written};
use super::{Answered, Reply};
use crate::parse::Request;
use crate::send_queue::SendQueue;

/// Does the request ask this server itself, by Max-Forwards?
pub(crate) fn is_for_us(request: &Request<'_>) -> bool {
    request.head.method() == Method::Options
        && request.head.fields().only(FieldId::MaxForwards) == Some(b"0")
}

/// Appends the answer: what may be asked here.
pub(crate) fn deliver_options(reply: &Reply<'_>, out: &mut SendQueue) -> Answered {
    let Reply { form, cache, rules, .. } = *reply;
    let head = Head {
        status: 204,
        reason: None,
        block: b"allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n",
        age: None,
        framing: BodyFraming::None,
        cache,
        rules: Some(rules),
    };
    let Written { status, keep_alive } = head.write(out.text(), form);
    Answered { status, body_bytes: 0, keep_alive }
}
