//! Values with variables in them.

use crate::{
    ast::{Template, TemplatePart},
    run::{RuleEnvironment, RunBuffers, RunContext, evaluate::evaluate},
};

/// Fills in a template: into `buffers.value`. False if that becomes larger than it may.
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

/// The same, as large as a value may be.
pub(super) fn expand_value<S: RuleEnvironment>(
    template: &Template,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> bool {
    expand(template, buffers.limits.value_bytes_max, context, buffers)
}
