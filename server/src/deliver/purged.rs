//! The answer to a PURGE request.

use forebay_cache::PurgeResult;
use forebay_http::date::write_date;
use forebay_http::framing::BodyFraming;
use forebay_http::write;

use super::head::{Head, OwnHead};
use super::{Answered, Reply};
use crate::clock;
use crate::send_queue::SendQueue;

/// Appends the answer: how much was purged. It is the same if that was nothing: what matters is
/// that nothing is left.
pub(crate) fn deliver_purged(
    reply: &Reply<'_>,
    out: &mut SendQueue,
    purged: &PurgeResult,
) -> Answered {
    let Reply { form, cache, rules, .. } = *reply;
    let head = Head {
        status: 200,
        reason: None,
        block: b"content-type: application/json\r\ncache-control: no-store\r\n",
        age: None,
        framing: BodyFraming::None,
        cache,
        rules: Some(rules),
    };
    let body = format!("{{\"purged\":{},\"fetches\":{}}}\n", purged.records, purged.flights);
    OwnHead { head, body: body.as_bytes() }.write_with(out.text(), form, |text| {
        write::date_field(text, &write_date(clock::unix_seconds()));
    })
}
