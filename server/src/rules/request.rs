//! Rules that change a request before it is looked up.
//!
//! What they leave is written as a request head and parsed like one that has come from a client:
//! nothing that a rule makes is believed more than that, and all later steps see one request.

use std::sync::LazyLock;

use forebay_http::authority::Authority;
use forebay_http::edit::{EditLimits, EditTable, FieldEdit, FieldName, FieldValue};
use forebay_http::fields::FieldId;
use forebay_http::request::{HeadLimits, RequestHead, RequestParts, Version, parse_request};
use forebay_http::write;
use forebay_rules::ast::Hook;
use forebay_rules::run::{Effects, Texts, Url};

use super::Ruling;
use super::response::edit_limits;
use super::ruling::{AtHand, RuleScratch};
use crate::fault::Fault;

/// A request head that rules have changed, in buffers that are used again.
#[derive(Default)]
pub(crate) struct Rewritten {
    text: Vec<u8>,
    parts: RequestParts,
}

/// What rules made of a request.
pub(crate) enum Ruled<'b> {
    /// It stays as it is.
    Same,
    /// It is this one now.
    Changed(RequestHead<'b>),
    /// It is answered, and goes no further.
    Answer(OwnAnswer),
}

/// An answer that rules have made.
pub(crate) struct OwnAnswer {
    pub(crate) status: u16,
    pub(crate) reason: Option<Box<[u8]>>,
    pub(crate) location: Option<Box<[u8]>>,
    pub(crate) body: Option<Box<[u8]>>,
    /// Nobody but the rules' author has written any of it.
    pub(crate) body_is_constant: bool,
}

impl Rewritten {
    /// Gives memory beyond this back.
    pub(crate) fn reset(&mut self, bytes_kept_max: usize) {
        self.text.clear();
        self.text.shrink_to(bytes_kept_max);
        self.parts.clear();
    }
}

/// Runs the rules of an early hook on the request that `ruling` sees.
///
/// # Errors
/// [`Fault::Rules`]: what they made of it is no request.
pub(crate) fn rule_request<'b>(
    ruling: &Ruling<'_>,
    hook: Hook,
    version: Version,
    into: &'b mut Rewritten,
) -> Result<Ruled<'b>, Fault> {
    if !ruling.has(hook) {
        return Ok(Ruled::Same);
    }
    let mut scratch = ruling.worker.rule_scratch.borrow_mut();
    let RuleScratch { table, texts, line } = &mut *scratch;
    let text = &mut into.text;
    text.clear();
    for field in ruling.view.fields.iter() {
        write::field(text, field.name, field.value);
    }
    let edit = FieldEdit::new(text, 0, table, edit_limits(ruling.config));
    let at_hand = AtHand { edit, status: None, is_client_request: true };
    let (effects, is_changed) = ruling.run(hook, at_hand, texts);
    if let Some(dscp) = effects.dscp {
        ruling.mark(dscp);
    }
    if let Some(status) = effects.status {
        return Ok(Ruled::Answer(OwnAnswer::new(status, &effects, texts)));
    }
    let url_changed = effects.url_changed && ruling.view.url.path != b"*";
    if !is_changed && !url_changed {
        return Ok(Ruled::Same);
    }
    // `*` is the whole server (RFC 9110 §9.3.7): it has no parts to change.
    let new_url = texts.url().filter(|_| ruling.view.url.path != b"*");
    let url = new_url.unwrap_or(ruling.view.url);
    let was = ruling.view.url;
    let has_host = ruling.view.fields.contains(FieldId::Host);
    // The target is written without its authority, which HTTP/1.0 may have named nowhere else.
    let is_lost = !has_host && !url.host.is_empty();
    if is_lost || (url.host, url.port) != (was.host, was.port) {
        set_host(text, table, line, url)?;
    }
    let line_bytes = write_request_line(text, ruling.view.method, url, version);
    text.rotate_right(line_bytes);
    text.extend_from_slice(b"\r\n");
    let limits = head_limits(ruling);
    match parse_request(text, &limits, &mut into.parts) {
        Ok(Some(bytes)) if bytes == into.text.len() => {
            Ok(Ruled::Changed(into.parts.head(&into.text)))
        }
        _ => Err(Fault::Rules),
    }
}

impl OwnAnswer {
    fn new(status: u16, effects: &Effects, texts: &Texts) -> OwnAnswer {
        let copy = |range: &std::ops::Range<usize>| texts.get(range).into();
        OwnAnswer {
            status,
            reason: effects.reason.as_ref().map(copy),
            location: effects.location.as_ref().map(copy),
            body: effects.body.as_ref().map(copy),
            body_is_constant: effects.body_is_constant,
        }
    }
}

/// Host follows the URL, as whoever is asked needs it (RFC 9110 §7.2).
fn set_host(
    text: &mut Vec<u8>,
    table: &mut EditTable,
    host: &mut Vec<u8>,
    url: Url<'_>,
) -> Result<(), Fault> {
    host.clear();
    host.extend_from_slice(url.host);
    if let Some(port) = url.port {
        host.push(b':');
        write::decimal(host, u64::from(port));
    }
    let is_authority = Authority::parse(host).is_some();
    let value = FieldValue::parse(host).filter(|_| is_authority).ok_or(Fault::Rules)?;
    // The head as a whole is measured when it is parsed.
    let limits = EditLimits { bytes_max: u32::MAX, line_count_max: u32::MAX };
    let mut edit = FieldEdit::new(text, 0, table, limits);
    edit.set(&HOST, value).map_err(|_| Fault::Rules)?;
    Ok(())
}

static HOST: LazyLock<FieldName> =
    LazyLock::new(|| FieldName::parse(b"Host").expect("it is a token"));

/// Appends the request line; how many bytes it has.
fn write_request_line(text: &mut Vec<u8>, method: &[u8], url: Url<'_>, version: Version) -> usize {
    let before = text.len();
    text.extend_from_slice(method);
    text.push(b' ');
    text.extend_from_slice(url.path);
    if let Some(query) = url.query {
        text.push(b'?');
        text.extend_from_slice(query);
    }
    text.extend_from_slice(match version {
        Version::Http10 => b" HTTP/1.0\r\n",
        Version::Http11 => b" HTTP/1.1\r\n",
    });
    text.len() - before
}

/// As for a client's head, with room for what rules add.
fn head_limits(ruling: &Ruling<'_>) -> HeadLimits {
    let server = &ruling.config.server;
    let limits = edit_limits(ruling.config);
    HeadLimits {
        // The request line, and what is short of it.
        head_bytes_max: limits.bytes_max.saturating_add(server.target_bytes_max).saturating_add(64),
        field_count_max: u16::try_from(limits.line_count_max).unwrap_or(u16::MAX),
        target_bytes_max: server.target_bytes_max,
    }
}
