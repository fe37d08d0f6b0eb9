//! An answer that header rules give without asking anybody: a redirect, a refusal.

use forebay_http::date::write_date;
use forebay_http::framing::BodyFraming;
use forebay_http::write;
use forebay_rules::apply::OwnAnswer;

use super::head::{Head, OwnHead};
use super::{Answered, Reply};
use crate::clock;
use crate::send_queue::SendQueue;

/// Appends the answer.
pub(crate) fn deliver_ruled(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    answer: &OwnAnswer,
) -> Answered {
    let Reply { form, cache, rules, .. } = *reply;
    let head = Head {
        status: answer.status(),
        reason: None,
        block: b"",
        age: None,
        framing: BodyFraming::None,
        cache,
        rules: Some(rules),
    };
    OwnHead { head, body: &answer.body() }.write_with(out.text(), form, |text| {
        answer.write_fields(text);
        write::date_field(text, &write_date(clock::unix_seconds()));
    })
}
