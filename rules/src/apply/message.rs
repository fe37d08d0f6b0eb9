//! A message before rules change it: the context of the run, and the limits of its size.

use std::sync::LazyLock;

use forebay_http::{
    edit::{EditLimits, EditTable, FieldEdit, FieldName, FieldValue},
    fields::Fields,
    request::HeadLimits,
};

use super::{
    answer::{HTML, TEXT},
    response::redirect,
};
use crate::{
    limits::{RULED_BYTES_MAX, RULED_LINE_COUNT_MAX},
    run::{Effects, RuleEnvironment, RuleVariables, RunBuffers, RunContext, TransactionState, Url},
};

static CONTENT_TYPE: LazyLock<FieldName> =
    LazyLock::new(|| FieldName::parse(b"content-type").expect("`content-type` is a token"));

/// Buffers that are reused from run to run.
#[derive(Debug, Default)]
pub struct RuleScratch {
    pub(super) table: EditTable,
    pub(super) buffers: RunBuffers,
    /// The line that is being built.
    pub(super) line: Vec<u8>,
}

/// Limits of a head after rules have changed it.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// Limits of the head's field lines.
    pub edit: EditLimits,
    /// Limits of the head of a changed request.
    pub head: HeadLimits,
}

impl MessageLimits {
    /// Returns limits that let rules extend even the largest head that is received.
    pub fn beyond(received: HeadLimits) -> MessageLimits {
        let HeadLimits { head_bytes_max, field_count_max, target_bytes_max } = received;
        let bytes_max = head_bytes_max.saturating_add(RULED_BYTES_MAX);
        let line_count_max = u32::from(field_count_max) + RULED_LINE_COUNT_MAX;
        let head = HeadLimits {
            // The head also contains the request line: a target, and at most 64 other bytes.
            head_bytes_max: bytes_max.saturating_add(target_bytes_max).saturating_add(64),
            field_count_max: u16::try_from(line_count_max).unwrap_or(u16::MAX),
            target_bytes_max,
        };
        MessageLimits { edit: EditLimits { bytes_max, line_count_max }, head }
    }
}

/// The client's request as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The current URL.
    pub url: Url<'a>,
    /// The URL that the client requested.
    pub original: Url<'a>,
    /// The current fields.
    pub fields: Fields<'a>,
}

/// A message that rules are about to change.
#[derive(Debug)]
pub struct RuledMessage<'m, 'b> {
    edit: &'m mut FieldEdit<'b>,
    status: Option<u16>,
    is_client_request: bool,
}

impl<'b> RuledMessage<'_, 'b> {
    /// Reborrows the message.
    pub(super) fn reborrow(&mut self) -> RuledMessage<'_, 'b> {
        let RuledMessage { edit, status, is_client_request } = self;
        RuledMessage { edit, status: *status, is_client_request: *is_client_request }
    }

    /// Labels an HTML body as text, because the body contains text from the client and a browser
    /// must not show it as a page of the site. A type that the author has set is kept. Returns
    /// false if the new type exceeds the limits.
    pub(super) fn mark_as_text(&mut self) -> bool {
        let html = self.edit.find(&CONTENT_TYPE).filter(|at| self.edit.value(*at) == HTML);
        let text = FieldValue::parse(TEXT);
        html.zip(text).is_none_or(|(at, text)| self.edit.set_value(at, text).is_ok())
    }

    /// Returns the context in which the message's rules run.
    pub fn run_context<'a, S: RuleEnvironment>(
        &'a mut self,
        view: &RequestView<'a>,
        (transaction, session): (&'a mut TransactionState, &'a mut RuleVariables),
        environment: &'a S,
    ) -> RunContext<'a, 'b, S> {
        RunContext {
            fields: self.edit,
            client: (!self.is_client_request).then_some(view.fields),
            method: view.method,
            url: view.url,
            original: view.original,
            status: self.status,
            transaction,
            session,
            environment,
        }
    }
}

/// Field lines at the end of a buffer, which rules are about to change.
pub(super) struct EditedLines<'t> {
    pub(super) text: &'t mut Vec<u8>,
    pub(super) start: usize,
    /// The status; `None` in a request.
    pub(super) status: Option<u16>,
    pub(super) is_client_request: bool,
}

impl EditedLines<'_> {
    /// Runs the rules; returns their effects and whether any line changed.
    pub(super) fn rule(
        self,
        limits: EditLimits,
        scratch: &mut RuleScratch,
        run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
    ) -> (Effects, bool) {
        let EditedLines { text, start, status, is_client_request } = self;
        let RuleScratch { table, buffers, .. } = scratch;
        let mut edit = match is_client_request {
            true => FieldEdit::of_request(text, start, table, limits),
            false => FieldEdit::new(text, start, table, limits),
        };
        let effects = run(RuledMessage { edit: &mut edit, status, is_client_request }, buffers);
        if let Some((status, location)) = status.zip(effects.location.as_ref()) {
            redirect(&mut edit, status, buffers.get(location));
        }
        let is_changed = edit.is_changed();
        edit.finish();
        (effects, is_changed)
    }
}
