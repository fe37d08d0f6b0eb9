//! Operators on lines of the current message.

use forebay_http::edit::{FieldName, FieldValue};

use super::{of_edit, value::expand_value};
use crate::{
    ast::Template,
    run::{OperatorOutcome, RuleEnvironment, RunBuffers, RunContext},
};

/// Runs `set-header` if `is_set` is true, else `add-header`.
pub(super) fn header<S: RuleEnvironment>(
    name: &FieldName,
    template: &Template,
    is_set: bool,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> OperatorOutcome {
    if !expand_value(template, context, buffers) {
        return refuse(name, is_set, context);
    }
    match FieldValue::parse(&buffers.value) {
        None => refuse(name, is_set, context),
        Some(value) if value.as_bytes().is_empty() => OperatorOutcome::Nothing,
        Some(value) if is_set => match context.fields.set(name, value) {
            Ok(_) => OperatorOutcome::Done,
            Err(_) => refuse(name, is_set, context),
        },
        Some(value) => of_edit(context.fields.append(name, value)),
    }
}

/// Reports that an operator failed, because its value cannot be set. `set-header` still removes the
/// lines of this name, so that a line from the client does not remain in place of the value.
fn refuse<S>(
    name: &FieldName,
    is_set: bool,
    context: &mut RunContext<'_, '_, S>,
) -> OperatorOutcome {
    if is_set {
        context.fields.remove_all(name);
    }
    OperatorOutcome::Failed
}
