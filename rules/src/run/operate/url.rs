//! The URL of a request, and where a redirect leads.

use super::value::expand_value;
use crate::{
    ast::{Template, UrlOf, UrlPart},
    run::{Effects, Outcome, Stage, Surroundings, Texts, look::url_of},
};

pub(super) fn set_destination<S: Surroundings>(
    part: &UrlPart,
    template: &Template,
    append_query: bool,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    if !expand_value(template, stage, texts) {
        return Outcome::Failed;
    }
    if texts.value.is_empty() {
        return Outcome::Nothing;
    }
    if append_query && *part == UrlPart::Query {
        let query = url_of(UrlOf::Client, stage, texts.sight.url.changed()).query;
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            texts.value.push(b'&');
            texts.value.extend_from_slice(query);
        }
    }
    let bytes_max = texts.limits.target_bytes_max as usize;
    if texts.sight.url.set(stage.url, part, &texts.value, bytes_max).is_err() {
        return Outcome::Failed;
    }
    effects.url_changed = true;
    Outcome::Done
}

/// Parameters whose names are in the list go; or all others do.
pub(super) fn filter_query<S: Surroundings>(
    names: &[Box<[u8]>],
    keep: bool,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    let Some(query) = url_of(UrlOf::Client, stage, texts.sight.url.changed()).query else {
        return Outcome::Nothing;
    };
    for parameter in query.split(|byte| *byte == b'&').filter(|_| !names.is_empty()) {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        if names.iter().any(|listed| **listed == *name) != keep {
            continue;
        }
        if !texts.value.is_empty() {
            texts.value.push(b'&');
        }
        texts.value.extend_from_slice(parameter);
    }
    let bytes_max = texts.limits.target_bytes_max as usize;
    match texts.sight.url.set_query(stage.url, Some(&texts.value), bytes_max) {
        Ok(()) => {
            effects.url_changed = true;
            Outcome::Done
        }
        Err(_) => Outcome::Failed,
    }
}

pub(super) fn set_location<S: Surroundings>(
    template: &Template,
    append_query: bool,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    if !expand_value(template, stage, texts) {
        return Outcome::Failed;
    }
    let query = url_of(UrlOf::Client, stage, texts.sight.url.changed()).query;
    if let Some(query) = query.filter(|query| append_query && !query.is_empty()) {
        let sign = if texts.value.contains(&b'?') { b'&' } else { b'?' };
        texts.value.push(sign);
        texts.value.extend_from_slice(query);
    }
    let is_valid = texts.value.iter().all(u8::is_ascii_graphic);
    if !is_valid
        || texts.value.is_empty()
        || texts.value.len() > texts.limits.value_bytes_max as usize
    {
        return Outcome::Failed;
    }
    effects.location = Some(texts.keep_value());
    Outcome::Done
}
