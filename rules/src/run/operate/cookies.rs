//! Operators on cookies of a request.

use forebay_http::edit::{EditError, FieldValue};

use super::{done_if, of_edit, value::expand_value};
use crate::{
    ast::Template,
    run::{OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, cookie},
};

/// Runs `set-cookie` if `replace` is true, else `add-cookie`. If a line has the cookie,
/// `set-cookie` changes the cookie in the first such line, and `add-cookie` does nothing. If no
/// line has the cookie, it is appended to the first line.
pub(super) fn set_cookie<S: RuleEnvironment>(
    name: &[u8],
    template: &Template,
    replace: bool,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> OperatorOutcome {
    if !expand_value(template, context, buffers) || !cookie::is_value(&buffers.value) {
        return OperatorOutcome::Failed;
    }
    let RunBuffers { value, second, .. } = buffers;
    second.clear();
    let fields = &mut *context.fields;
    let first = fields.find(cookie::field_name());
    let mut next = first;
    while let Some(at) = next {
        if replace && cookie::write_changed(fields.value(at), name, value, second) {
            return set_line(second, |value| fields.set_value(at, value));
        }
        if cookie::find(fields.value(at), name).is_some() {
            return OperatorOutcome::Nothing;
        }
        next = fields.next_duplicate(at);
    }
    cookie::write_added(first.map_or(b"", |at| fields.value(at)), name, value, second);
    match first {
        Some(at) => set_line(second, |value| fields.set_value(at, value)),
        None => set_line(second, |value| fields.append(cookie::field_name(), value)),
    }
}

fn set_line<T>(
    text: &[u8],
    set: impl FnOnce(FieldValue<'_>) -> Result<T, EditError>,
) -> OperatorOutcome {
    FieldValue::parse(text).map_or(OperatorOutcome::Failed, |value| of_edit(set(value)))
}

/// Removes the cookie from every line; removes lines that become empty.
pub(super) fn remove_cookie<S>(
    name: &[u8],
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> OperatorOutcome {
    let fields = &mut *context.fields;
    let (mut next, mut outcome) = (fields.find(cookie::field_name()), OperatorOutcome::Nothing);
    while let Some(at) = next {
        next = fields.next_duplicate(at);
        buffers.second.clear();
        if !cookie::write_removed(fields.value(at), name, &mut buffers.second) {
            continue;
        }
        outcome = if buffers.second.is_empty() {
            done_if(fields.remove(at))
        } else {
            set_line(&buffers.second, |value| fields.set_value(at, value))
        };
    }
    outcome
}
