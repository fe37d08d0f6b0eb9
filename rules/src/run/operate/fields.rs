//! Lines of the message at hand.

use forebay_http::edit::{FieldName, FieldValue};

use super::{of_edit, value::expand_value};
use crate::{
    ast::Template,
    run::{Outcome, Stage, Surroundings, Texts},
};

/// `set-header`, else `add-header`.
pub(super) fn header<S: Surroundings>(
    name: &FieldName,
    template: &Template,
    is_set: bool,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> Outcome {
    if !expand_value(template, stage, texts) {
        return refuse(name, is_set, stage);
    }
    match FieldValue::parse(&texts.value) {
        None => refuse(name, is_set, stage),
        Some(value) if value.as_bytes().is_empty() => Outcome::Nothing,
        Some(value) if is_set => match stage.fields.set(name, value) {
            Ok(_) => Outcome::Done,
            Err(_) => refuse(name, is_set, stage),
        },
        Some(value) => of_edit(stage.fields.append(name, value)),
    }
}

/// A value that cannot be set: what a client has sent under that name does not stand for it.
fn refuse<S>(name: &FieldName, is_set: bool, stage: &mut Stage<'_, '_, S>) -> Outcome {
    if is_set {
        stage.fields.remove_all(name);
    }
    Outcome::Failed
}
