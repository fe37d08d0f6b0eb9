//! Expands values with variables.

use crate::{
    ast::{Template, TemplatePart},
    run::{RuleEnvironment, RunBuffers, RunContext, evaluate::evaluate},
};

/// Expands a template into `buffers.value`; returns false if it exceeds the limit.
pub(super) fn expand<S: RuleEnvironment>(
    template: &Template,
    bytes_max: u32,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    buffers.value.clear();
    for part in &template.parts {
        match part {
            TemplatePart::Text(text) => buffers.value.extend_from_slice(text),
            TemplatePart::Variable(variable) => {
                let RunBuffers { value, lookup, captured, .. } = buffers;
                evaluate(variable, context, lookup, captured).write(value);
            }
        }
        if buffers.value.len() > bytes_max as usize {
            return false;
        }
    }
    true
}

/// Expands a template like [`expand`], with the limit for a value.
pub(super) fn expand_value<S: RuleEnvironment>(
    template: &Template,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    expand(template, buffers.limits.value_bytes_max, context, buffers)
}
