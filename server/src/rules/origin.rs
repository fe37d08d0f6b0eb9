//! Rules around an exchange with an origin.

use forebay_http::edit::FieldEdit;
use forebay_http::fields::FieldBlock;
use forebay_http::response::ResponseHead;
use forebay_rules::ast::Hook;

use super::Ruling;
use super::response::{edit_limits, may_change};
use super::ruling::{AtHand, RuleScratch};
use crate::fault::Fault;

impl Ruling<'_> {
    /// Changes the fields of a request that is about to go to the origin.
    ///
    /// # Errors
    /// See [`Ruling::read_response`].
    pub(crate) fn send_request(&self, fields: FieldBlock) -> Result<FieldBlock, Fault> {
        if !self.has(Hook::SendRequest) {
            return Ok(fields);
        }
        self.edit_block(Hook::SendRequest, fields, None).map(|(fields, _)| fields)
    }

    /// Changes an origin's answer before anything is decided about it.
    ///
    /// # Errors
    /// [`Fault::Rules`]: what they made of it is no head, which would be a bug.
    pub(crate) fn read_response(&self, head: &mut ResponseHead) -> Result<(), Fault> {
        if !self.has(Hook::ReadResponse) {
            return Ok(());
        }
        let block = std::mem::take(&mut head.block);
        let (block, status) = self.edit_block(Hook::ReadResponse, block, Some(head.status))?;
        head.block = block;
        head.status = status.filter(|_| may_change(head.status)).unwrap_or(head.status);
        Ok(())
    }

    /// The changed block, and the status that rules want.
    fn edit_block(
        &self,
        hook: Hook,
        block: FieldBlock,
        status: Option<u16>,
    ) -> Result<(FieldBlock, Option<u16>), Fault> {
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        let RuleScratch { table, texts, .. } = &mut *scratch;
        let mut bytes = block.into_bytes();
        let edit = FieldEdit::new(&mut bytes, 0, table, edit_limits(self.config));
        let at_hand = AtHand { edit, status, is_client_request: false };
        let (effects, _) = self.run(hook, at_hand, texts);
        let block = FieldBlock::parse(&bytes).ok_or(Fault::Rules)?;
        Ok((block, effects.status))
    }
}
