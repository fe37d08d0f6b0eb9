//! Applies rules to an exchange with an origin, and to the response to the client.

use std::sync::LazyLock;

use forebay_http::{
    edit::{EditLimits, FieldEdit, FieldName, FieldValue},
    fields::FieldBlock,
    write,
};

use super::{ApplyError, RuleScratch, RuledMessage, message::EditedLines};
use crate::run::{Effects, RunBuffers};

/// The head of a response at the end of a buffer, without its final empty line.
#[derive(Clone, Copy, Debug)]
pub struct AnswerHead {
    /// The status in the written status line.
    pub status: u16,
    /// First byte of the status line.
    pub head_start: usize,
    /// First byte after the status line.
    pub fields_start: usize,
    /// Whether Forebay made this response itself, so that rules may replace its body.
    pub is_own: bool,
}

/// Runs rules on the fields of a request to the origin.
///
/// # Errors
/// Returns [`ApplyError::Fields`] if the changed lines cannot be parsed, which would be a bug.
pub fn rule_outgoing(
    fields: FieldBlock,
    limits: EditLimits,
    scratch: &mut RuleScratch,
    run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
) -> Result<FieldBlock, ApplyError> {
    rule_block(fields, None, limits, scratch, run).map(|(fields, _)| fields)
}

/// Runs rules on an origin's response before any decision about the response; returns the status
/// and the fields. The reason phrase, whether received or set here, is not forwarded.
///
/// # Errors
/// Returns [`ApplyError::Fields`] if the changed lines cannot be parsed, which would be a bug.
pub fn rule_incoming(
    (status, fields): (u16, FieldBlock),
    limits: EditLimits,
    scratch: &mut RuleScratch,
    run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
) -> Result<(u16, FieldBlock), ApplyError> {
    let (fields, effects) = rule_block(fields, Some(status), limits, scratch, run)?;
    Ok((new_status(status, &effects), fields))
}

/// Runs rules on the head at the end of `text`. Returns the status and, for a response that Forebay
/// makes itself, the body that the rules set (see [`body_of`](super::body_of)).
pub fn rule_answer(
    text: &mut Vec<u8>,
    head: AnswerHead,
    limits: EditLimits,
    scratch: &mut RuleScratch,
    run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
) -> (u16, Option<Box<[u8]>>) {
    let AnswerHead { status, head_start, fields_start, is_own } = head;
    let lines =
        EditedLines { text, start: fields_start, status: Some(status), is_client_request: false };
    let run = |mut message: RuledMessage<'_, '_>, buffers: &mut RunBuffers| {
        let mut effects = run(message.reborrow(), buffers);
        let is_mixed = is_own && effects.body.is_some() && !effects.body_is_constant;
        if is_mixed && !message.mark_as_text() {
            effects.body = None;
        }
        effects
    };
    let (effects, _) = lines.rule(limits, scratch, run);
    let RuleScratch { buffers, line, .. } = scratch;
    let status = new_status(head.status, &effects);
    let reason = effects.reason.as_ref().map(|range| buffers.get(range));
    if status != head.status || reason.is_some() {
        line.clear();
        write::status_line_with(line, status, reason);
        text.splice(head_start..fields_start, line.iter().copied());
    }
    (status, effects.body.as_ref().map(|range| buffers.get(range).into()))
}

fn rule_block(
    fields: FieldBlock,
    status: Option<u16>,
    limits: EditLimits,
    scratch: &mut RuleScratch,
    run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
) -> Result<(FieldBlock, Effects), ApplyError> {
    let mut bytes = fields.into_bytes();
    let lines = EditedLines { text: &mut bytes, start: 0, status, is_client_request: false };
    let (effects, _) = lines.rule(limits, scratch, run);
    let fields = FieldBlock::parse(&bytes).ok_or(ApplyError::Fields)?;
    Ok((fields, effects))
}

/// Sets Location, if the status of the response can be changed.
pub(super) fn redirect(edit: &mut FieldEdit<'_>, status: u16, location: &[u8]) {
    if let Some(value) = FieldValue::parse(location).filter(|_| may_change(status)) {
        // If the line exceeds the limits, the origin's own Location must not stay. `set-header`
        // does the same.
        if edit.set(&LOCATION, value).is_err() {
            edit.remove_all(&LOCATION);
        }
    }
}

static LOCATION: LazyLock<FieldName> =
    LazyLock::new(|| FieldName::parse(b"location").expect("`location` is a token"));

fn new_status(status: u16, effects: &Effects) -> u16 {
    effects.status.filter(|_| may_change(status)).unwrap_or(status)
}

/// Whether rules may change this status. They are not allowed to change a status that describes the
/// body or says that there is none, because the body belongs to the original status (RFC 9110
/// §15.3.5, §15.3.7, §15.4.5).
fn may_change(status: u16) -> bool {
    !matches!(status, 204 | 206 | 304)
}
