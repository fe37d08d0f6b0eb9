//! A message that rules are about to change, what they see beside it, and how large it may become.

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
    LazyLock::new(|| FieldName::parse(b"content-type").expect("it is a token"));

/// Buffers of rules that run one after the other.
#[derive(Debug, Default)]
pub struct RuleScratch {
    pub(super) table: EditTable,
    pub(super) buffers: RunBuffers,
    /// A line that is being put together.
    pub(super) line: Vec<u8>,
}

/// How large rules may make a head.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// Of its field lines.
    pub edit: EditLimits,
    /// Of a request that they have changed.
    pub head: HeadLimits,
}

impl MessageLimits {
    /// So much is room for rules, beyond the largest head that is received.
    pub fn beyond(received: HeadLimits) -> MessageLimits {
        let HeadLimits { head_bytes_max, field_count_max, target_bytes_max } = received;
        let bytes_max = head_bytes_max.saturating_add(RULED_BYTES_MAX);
        let line_count_max = u32::from(field_count_max) + RULED_LINE_COUNT_MAX;
        let head = HeadLimits {
            // The request line, and what is short of it.
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
    /// Its method.
    pub method: &'a [u8],
    /// As it stands now.
    pub url: Url<'a>,
    /// As the client asked it.
    pub original: Url<'a>,
    /// As they stand now.
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
    /// The same message for somebody who keeps it.
    pub(super) fn reborrow(&mut self) -> RuledMessage<'_, 'b> {
        let RuledMessage { edit, status, is_client_request } = self;
        RuledMessage { edit, status: *status, is_client_request: *is_client_request }
    }

    /// With something of the client's in its body, it must not be taken for a page of the site's:
    /// unless its author has named another type, it is text. False if there is no room to say so.
    pub(super) fn mark_as_text(&mut self) -> bool {
        let html = self.edit.find(&CONTENT_TYPE).filter(|at| self.edit.value(*at) == HTML);
        let text = FieldValue::parse(TEXT);
        html.zip(text).is_none_or(|(at, text)| self.edit.set_value(at, text).is_ok())
    }

    /// All that its rules see.
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

/// The field lines at the end of a text, which rules are to change.
pub(super) struct EditedLines<'t> {
    pub(super) text: &'t mut Vec<u8>,
    pub(super) start: usize,
    /// Of a response.
    pub(super) status: Option<u16>,
    pub(super) is_client_request: bool,
}

impl EditedLines<'_> {
    /// What the rules want beside, and whether they changed any line.
    pub(super) fn rule(
        self,
        limits: EditLimits,
        scratch: &mut RuleScratch,
        run: impl FnOnce(RuledMessage<'_, '_>, &mut RunBuffers) -> Effects,
    ) -> (Effects, bool) {
        let EditedLines { text, start, status, is_client_request } = self;
        let RuleScratch { table, buffers, .. } = scratch;
        let mut edit = FieldEdit::new(text, start, table, limits);
        let effects = run(RuledMessage { edit: &mut edit, status, is_client_request }, buffers);
        if let Some((status, location)) = status.zip(effects.location.as_ref()) {
            redirect(&mut edit, status, buffers.get(location));
        }
        let is_changed = edit.is_changed();
        edit.finish();
        (effects, is_changed)
    }
}
