//! Rules that change a response while it is sent to the client; the stored response stays
//! unchanged.

use forebay_rules::apply::{AnswerHead, rule_answer};
use forebay_rules::ast::Hook;

use super::HookContext;

impl HookContext<'_> {
    /// Runs the rules on the head at the end of `text`, which is complete except for its final
    /// empty line. Returns the status after changes by rules, and the body that rules set for a
    /// synthetic response.
    pub(crate) fn run_on_response(
        &self,
        text: &mut Vec<u8>,
        head: AnswerHead,
    ) -> (u16, Option<Box<[u8]>>) {
        let limits = self.config.server.rule_limits();
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        rule_answer(text, head, limits.edit, &mut scratch, |message, texts| {
            self.run(Hook::SendResponse, message, texts)
        })
    }
}
