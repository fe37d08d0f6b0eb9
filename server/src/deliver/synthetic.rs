//! Synthetic responses: those that this server makes itself.

use forebay_cache::PurgeResult;
use forebay_http::date::write_date;
use forebay_http::framing::BodyFraming;
use forebay_http::grpc::{grpc_status, write_grpc_message};
use forebay_http::write;
use forebay_rules::apply::OwnAnswer;

use super::Delivered;
use super::head::{Head, HeadContext, SyntheticMessage, WrittenHead};
use crate::clock;
use crate::counters::Counter;
use crate::fault::Fault;
use crate::limits::CONCURRENCY_RETRY_S;
use crate::rate_limits::write_limit_fields;
use crate::response::SyntheticResponse;
use crate::send_queue::SendQueue;

/// Appends a synthetic response.
pub(super) fn queue_synthetic(
    context: &HeadContext<'_>,
    queue: &mut SendQueue,
    response: &SyntheticResponse,
) -> Delivered {
    let text = queue.text();
    match response {
        SyntheticResponse::Fault(fault) => write_fault(context, text, *fault),
        SyntheticResponse::Redirect(url) => write_redirect(context, text, url),
        SyntheticResponse::Moved(url) => write_moved(context, text, url),
        SyntheticResponse::Fixed => write_fixed(context, text),
        SyntheticResponse::AcmeChallenge(proof) => write_challenge(context, text, proof),
        SyntheticResponse::Options => write_options(context, text),
        SyntheticResponse::Purged(purged) => write_purged(context, text, purged),
        SyntheticResponse::Ruled(answer) => write_ruled(context, text, answer),
    }
}

/// Writes an error response: the status of the fault and, as body, the route's page for that status
/// or else the reason.
// RFC: 9110-15.5-1, 9110-15.6-1, 9110-15.6.6-1
fn write_fault(context: &HeadContext<'_>, text: &mut Vec<u8>, fault: Fault) -> Delivered {
    let mut context = *context;
    context.form.keep_alive &= !fault.closes();
    if context.is_grpc() {
        return write_grpc_fault(&context, text, fault);
    }
    let more = |text: &mut Vec<u8>| {
        if fault.asks_for_credentials()
            && let Some(settings) = context.settings()
        {
            // RFC 7617 §2.1: user names and passwords are in UTF-8.
            let realm = &settings.basic_auth_realm.0;
            let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
            write::field(text, b"www-authenticate", challenge.as_bytes());
        }
        if let Fault::RateLimited { limit, wait_s } = fault
            && let Some(settings) = context.settings()
            && let Some(limit) = settings.rate_limit.all().get(usize::from(limit))
        {
            write_limit_fields(text, limit, wait_s);
        }
        if let Fault::ConcurrencyLimited { .. } = fault {
            write::number_field(text, b"retry-after", CONCURRENCY_RETRY_S);
        }
        write_date_field(text);
    };
    if let Some((page, transaction)) = context.error_page(fault.status()) {
        transaction.worker().count(Counter::ErrorPages);
        let status = fault.status();
        let message = SyntheticMessage { status, block: page.lines, body: &page.body };
        return message.write_with(&context, text, more);
    }
    let body = [fault.reason().as_bytes(), b"\n"].concat();
    let message = SyntheticMessage {
        status: fault.status(),
        block: b"content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n",
        body: &body,
    };
    message.write_with(&context, text, more)
}

/// Writes the error response to a call of gRPC: a head with the status of the call and no body. The
/// status of HTTP is 200, because clients do not see any other.
fn write_grpc_fault(context: &HeadContext<'_>, text: &mut Vec<u8>, fault: Fault) -> Delivered {
    let block = b"content-type: application/grpc\r\ncache-control: no-store\r\n";
    let message = SyntheticMessage { status: 200, block, body: b"" };
    message.write_with(context, text, |text| {
        write::number_field(text, b"grpc-status", grpc_status(fault.status()).into());
        text.extend_from_slice(b"grpc-message: ");
        write_grpc_message(text, fault.reason());
        text.extend_from_slice(b"\r\n");
        write_date_field(text);
    })
}

