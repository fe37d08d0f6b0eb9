//! Rules that change an answer on its way to the client; what is stored stays as it is.

use forebay_rules::apply::{AnswerHead, rule_answer};
use forebay_rules::ast::Hook;

use super::HookContext;

impl HookContext<'_> {
    /// Runs the rules on the head that ends `text`, whose lines are all written but for the empty
    /// one at the end; the status that it has then, and the body that rules have for an answer of
    /// our own.
    pub(crate) fn respond(&self, text: &mut Vec<u8>, head: AnswerHead) -> (u16, Option<Box<[u8]>>) {
        let hook = Hook::SendResponse;
        if !self.has(hook) {
            return (head.status, None);
        }
        let limits = self.config.server.rule_limits();
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        rule_answer(text, head, limits.edit, &mut scratch, |message, texts| {
            self.run(hook, message, texts)
        })
    }
}
