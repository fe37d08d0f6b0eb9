//! An answer that header rules give without asking anybody: a redirect, a refusal.

use forebay_http::date::write_date;
use forebay_http::framing::BodyFraming;
use forebay_http::write;

use super::head::{Head, OwnHead};
use super::{Answered, Reply};
use crate::clock;
use crate::out::Out;
use crate::rules::OwnAnswer;

const HTML: &[u8] = b"content-type: text/html; charset=utf-8\r\n";
const TEXT: &[u8] = b"content-type: text/plain; charset=utf-8\r\n";

/// Appends the answer: what the rules have for a body, else the reason in a line of text.
pub(crate) fn serve_ruled(reply: &Reply<'_>, out: &mut Out, answer: &OwnAnswer) -> Answered {
    let Reply { form, cache, rules, .. } = *reply;
    let status = answer.status;
    let line = [write::reason_phrase(status).as_bytes(), b"\n"].concat();
    let (body, block): (&[u8], &[u8]) = match &answer.body {
        // With something of the client's in it, it must not be taken for a page of the site's.
        Some(body) if answer.body_is_constant => (body, HTML),
        Some(body) => (body, TEXT),
        None => (&line, TEXT),
    };
    let has_body = !matches!(status, 204 | 205 | 304);
    let (body, block) = if has_body { (body, block) } else { (&b""[..], &b""[..]) };
    let reason = answer.reason.as_deref();
    let framing = BodyFraming::None;
    let head = Head { status, reason, block, age: None, framing, cache, rules: Some(rules) };
    OwnHead { head, body }.write_with(out.text(), form, |text| {
        text.extend_from_slice(b"cache-control: no-store\r\n");
        write::date_field(text, &write_date(clock::unix_seconds()));
        if let Some(location) = &answer.location {
            write::field(text, b"location", location);
        }
    })
}
