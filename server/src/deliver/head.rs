//! Heads of responses, written without an allocation.

use forebay_http::framing::BodyFraming;
use forebay_http::grpc::is_grpc;
use forebay_http::policy::cache_status::{CacheStatus, write_key};
use forebay_http::request::Version;
use forebay_http::target::Scheme;
use forebay_http::write;
use forebay_rules::apply::{AnswerHead, body_of};

use super::Delivered;
use crate::config::{ErrorPage, Route, RouteSettings};
use crate::parse::ResponseForm;
use crate::transaction::Transaction;

/// Everything that the head of a response depends on, except the response itself.
#[derive(Clone, Copy)]
pub(super) struct HeadContext<'a> {
    pub(super) form: ResponseForm,
    cache_status: &'a CacheStatus,
    /// The transaction, whose header rules are the last to change the head; `None` if the request
    /// could not be parsed.
    transaction: Option<&'a Transaction<'a>>,
}

impl<'a> HeadContext<'a> {
    /// Returns the context of a transaction's response.
    #[inline]
    pub(super) fn of(transaction: &'a Transaction<'a>) -> HeadContext<'a> {
        let (form, cache_status) = (transaction.form(), &transaction.cache_status);
        HeadContext { form, cache_status, transaction: Some(transaction) }
    }

    /// Returns the context of a synthetic response. Such a response does not wait for the request's
    /// body, so the connection ends if a part of that body is unread.
    pub(super) fn of_synthetic(transaction: &'a Transaction<'a>) -> HeadContext<'a> {
        let mut context = HeadContext::of(transaction);
        context.form.keep_alive &= !transaction.has_unread_body;
        context
    }

    /// Returns the context of a response to a request that could not be parsed.
    pub(super) fn without_transaction(form: ResponseForm) -> HeadContext<'a> {
        HeadContext { form, cache_status: &CacheStatus::UNUSED, transaction: None }
    }
}

/// The parts of a head that differ between kinds of responses.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) status: u16,
    /// Field lines in the form in which they are sent.
    pub(super) block: &'a [u8],
    pub(super) age: Option<u32>,
    /// The framing of the body. For HEAD, it is the framing that the response to GET would have.
    pub(super) framing: BodyFraming,
}

/// A synthetic response, made by this server: its status, field lines and body, which rules may
/// replace.
#[derive(Clone, Copy)]
pub(super) struct SyntheticMessage<'a> {
    pub(super) status: u16,
    pub(super) block: &'a [u8],
    pub(super) body: &'a [u8],
}

/// A head that has been written.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenHead {
    /// The status after changes by rules.
    pub(super) status: u16,
    /// Whether the connection stays open.
    pub(super) keep_alive: bool,
}

impl Head<'_> {
    /// Appends the whole head.
    pub(super) fn write(&self, context: &HeadContext<'_>, text: &mut Vec<u8>) -> WrittenHead {
        self.write_with(context, text, |_| ())
    }

    /// Appends the whole head, including the field lines that `more` appends.
    // RFC: 9111-4-6
    pub(super) fn write_with(
        &self,
        context: &HeadContext<'_>,
        text: &mut Vec<u8>,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> WrittenHead {
        let head_start = text.len();
        write::status_line(text, self.status);
        let fields_start = text.len();
        text.extend_from_slice(self.block);
        more(text);
        if let Some(age) = self.age {
            text.extend_from_slice(b"age: ");
            write::decimal(text, u64::from(age));
            text.extend_from_slice(b"\r\n");
        }
        let keep_alive = write_framing(text, self.framing, context.form);
        let at = AnswerHead { status: self.status, head_start, fields_start, is_own: false };
        let (status, _) = context.end_head(text, keep_alive, at);
        text.extend_from_slice(b"\r\n");
        WrittenHead { status, keep_alive }
    }
}

