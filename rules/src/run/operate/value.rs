//! Values with variables in them.

use crate::{
    ast::{Part, Template},
    run::{Stage, Surroundings, Texts, look::look},
};

/// Fills in a template: into `texts.value`. False if that becomes larger than it may.
pub(super) fn expand<S: Surroundings>(
    template: &Template,
    bytes_max: u32,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> bool {
    texts.value.clear();
    for part in &template.parts {
        match part {
            Part::Text(text) => texts.value.extend_from_slice(text),
            Part::Variable(variable) => {
                let Texts { value, sight, captured, .. } = texts;
                look(variable, stage, sight, captured).write(value);
            }
        }
        if texts.value.len() > bytes_max as usize {
            return false;
        }
    }
    true
}

/// The same, as large as a value may be.
pub(super) fn expand_value<S: Surroundings>(
    template: &Template,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> bool {
    expand(template, texts.limits.value_bytes_max, stage, texts)
}
