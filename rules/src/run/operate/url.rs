//! Operators on the request's URL, and redirects.

use super::value::expand_value;
use crate::{
    ast::{Template, UrlKind, UrlPart},
    run::{Effects, OperatorOutcome, RuleEnvironment, RunBuffers, RunContext, evaluate::url_of},
};

pub(super) fn set_destination<S: RuleEnvironment>(
    part: &UrlPart,
    template: &Template,
    append_query: bool,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> OperatorOutcome {
    if !expand_value(template, context, buffers) {
        return OperatorOutcome::Failed;
    }
    if buffers.value.is_empty() {
        return OperatorOutcome::Nothing;
    }
    if append_query && *part == UrlPart::Query {
        let query = url_of(UrlKind::Client, context, buffers.lookup.url.changed()).query;
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            buffers.value.push(b'&');
            buffers.value.extend_from_slice(query);
        }
    }
    let bytes_max = buffers.limits.target_bytes_max as usize;
    if buffers.lookup.url.set(context.url, part, &buffers.value, bytes_max).is_err() {
        return OperatorOutcome::Failed;
    }
    effects.url_changed = true;
    OperatorOutcome::Done
}

/// Removes the listed parameters, or all other parameters if `keep` is true. If no names are
/// listed, removes the whole query.
pub(super) fn filter_query<S: RuleEnvironment>(
    names: &[Box<[u8]>],
    keep: bool,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> OperatorOutcome {
    let Some(query) = url_of(UrlKind::Client, context, buffers.lookup.url.changed()).query else {
        return OperatorOutcome::Nothing;
    };
    for parameter in query.split(|byte| *byte == b'&').filter(|_| !names.is_empty()) {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        if names.iter().any(|listed| **listed == *name) != keep {
            continue;
        }
        if !buffers.value.is_empty() {
            buffers.value.push(b'&');
        }
        buffers.value.extend_from_slice(parameter);
    }
    let bytes_max = buffers.limits.target_bytes_max as usize;
    match buffers.lookup.url.set_query(context.url, Some(&buffers.value), bytes_max) {
        Ok(()) => {
            effects.url_changed = true;
            OperatorOutcome::Done
        }
        Err(_) => OperatorOutcome::Failed,
    }
}

pub(super) fn set_location<S: RuleEnvironment>(
    template: &Template,
    append_query: bool,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> OperatorOutcome {
    if !expand_value(template, context, buffers) {
        return OperatorOutcome::Failed;
    }
    let query = url_of(UrlKind::Client, context, buffers.lookup.url.changed()).query;
    if let Some(query) = query.filter(|query| append_query && !query.is_empty()) {
        let sign = if buffers.value.contains(&b'?') { b'&' } else { b'?' };
        buffers.value.push(sign);
        buffers.value.extend_from_slice(query);
    }
    let is_valid = buffers.value.iter().all(u8::is_ascii_graphic);
    if !is_valid
        || buffers.value.is_empty()
        || buffers.value.len() > buffers.limits.value_bytes_max as usize
    {
        return OperatorOutcome::Failed;
    }
    effects.location = Some(buffers.keep_value());
    OperatorOutcome::Done
}
