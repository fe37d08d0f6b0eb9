//! Checks `run-plugin`, which runs a filter of this build.

use forebay_http::fields::FieldId;

use super::{CheckResult, arguments::Arguments};
use crate::{
    ast::{Hook, Operator},
    check::{field::unchangeable, suggest::did_you_mean},
    diagnostic::{Diagnostic, RuleSpan},
    filter::{Filter, FilterCall, Filters},
};

/// Checks `run-plugin NAME [argument …]`.
pub(crate) fn run(arguments: &Arguments<'_, '_>, filters: &Filters) -> CheckResult<Operator> {
    let name = arguments.first("the name of a filter")?;
    let words = arguments.words.get(1..).unwrap_or_default();
    let texts: Vec<_> = words.iter().map(|word| word.as_str()).collect();
    let Some(made) = filters.make(name.as_str(), &texts) else {
        return Err(unknown(name.as_str(), name.at, filters));
    };
    let at = match (words.first(), words.last()) {
        (Some(first), Some(last)) => {
            let end = last.at.column + last.at.len;
            RuleSpan { len: end.saturating_sub(first.at.column), ..first.at }
        }
        _ => name.at,
    };
    let filter = made.map_err(|why| {
        Diagnostic::error(at, format!("the filter {} refuses its arguments: {why}", name.as_str()))
    })?;
    if let Some((changed, why)) = forbidden(&*filter, arguments.hook) {
        let message = format!("the filter {} changes {changed}, which {why}", name.as_str());
        return Err(Diagnostic::error(name.at, message)
            .hint("see docs/filters.md for the fields that a filter may change"));
    }
    Ok(Operator::Filter(FilterCall { name: name.as_str().into(), hook: arguments.hook, filter }))
}

/// Returns a field that the filter changes but must not, and the reason.
fn forbidden(filter: &dyn Filter, hook: Hook) -> Option<(String, &'static str)> {
    let why = |id| match id {
        FieldId::Via if hook == Hook::SendRequest => {
            Some("detects requests that loop back to this server")
        }
        id => unchangeable(id).map(|(why, _)| why),
    };
    filter.changes().iter().find_map(|field| {
        why(field.id()).map(|why| (String::from_utf8_lossy(field.as_bytes()).into_owned(), why))
    })
}

fn unknown(name: &str, at: RuleSpan, filters: &Filters) -> Diagnostic {
    let problem = Diagnostic::error(at, format!("this build has no filter {name}"));
    let names = filters.names();
    if name.ends_with(".so") {
        problem.hint(
            "shared libraries cannot be loaded; docs/filters.md says how to write a filter in Rust",
        )
    } else if names.is_empty() {
        problem.hint("this build has no filters; docs/filters.md says how to add a filter")
    } else {
        problem.hint(did_you_mean(name, &names))
    }
}