/// Redirects to a URL. A client repeats the request with its method and body (RFC 9110 §15.4.9).
fn write_redirect(context: &HeadContext<'_>, text: &mut Vec<u8>, url: &[u8]) -> Delivered {
    let message = SyntheticMessage {
        status: 308,
        block: b"content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n",
        body: b"use https\n",
    };
    message.write_with(context, text, |text| {
        write::field(text, b"location", url);
        write_date_field(text);
    })
}

/// Redirects to the URL that the route's `redirect` gives. How long clients keep the redirect
/// follows from its status (RFC 9110 §15.4).
fn write_moved(context: &HeadContext<'_>, text: &mut Vec<u8>, url: &[u8]) -> Delivered {
    let redirection = context.settings().and_then(|settings| settings.redirect.get());
    let message = SyntheticMessage {
        status: redirection.map_or(302, |redirection| redirection.status),
        block: b"content-type: text/plain; charset=utf-8\r\n",
        body: b"the page is at the URL in the field location\n",
    };
    message.write_with(context, text, |text| {
        write::field(text, b"location", url);
        write_date_field(text);
    })
}

/// Writes the answer that the route's `respond` gives. Its body is the text of the setting, or else
/// the route's page for errors with this status.
fn write_fixed(context: &HeadContext<'_>, text: &mut Vec<u8>) -> Delivered {
    let fixed = context.settings().and_then(|settings| Some((settings, settings.respond.get()?)));
    let Some((settings, fixed)) = fixed else { return write_fault(context, text, Fault::Internal) };
    let page = context.error_page(fixed.status).filter(|_| fixed.body.is_empty());
    let (block, body) = match page {
        Some((page, _)) => (page.lines, &*page.body),
        None => (&b"cache-control: no-store\r\n"[..], fixed.body.as_bytes()),
    };
    if let Some((_, transaction)) = page {
        transaction.worker().count(Counter::ErrorPages);
    }
    let message = SyntheticMessage { status: fixed.status, block, body };
    message.write_with(context, text, |text| {
        if page.is_none() && !body.is_empty() {
            write::field(text, b"content-type", settings.respond_type.0.as_bytes());
        }
        if settings.respond_retry_after_s > 0 {
            write::number_field(text, b"retry-after", settings.respond_retry_after_s.into());
        }
        write_date_field(text);
    })
}

/// Answers the challenge of a certificate authority (RFC 8555 §8.3).
fn write_challenge(context: &HeadContext<'_>, text: &mut Vec<u8>, proof: &str) -> Delivered {
    let message = SyntheticMessage {
        status: 200,
        block: b"content-type: application/octet-stream\r\ncache-control: no-store\r\n",
        body: proof.as_bytes(),
    };
    message.write_with(context, text, write_date_field)
}

/// Answers OPTIONS with the methods that this server supports.
fn write_options(context: &HeadContext<'_>, text: &mut Vec<u8>) -> Delivered {
    let head = Head {
        status: 204,
        block: b"allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n",
        age: None,
        framing: BodyFraming::None,
    };
    let WrittenHead { status, keep_alive } = head.write(context, text);
    Delivered { status, body_bytes: 0, keep_alive }
}

/// Answers PURGE with the number of purged responses. The status is 200 even if nothing was purged,
/// because afterwards no response is stored in either case.
fn write_purged(context: &HeadContext<'_>, text: &mut Vec<u8>, purged: &PurgeResult) -> Delivered {
    let body = format!("{{\"purged\":{},\"fetches\":{}}}\n", purged.records, purged.flights);
    let message = SyntheticMessage {
        status: 200,
        block: b"content-type: application/json\r\ncache-control: no-store\r\n",
        body: body.as_bytes(),
    };
    message.write_with(context, text, write_date_field)
}

/// Writes the response that header rules have made, such as a redirect or a refusal.
fn write_ruled(context: &HeadContext<'_>, text: &mut Vec<u8>, answer: &OwnAnswer) -> Delivered {
    let message = SyntheticMessage { status: answer.status(), block: b"", body: &answer.body() };
    message.write_with(context, text, |text| {
        answer.write_fields(text);
        write_date_field(text);
    })
}

pub(super) fn write_date_field(text: &mut Vec<u8>) {
    write::date_field(text, &write_date(clock::unix_seconds()));
}
