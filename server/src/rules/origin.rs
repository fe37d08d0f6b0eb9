//! Rules around an exchange with an origin.

use forebay_http::fields::FieldBlock;
use forebay_http::response::ResponseHead;
use forebay_rules::apply::{rule_incoming, rule_outgoing};
use forebay_rules::ast::Hook;

use super::HookContext;
use crate::fault::Fault;

impl HookContext<'_> {
    /// Runs the rules of `SendRequest` on the fields of a request to the origin.
    ///
    /// # Errors
    /// [`Fault::Rules`]: the result is not a valid head, which would be a bug.
    pub(crate) fn send_request(&self, fields: FieldBlock) -> Result<FieldBlock, Fault> {
        let hook = Hook::SendRequest;
        if !self.has(hook) {
            return Ok(fields);
        }
        let limits = self.config.server.rule_limits();
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        rule_outgoing(fields, limits.edit, &mut scratch, |message, texts| {
            self.run(hook, message, texts)
        })
        .map_err(|_| Fault::Rules)
    }

    /// Runs the rules of `ReadResponse` on the head of an origin's response. This comes before all
    /// decisions that depend on the head.
    ///
    /// # Errors
    /// [`Fault::Rules`]: the result is not a valid head, which would be a bug.
    pub(crate) fn read_response(&self, head: &mut ResponseHead) -> Result<(), Fault> {
        let hook = Hook::ReadResponse;
        if !self.has(hook) {
            return Ok(());
        }
        let limits = self.config.server.rule_limits();
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        let received = (head.status, std::mem::take(&mut head.block));
        let ruled = rule_incoming(received, limits.edit, &mut scratch, |message, texts| {
            self.run(hook, message, texts)
        });
        (head.status, head.block) = ruled.map_err(|_| Fault::Rules)?;
        Ok(())
    }
}
