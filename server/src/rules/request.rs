//! Rules that change a request before it is looked up.

use forebay_http::request::Version;
use forebay_rules::apply::{RequestText, RuledRequest, rule_request};
use forebay_rules::ast::Hook;

use super::HookContext;
use crate::fault::Fault;

impl HookContext<'_> {
    /// Runs the rules of `hook`, which is `ReadRequest` or `Remap`, on the request.
    ///
    /// # Errors
    /// [`Fault::Rules`]: the result is not a request.
    pub(crate) fn run_on_request<'b>(
        &self,
        hook: Hook,
        version: Version,
        into: &'b mut RequestText,
    ) -> Result<RuledRequest<'b>, Fault> {
        if !self.has(hook) {
            return Ok(RuledRequest::Same);
        }
        let limits = self.config.server.rule_limits();
        let mut scratch = self.worker.rule_scratch.borrow_mut();
        let ruled =
            rule_request((&self.view, version), &limits, &mut scratch, into, |message, texts| {
                self.run(hook, message, texts)
            });
        ruled.map_err(|_| Fault::Rules)
    }
}
