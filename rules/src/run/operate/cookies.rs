//! Cookies of a request.

use forebay_http::edit::{EditError, FieldValue};

use super::{done_if, of_edit, value::expand_value};
use crate::{
    ast::Template,
    run::{Outcome, Stage, Surroundings, Texts, cookie},
};

/// `add-cookie` and `set-cookie`: the first line that has the cookie, else one more in the first
/// line.
pub(super) fn set_cookie<S: Surroundings>(
    name: &[u8],
    template: &Template,
    replace: bool,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> Outcome {
    if !expand_value(template, stage, texts) || !cookie::is_value(&texts.value) {
        return Outcome::Failed;
    }
    let Texts { value, second, .. } = texts;
    second.clear();
    let fields = &mut *stage.fields;
    let first = fields.find(cookie::field_name());
    let mut next = first;
    while let Some(at) = next {
        if replace && cookie::write_changed(fields.value(at), name, value, second) {
            return set_line(second, |value| fields.set_value(at, value));
        }
        if cookie::find(fields.value(at), name).is_some() {
            return Outcome::Nothing;
        }
        next = fields.next_duplicate(at);
    }
    cookie::write_added(first.map_or(b"", |at| fields.value(at)), name, value, second);
    match first {
        Some(at) => set_line(second, |value| fields.set_value(at, value)),
        None => set_line(second, |value| fields.append(cookie::field_name(), value)),
    }
}

fn set_line<T>(text: &[u8], set: impl FnOnce(FieldValue<'_>) -> Result<T, EditError>) -> Outcome {
    FieldValue::parse(text).map_or(Outcome::Failed, |value| of_edit(set(value)))
}

/// Every line of it loses the cookie; a line without any is taken out.
pub(super) fn remove_cookie<S>(
    name: &[u8],
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> Outcome {
    let fields = &mut *stage.fields;
    let (mut next, mut outcome) = (fields.find(cookie::field_name()), Outcome::Nothing);
    while let Some(at) = next {
        next = fields.next_duplicate(at);
        texts.second.clear();
        if !cookie::write_removed(fields.value(at), name, &mut texts.second) {
            continue;
        }
        outcome = if texts.second.is_empty() {
            done_if(fields.remove(at))
        } else {
            set_line(&texts.second, |value| fields.set_value(at, value))
        };
    }
    outcome
}