impl SyntheticMessage<'_> {
    /// Appends head and body; the head includes the field lines that `more` appends.
    pub(super) fn write_with(
        &self,
        context: &HeadContext<'_>,
        text: &mut Vec<u8>,
        more: impl FnOnce(&mut Vec<u8>),
    ) -> Delivered {
        let keep_alive = context.form.keep_alive;
        let head_start = text.len();
        write::status_line(text, self.status);
        let fields_start = text.len();
        text.extend_from_slice(self.block);
        more(text);
        let at = AnswerHead { status: self.status, head_start, fields_start, is_own: true };
        let (status, body) = context.end_head(text, keep_alive, at);
        let body = body_of(self.status, self.body, body.as_deref());
        if !matches!(self.status, 204 | 304) {
            write::number_field(text, b"content-length", body.len() as u64);
        }
        text.extend_from_slice(b"\r\n");
        if context.form.head_only {
            return Delivered { status, body_bytes: 0, keep_alive };
        }
        text.extend_from_slice(body);
        Delivered { status, body_bytes: body.len() as u64, keep_alive }
    }
}

impl<'a> HeadContext<'a> {
    /// Returns the settings of the transaction's route.
    pub(super) fn settings(&self) -> Option<&'a RouteSettings> {
        Some(&self.transaction?.found_route()?.route.settings)
    }

    /// Whether the response is for a call of gRPC, whose client expects errors in its own terms.
    pub(super) fn is_grpc(&self) -> bool {
        self.transaction.is_some_and(|transaction| {
            let head = &transaction.request.head;
            transaction.client.transport.is_http2_stream()
                && is_grpc(head.method().as_bytes(), head.fields())
        })
    }

    /// Returns the page that the transaction's route has for errors of this server with this
    /// status.
    pub(super) fn error_page(&self, status: u16) -> Option<(&'a ErrorPage, &'a Transaction<'a>)> {
        let transaction = self.transaction?;
        let page = transaction.found_route()?.route.settings.error_pages.of(status)?;
        Some((page, transaction))
    }

    /// Returns the page of the transaction's route for an error of the origin.
    pub(super) fn origin_error_page(
        &self,
        status: u16,
    ) -> Option<(&'a ErrorPage, &'a Transaction<'a>)> {
        let transaction = self.transaction?;
        let page = transaction.found_route()?.route.settings.origin_error_pages.of(status)?;
        Some((page, transaction))
    }
}

impl HeadContext<'_> {
    /// Appends the last fields, then runs rules on the head. Returns the status after changes by
    /// rules, and the body that rules set for a synthetic response.
    fn end_head(
        &self,
        text: &mut Vec<u8>,
        keep_alive: bool,
        at: AnswerHead,
    ) -> (u16, Option<Box<[u8]>>) {
        if let Some(transaction) = self.transaction
            && let Some(route) = transaction.found_route()
            && route.route.changes_heads()
        {
            change_fields(transaction, route.route, text, at.fields_start);
        }
        if let Some(transaction) = self.transaction.filter(|_| self.cache_status.is_sent()) {
            text.extend_from_slice(b"cache-status: ");
            self.cache_status.write(&transaction.config.server.cache_name, text);
            if let Some(key) = transaction.shown_key() {
                write_key(key.as_bytes(), text);
            }
            text.extend_from_slice(b"\r\n");
        }
        write_connection(text, self.form.version, keep_alive);
        match self.transaction {
            Some(transaction) => transaction.run_response_rules(text, at),
            None => (at.status, None),
        }
    }
}

/// Changes fields as the settings of a route want it.
///
/// - `hsts`: over TLS, the route's Strict-Transport-Security is in place of the origin's. Browsers
///   use the first such field (RFC 6797 §8.1), so the origin's lines are removed.
/// - `basic_auth` and `client_certificate`: the origin does not know that the response is only for
///   some clients, and may permit other caches to serve it without the check of the password or the
///   certificate. So the response is private, also for caches that obey fields of their own.
#[cold]
fn change_fields(
    transaction: &Transaction<'_>,
    route: &Route,
    text: &mut Vec<u8>,
    fields_start: usize,
) {
    const HSTS: &[u8] = b"strict-transport-security";
    if let Some(value) = route.settings.hsts.0.as_deref()
        && transaction.client.request_scheme() == Scheme::Https
    {
        remove_fields(text, fields_start, |name| name.eq_ignore_ascii_case(HSTS));
        write::field(text, HSTS, value.as_bytes());
    }
    if route.hides_clients() {
        make_private(text, fields_start);
    }
}

