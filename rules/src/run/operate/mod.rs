//! What an operator does.

mod cookies;
mod filter;
mod switch;
mod url;

use forebay_http::edit::{EditError, FieldName, FieldValue};

use self::{
    cookies::{remove_cookie, set_cookie},
    filter::filter,
    switch::switch,
    url::{filter_query, set_destination, set_location},
};
use super::{Effects, Outcome, Stage, Surroundings, Texts, look::look};
use crate::ast::{Operator, Part, Template};

/// Does it. What it was given stays in `texts.value`.
pub(super) fn operate<S: Surroundings>(
    operator: &Operator,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    texts.value.clear();
    match operator {
        Operator::SetHeader(name, value) => header(name, value, true, stage, texts),
        Operator::AddHeader(name, value) => header(name, value, false, stage, texts),
        Operator::RemoveHeader(name) => done_if(stage.fields.remove_all(name) > 0),
        Operator::AddCookie(name, value) => set_cookie(name, value, false, stage, texts),
        Operator::SetCookie(name, value) => set_cookie(name, value, true, stage, texts),
        Operator::RemoveCookie(name) => remove_cookie(name, stage, texts),
        Operator::SetDestination { part, value, append_query } => {
            set_destination(part, value, *append_query, stage, texts, effects)
        }
        Operator::RemoveDestination(part) => {
            let removed = texts.sight.url.remove(stage.url, part);
            effects.url_changed |= removed;
            if removed { Outcome::Done } else { Outcome::Failed }
        }
        Operator::FilterQuery { names, keep } => filter_query(names, *keep, stage, texts, effects),
        Operator::SetRedirect { status, location, append_query } => {
            let outcome = set_location(location, *append_query, stage, texts, effects);
            if outcome == Outcome::Done {
                effects.status = Some(*status);
            }
            outcome
        }
        Operator::SetStatus(status) => {
            effects.status = Some(*status);
            Outcome::Done
        }
        Operator::SetReason(value) => set_reason(value, stage, texts, effects),
        Operator::SetBody(value) => {
            let bytes_max = texts.limits.body_bytes_max;
            if !expand(value, bytes_max, stage, texts) {
                return Outcome::Failed;
            }
            effects.body = Some(texts.keep_value());
            effects.body_is_constant = value.constant().is_some();
            Outcome::Done
        }
        Operator::Filter(call) => filter(call, stage, texts),
        other => switch(other, stage, texts, effects),
    }
}

fn header<S: Surroundings>(
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

fn set_reason<S: Surroundings>(
    template: &Template,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    let is_expanded = expand_value(template, stage, texts);
    if !is_expanded || FieldValue::parse(&texts.value).is_none() {
        return Outcome::Failed;
    }
    if texts.value.is_empty() {
        return Outcome::Nothing;
    }
    effects.reason = Some(texts.keep_value());
    Outcome::Done
}

/// Fills in a template: into `texts.value`. False if that becomes larger than it may.
fn expand<S: Surroundings>(
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

fn expand_value<S: Surroundings>(
    template: &Template,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> bool {
    expand(template, texts.limits.value_bytes_max, stage, texts)
}

fn done_if(done: bool) -> Outcome {
    if done { Outcome::Done } else { Outcome::Nothing }
}

fn of_edit<T>(result: Result<T, EditError>) -> Outcome {
    if result.is_ok() { Outcome::Done } else { Outcome::Failed }
}
