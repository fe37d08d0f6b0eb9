//! What an operator does.

mod cookies;
mod fields;
mod filter;
mod switch;
mod url;
mod value;

use forebay_http::edit::{EditError, FieldValue};

use self::{
    cookies::{remove_cookie, set_cookie},
    fields::header,
    filter::filter,
    switch::switch,
    url::{filter_query, set_destination, set_location},
    value::{expand, expand_value},
};
use super::{Effects, Outcome, Stage, Surroundings, Texts};
use crate::ast::{Operator, Template};

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

fn done_if(done: bool) -> Outcome {
    if done { Outcome::Done } else { Outcome::Nothing }
}

fn of_edit<T>(result: Result<T, EditError>) -> Outcome {
    if result.is_ok() { Outcome::Done } else { Outcome::Failed }
}
