//! Rules that change an answer on its way to the client; what is stored stays as it is.

use forebay_http::edit::{EditLimits, FieldEdit};
use forebay_http::write;
use forebay_rules::ast::Hook;

use super::Ruling;
use super::ruling::{AtHand, RuleScratch};
use crate::config::Config;
use crate::limits::{ORIGIN_LIMITS, RULED_BYTES_MAX, RULED_LINE_COUNT_MAX};

/// The status that an answer had, and where its head stands in the text that is sent.
pub(crate) struct NewStatus {
    pub(crate) status: u16,
    /// First byte of the status line.
    pub(crate) head_start: usize,
    /// First byte behind it.
    pub(crate) fields_start: usize,
}

impl Ruling<'_> {
    /// Runs the rules on the head that ends `text`, whose lines are all written but for the empty
    /// one at the end; the status that it has then, and the body that rules have for an answer of
    /// our own.
    pub(crate) fn respond(&self, text: &mut Vec<u8>, head: NewStatus) -> (u16, Option<Box<[u8]>>) {
        if !self.has(Hook::SendResponse) {
            return (head.status, None);
        }
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        let RuleScratch { table, texts, line } = &mut *scratch;
        let edit = FieldEdit::new(text, head.fields_start, table, edit_limits(self.config));
        let status = Some(head.status);
        let at_hand = AtHand { edit, status, is_client_request: false };
        let (effects, _) = self.run(Hook::SendResponse, at_hand, texts);
        if let Some(dscp) = effects.dscp {
            self.mark(dscp);
        }
        let status = effects.status.filter(|_| may_change(head.status)).unwrap_or(head.status);
        let reason = effects.reason.as_ref().map(|range| texts.get(range));
        if status != head.status || reason.is_some() {
            line.clear();
            write::status_line_with(line, status, reason);
            text.splice(head.head_start..head.fields_start, line.iter().copied());
        }
        (status, effects.body.as_ref().map(|range| texts.get(range).into()))
    }
}

/// The body is that of the first status: one that says what the body is, or that there is none,
/// stays (RFC 9110 §15.3.5, §15.3.7, §15.4.5).
pub(super) fn may_change(status: u16) -> bool {
    !matches!(status, 204 | 206 | 304)
}

/// How large rules may make a head: so much is room for them, whatever the other side has sent.
pub(super) fn edit_limits(config: &Config) -> EditLimits {
    let received = config.server.head_bytes_max.max(ORIGIN_LIMITS.head_bytes_max);
    let lines = config.server.field_count_max.max(ORIGIN_LIMITS.field_count_max);
    EditLimits {
        bytes_max: received.saturating_add(RULED_BYTES_MAX),
        line_count_max: u32::from(lines) + RULED_LINE_COUNT_MAX,
    }
}
