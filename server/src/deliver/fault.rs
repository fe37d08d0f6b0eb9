//! Answers of our own to requests that are not answered as asked.

use forebay_http::date::write_date;
use forebay_http::framing::BodyFraming;
use forebay_http::policy::cache_status::CacheStatus;
use forebay_http::write;

use super::Answered;
use super::head::{Head, OwnHead};
use crate::clock;
use crate::fault::Fault;
use crate::parse::ResponseForm;
use crate::rules::HookContext;
use crate::send_queue::SendQueue;

/// Appends an answer with the fault's status and one sentence that says what is wrong.
pub(crate) fn deliver_fault(
    out: &mut SendQueue,
    fault: Fault,
    mut form: ResponseForm,
    cache: &CacheStatus,
    rules: Option<&HookContext<'_>>,
) -> Answered {
    form.keep_alive &= !fault.closes();
    let (status, reason) = (fault.status(), fault.reason());
    let body = [reason.as_bytes(), b"\n"].concat();
    let head = Head {
        status,
        reason: None,
        block: b"content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n",
        age: None,
        framing: BodyFraming::None,
        cache,
        rules,
    };
    OwnHead { head, body: &body }.write_with(out.text(), form, |text| {
        write::date_field(text, &write_date(clock::unix_seconds()));
    })
}
