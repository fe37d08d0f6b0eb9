//! Runs operators on a message and its state.

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
use super::{Effects, OperatorOutcome, RuleEnvironment, RunBuffers, RunContext};
use crate::ast::{Operator, Template};

/// Runs an operator. The operator's expanded argument stays in `buffers.value`.
pub(super) fn operate<S: RuleEnvironment>(
    operator: &Operator,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> OperatorOutcome {
    buffers.value.clear();
    match operator {
        Operator::SetHeader(name, value) => header(name, value, true, context, buffers),
        Operator::AddHeader(name, value) => header(name, value, false, context, buffers),
        Operator::RemoveHeader(name) => done_if(context.fields.remove_all(name) > 0),
        Operator::AddCookie(name, value) => set_cookie(name, value, false, context, buffers),
        Operator::SetCookie(name, value) => set_cookie(name, value, true, context, buffers),
        Operator::RemoveCookie(name) => remove_cookie(name, context, buffers),
        Operator::SetDestination { part, value, append_query } => {
            set_destination(part, value, *append_query, context, buffers, effects)
        }
        Operator::RemoveDestination(part) => {
            let removed = buffers.lookup.url.remove(context.url, part);
            effects.url_changed |= removed;
            if removed { OperatorOutcome::Done } else { OperatorOutcome::Failed }
        }
        Operator::FilterQuery { names, keep } => {
            filter_query(names, *keep, context, buffers, effects)
        }
        Operator::SetRedirect { status, location, append_query } => {
            let outcome = set_location(location, *append_query, context, buffers, effects);
            if outcome == OperatorOutcome::Done {
                effects.status = Some(*status);
            }
            outcome
        }
        Operator::SetStatus(status) => {
            effects.status = Some(*status);
            OperatorOutcome::Done
        }
        Operator::SetReason(value) => set_reason(value, context, buffers, effects),
        Operator::SetBody(value) => {
            let bytes_max = buffers.limits.body_bytes_max;
            if !expand(value, bytes_max, context, buffers) {
                return OperatorOutcome::Failed;
            }
            effects.body = Some(buffers.keep_value());
            effects.body_is_constant = value.constant().is_some();
            OperatorOutcome::Done
        }
        Operator::Filter(call) => filter(call, context, buffers),
        other => switch(other, context, buffers, effects),
    }
}

fn set_reason<S: RuleEnvironment>(
    template: &Template,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> OperatorOutcome {
    let is_expanded = expand_value(template, context, buffers);
    if !is_expanded || FieldValue::parse(&buffers.value).is_none() {
        return OperatorOutcome::Failed;
    }
    if buffers.value.is_empty() {
        return OperatorOutcome::Nothing;
    }
    effects.reason = Some(buffers.keep_value());
    OperatorOutcome::Done
}

fn done_if(done: bool) -> OperatorOutcome {
    if done { OperatorOutcome::Done } else { OperatorOutcome::Nothing }
}

fn of_edit<T>(result: Result<T, EditError>) -> OperatorOutcome {
    if result.is_ok() { OperatorOutcome::Done } else { OperatorOutcome::Failed }
}
