//! Filters in Rust.

use forebay_http::edit::FieldEdit;

use super::of_edit;
use crate::{
    ast::UrlOf,
    filter::{FilterCall, FilterMessage},
    run::{Outcome, Stage, Surroundings, Texts, look::url_of},
};

/// Runs a filter.
pub(super) fn filter<S: Surroundings>(
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