/// Permits the response of the lines that begin at `fields_start` to private caches only. Removes
/// the fields by which origins direct single caches (RFC 9213), and the directives for shared ones.
fn make_private(text: &mut Vec<u8>, fields_start: usize) {
    let mut control = b"private".to_vec();
    for line in text[fields_start..].split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(at);
        if !name.eq_ignore_ascii_case(b"cache-control") {
            continue;
        }
        let mut is_quoted = false;
        let directives = value[1..].split(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == b',' && !is_quoted
        });
        for directive in directives.map(<[u8]>::trim_ascii) {
            let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
            let is_shared = [&b"public"[..], b"s-maxage", b"private"]
                .iter()
                .any(|shared| name.eq_ignore_ascii_case(shared));
            if !directive.is_empty() && !is_shared {
                control.extend_from_slice(b", ");
                control.extend_from_slice(directive);
            }
        }
    }
    remove_fields(text, fields_start, |name| {
        const DIRECTING: [&[u8]; 4] =
            [b"cache-control", b"surrogate-control", b"edge-control", b"x-accel-expires"];
        const TARGETED: &[u8] = b"-cache-control";
        let end = name.get(name.len().saturating_sub(TARGETED.len())..).unwrap_or_default();
        DIRECTING.iter().any(|other| name.eq_ignore_ascii_case(other))
            || end.eq_ignore_ascii_case(TARGETED)
    });
    write::field(text, b"cache-control", &control);
}

/// Removes the fields whose names `is_removed` accepts from the lines that begin at `fields_start`.
fn remove_fields(text: &mut Vec<u8>, fields_start: usize, is_removed: impl Fn(&[u8]) -> bool) {
    let mut from = fields_start;
    while let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) {
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        let name = rest.split(|byte| *byte == b':').next().unwrap_or_default();
        match is_removed(name) {
            true => drop(text.drain(from..from + end)),
            false => from += end,
        }
    }
}

/// Writes the fields that frame the body. Returns whether the connection stays open; it does not if
/// the end of the connection marks the end of the body.
fn write_framing(text: &mut Vec<u8>, framing: BodyFraming, form: ResponseForm) -> bool {
    match framing {
        BodyFraming::None => form.keep_alive,
        BodyFraming::Length(length) => {
            text.extend_from_slice(b"content-length: ");
            write::decimal(text, length);
            text.extend_from_slice(b"\r\n");
            form.keep_alive
        }
        BodyFraming::Chunked | BodyFraming::UntilClose if can_chunk(form) => {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n");
            form.keep_alive
        }
        BodyFraming::Chunked | BodyFraming::UntilClose => form.keep_alive && form.head_only,
    }
}

/// Whether the client understands chunked bodies. HTTP/1.0 has no chunked bodies (RFC 9112 §6.1).
pub(super) fn can_chunk(form: ResponseForm) -> bool {
    form.version == Version::Http11
}

/// Writes the Connection field where it is needed. RFC 9112 §9.3: persistence is the default in
/// HTTP/1.1, and has to be stated in HTTP/1.0.
fn write_connection(text: &mut Vec<u8>, version: Version, keep_alive: bool) {
    match (version, keep_alive) {
        (Version::Http11, true) | (Version::Http10, false) => {}
        (Version::Http11, false) => text.extend_from_slice(b"connection: close\r\n"),
        (Version::Http10, true) => text.extend_from_slice(b"connection: keep-alive\r\n"),
    }
}
