//! Runs native filters.

use forebay_http::edit::FieldEdit;

use super::of_edit;
use crate::{
    ast::UrlKind,
    filter::{FilterCall, FilterMessage},
    run::{OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, evaluate::url_of},
};

/// Runs a filter.
pub(super) fn filter<S: RuleEnvironment>(
    call: &FilterCall,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> OperatorOutcome {
    let url = url_of(UrlKind::Client, context, buffers.lookup.url.changed());
    let mut message = FilterMessage {
        hook: call.hook,
        fields: &mut *context.fields,
        client: context.client,
        method: context.method,
        url,
        status: context.status,
        state: &mut context.transaction.state,
        scratch: &mut buffers.value,
    };
    let before = cfg!(debug_assertions).then(|| lines_beside(call, message.fields));
    let outcome = of_edit(call.filter.run(&mut message));
    if let Some(before) = before {
        let after = lines_beside(call, message.fields);
        assert_eq!(
            before, after,
            "the filter {} changed a field that its `changes` does not name",
            call.name
        );
    }
    // The filter used this buffer as scratch memory; its content is not the value of an operator.
    buffers.value.clear();
    outcome
}

/// Returns the lines of all fields that the filter does not declare as changed, sorted.
fn lines_beside(call: &FilterCall, fields: &mut FieldEdit<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let changes = call.filter.changes();
    let is_beside =
        |name: &[u8]| !changes.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name));
    let lines = fields.iter().filter(|(_, name, _)| is_beside(name));
    let mut lines: Vec<_> = lines.map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect();
    lines.sort();
    lines
}
