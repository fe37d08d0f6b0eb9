//! What an operator does.

use forebay_http::edit::{EditError, FieldEdit, FieldName, FieldValue};

use super::{
    Effects, Outcome, Stage, State, Surroundings, Texts, cookie,
    look::{look, url_of},
};
use crate::{
    ast::{Lifetime, Operator, Part, Template, UrlOf, UrlPart},
    filter::{FilterCall, FilterMessage},
};

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

/// Runs a filter.
fn filter<S: Surroundings>(
    call: &FilterCall,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> Outcome {
    let url = url_of(UrlOf::Client, stage, texts.sight.url.changed());
    let mut message = FilterMessage {
        hook: call.hook,
        fields: &mut *stage.fields,
        client: stage.client,
        method: stage.method,
        url,
        status: stage.status,
        state: &mut stage.transaction.state,
        scratch: &mut texts.value,
    };
    let before = cfg!(debug_assertions).then(|| lines_beside(call, message.fields));
    let outcome = of_edit(call.filter.run(&mut message));
    if let Some(before) = before {
        let after = lines_beside(call, message.fields);
        assert_eq!(before, after, "{}: `changes` does not name what it has changed", call.name);
    }
    // What a filter has there is no value of an operator's.
    texts.value.clear();
    outcome
}

/// The lines that a filter says it does not change, in some order.
fn lines_beside(call: &FilterCall, fields: &mut FieldEdit<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let changes = call.filter.changes();
    let is_beside =
        |name: &[u8]| !changes.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name));
    let lines = fields.iter().filter(|(_, name, _)| is_beside(name));
    let mut lines: Vec<_> = lines.map(|(_, name, value)| (name.to_vec(), value.to_vec())).collect();
    lines.sort();
    lines
}

/// Operators that touch no text of a message.
fn switch<S: Surroundings>(
    operator: &Operator,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    match operator {
        Operator::Counter(counter) => stage.surroundings.count(*counter),
        Operator::SetFlag(lifetime, number, on) => {
            let flags = &mut state(*lifetime, stage).flags;
            let bit = 1 << (number & 15);
            *flags = if *on { *flags | bit } else { *flags & !bit };
        }
        Operator::SetInt8(lifetime, number, value) => {
            let Some(int8) = int(value, stage, texts).and_then(|int| u8::try_from(int).ok()) else {
                return Outcome::Failed;
            };
            state(*lifetime, stage).int8[usize::from(number & 3)] = int8;
        }
        Operator::SetInt16(lifetime, value) => {
            let Some(int16) = int(value, stage, texts).and_then(|int| u16::try_from(int).ok())
            else {
                return Outcome::Failed;
            };
            state(*lifetime, stage).int16 = int16;
        }
        Operator::SetControl(control, on) => stage.transaction.controls.set(*control, *on),
        Operator::SetDscp(dscp) => effects.dscp = Some(*dscp),
        _ => return Outcome::Nothing,
    }
    Outcome::Done
}

fn done_if(done: bool) -> Outcome {
    if done { Outcome::Done } else { Outcome::Nothing }
}

fn of_edit<T>(result: Result<T, EditError>) -> Outcome {
    if result.is_ok() { Outcome::Done } else { Outcome::Failed }
}

fn state<'s, S>(lifetime: Lifetime, stage: &'s mut Stage<'_, '_, S>) -> &'s mut State {
    match lifetime {
        Lifetime::Transaction => &mut stage.transaction.state,
        Lifetime::Session => stage.session,
    }
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

/// `add-cookie` and `set-cookie`: the first line that has the cookie, else one more in the first
/// line.
fn set_cookie<S: Surroundings>(
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
fn remove_cookie<S>(name: &[u8], stage: &mut Stage<'_, '_, S>, texts: &mut Texts) -> Outcome {
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

fn set_destination<S: Surroundings>(
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
fn filter_query<S: Surroundings>(
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

fn set_location<S: Surroundings>(
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

/// The number at the beginning of a value; 0 if there is none, as C's `strtol` has it.
fn int<S: Surroundings>(
    template: &Template,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> Option<i64> {
    if !expand_value(template, stage, texts) {
        return None;
    }
    let text = texts.value.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let add =
        |number: i64, byte: &u8| number.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
    Some(sign * digits.fold(0, add))
}
