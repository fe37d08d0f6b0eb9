//! Applies rules that change a request before the lookup.
//!
//! The changed request is written as a head and parsed like a client's request. So it is trusted no
//! more than a client's request, and all later steps see a single form of request.

use std::sync::LazyLock;

use forebay_http::{
    authority::Authority,
    edit::{EditLimits, EditTable, FieldEdit, FieldName, FieldValue},
    fields::{Field, FieldId},
    request::{HeadLimits, RequestHead, RequestParts, Version, parse_request},
    write,
};

use super::{
    ApplyError, MessageLimits, OwnAnswer, RequestView, RuleScratch, RuledMessage,
    message::EditedLines,
};
use crate::run::{Effects, RunBuffers, Url};

/// A request head with the text that it points into; the buffers are reused.
#[derive(Debug, Default)]
pub struct RequestText {
    text: Vec<u8>,
    parts: RequestParts,
}

/// A request after its rules have run.
#[derive(Debug)]
pub enum RuledRequest<'b> {
    /// The rules did not change the request.
    Same,
    /// The rules changed the request; this is the new head.
    Changed(RequestHead<'b>),
    /// The rules answered the request, which is not processed further.
    Answer(OwnAnswer),
}

impl RequestText {
    /// Parses a whole head, including the empty line.
    ///
    /// # Errors
    /// Returns [`ApplyError::Request`] if `text` is not exactly one valid head.
    pub fn parse(text: Vec<u8>, limits: &HeadLimits) -> Result<RequestText, ApplyError> {
        let mut request = RequestText { text, parts: RequestParts::default() };
        request.check(limits)?;
        Ok(request)
    }

    /// Returns the parsed head.
    pub fn head(&self) -> RequestHead<'_> {
        self.parts.head(&self.text)
    }

    /// Returns the head in wire form.
    pub fn bytes(&self) -> &[u8] {
        &self.text
    }

    /// Makes this the copy of a head without the lines for which `is_replaced` is true, and with
    /// the name and value of a line in their place, which counts as written by rules. Returns the
    /// new head.
    ///
    /// # Errors
    /// Returns [`ApplyError`] if the new head is not valid.
    pub fn copy_replacing(
        &mut self,
        head: RequestHead<'_>,
        is_replaced: impl Fn(&Field<'_>) -> bool,
        added: Option<(&[u8], &[u8])>,
        limits: &HeadLimits,
    ) -> Result<RequestHead<'_>, ApplyError> {
        let (text, mut ruled) = (&mut self.text, Vec::new());
        text.clear();
        for part in [head.method().as_bytes(), b" ", head.target(), b" "] {
            text.extend_from_slice(part);
        }
        text.extend_from_slice(match head.version() {
            Version::Http10 => b"HTTP/1.0\r\n",
            Version::Http11 => b"HTTP/1.1\r\n",
        });
        for field in head.fields().iter().filter(|field| !is_replaced(field)) {
            if field.is_ruled {
                ruled.push(text.len());
            }
            write::field(text, field.name, field.value);
        }
        if let Some((name, value)) = added {
            ruled.push(text.len());
            write::field(text, name, value);
        }
        text.extend_from_slice(b"\r\n");
        self.check(limits)?;
        self.parts.mark_ruled(|start| ruled.contains(&start));
        Ok(self.head())
    }

    /// Clears the request, and frees memory beyond this size.
    pub fn reset(&mut self, bytes_kept_max: usize) {
        self.text.clear();
        self.text.shrink_to(bytes_kept_max);
        self.parts.clear();
    }

    fn check(&mut self, limits: &HeadLimits) -> Result<(), ApplyError> {
        match parse_request(&self.text, limits, &mut self.parts) {
            Ok(Some(bytes)) if bytes == self.text.len() => Ok(()),
            Ok(_) => Err(ApplyError::Request(None)),
            Err(why) => Err(ApplyError::Request(Some(why))),
        }
    }
}

/// Runs the rules of an early hook (`ReadRequest` or `Remap`) on a request. The lines that these
/// rules write are marked in the changed head, in addition to the lines that are already marked in
/// the view.
///
/// # Errors
/// Returns [`ApplyError`] if the changed request is not valid.
pub fn rule_request<'b>(
    (view, version): (&RequestView<'_>, Version),
    limits: &MessageLimits,
    scratch: &mut RuleScratch,
    into: &'b mut RequestText,
    run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
) -> Result<RuledRequest<'b>, ApplyError> {
    let text = &mut into.text;
    text.clear();
    scratch.table.ruled_lines().clear();
    for field in view.fields.iter() {
        if field.is_ruled {
            scratch.table.ruled_lines().push(text.len());
        }
        write::field(text, field.name, field.value);
    }
    let lines = EditedLines { text, start: 0, status: None, is_client_request: true };
    let (effects, is_changed) = lines.rule(limits.edit, scratch, run);
    let RuleScratch { table, buffers, line } = scratch;
    if let Some(status) = effects.status {
        return Ok(RuledRequest::Answer(OwnAnswer::new(status, &effects, buffers)));
    }
    // `*` stands for the whole server (RFC 9110 §9.3.7), and the target of CONNECT is an authority,
    // so these URLs have no parts to change.
    let is_fixed = matches!(view.url.path, b"*" | b"");
    if !is_changed && (!effects.url_changed || is_fixed) {
        return Ok(RuledRequest::Same);
    }
    let url = buffers.url().filter(|_| !is_fixed).unwrap_or(view.url);
    let has_host = view.fields.contains(FieldId::Host);
    // The target is written without its authority. An HTTP/1.0 request may have no Host field, so
    // the host would be lost.
    let is_lost = !has_host && !url.host.is_empty();
    if is_lost || (url.host, url.port) != (view.url.host, view.url.port) {
        set_host(text, table, line, url)?;
    }
    let line_bytes = write_request_line(text, view.method, url, version);
    text.rotate_right(line_bytes);
    text.extend_from_slice(b"\r\n");
    into.check(&limits.head)?;
    let ruled = table.ruled_lines();
    into.parts.mark_ruled(|start| ruled.contains(start - line_bytes));
    Ok(RuledRequest::Changed(into.head()))
}

/// Sets the Host field to the host and port of the URL, as RFC 9110 §7.2 requires.
fn set_host(
    text: &mut Vec<u8>,
    table: &mut EditTable,
    host: &mut Vec<u8>,
    url: Url<'_>,
) -> Result<(), ApplyError> {
    host.clear();
    url.write_authority(host);
    let is_authority = Authority::parse(host).is_some();
    let value = FieldValue::parse(host).filter(|_| is_authority).ok_or(ApplyError::Host)?;
    // The size of the whole head is checked when it is parsed.
    let limits = EditLimits { bytes_max: u32::MAX, line_count_max: u32::MAX };
    let mut edit = FieldEdit::of_request(text, 0, table, limits);
    edit.set(&HOST, value).map_err(|_| ApplyError::Host)?;
    Ok(())
}

static HOST: LazyLock<FieldName> =
    LazyLock::new(|| FieldName::parse(b"Host").expect("`Host` is a token"));

/// Appends the request line; returns its length.
fn write_request_line(text: &mut Vec<u8>, method: &[u8], url: Url<'_>, version: Version) -> usize {
    let before = text.len();
    text.extend_from_slice(method);
    text.push(b' ');
    match url.path {
        b"" => url.write_authority(text),
        _ => url.write_path_query(text),
    }
    text.extend_from_slice(match version {
        Version::Http10 => b" HTTP/1.0\r\n",
        Version::Http11 => b" HTTP/1.1\r\n",
    });
    text.len() - before
}
