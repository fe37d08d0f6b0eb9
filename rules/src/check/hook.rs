//! Checks hooks: the points of the flow at which rules run.

use crate::{
    ast::{Hook, RuleScope},
    check::suggest::{did_you_mean, nearest},
    diagnostic::Diagnostic,
    lex::SourceWord,
    parse::ConditionFlags,
};

/// Whether the variable is meant as the name of a hook, perhaps misspelled: whether it ends in
/// `_HOOK`.
pub(crate) fn is_hook(variable: &SourceWord) -> bool {
    variable.as_str().ends_with("_HOOK")
}

/// The turn of the first or only hook of the language at a point of the flow.
pub(crate) const FIRST_TURN: u8 = 0;

/// Returns the hook that a condition names, and its turn at that point of the flow.
pub(crate) fn hook(
    variable: &SourceWord,
    operand: Option<&SourceWord>,
    flags: &ConditionFlags,
    scope: RuleScope,
) -> Result<(Hook, u8), Diagnostic> {
    if let Some(operand) = operand {
        let problem = Diagnostic::error(operand.at, "a hook cannot have an operand");
        return Err(match operand.is_comment() {
            true => problem.hint("put the comment on a line of its own"),
            false => problem,
        });
    }
    let meaningless = [flags.or, flags.not, flags.nocase, flags.last, flags.how.map(|how| how.1)];
    if let Some(at) = meaningless.into_iter().flatten().next() {
        return Err(Diagnostic::error(at, "this flag has no meaning for a hook"));
    }
    let hook = named(variable)?;
    match (hook, scope) {
        (Hook::ReadRequest, RuleScope::Route) => {
            let message = format!("{} runs before the site is known", variable.as_str());
            Err(Diagnostic::error(variable.at, message)
                .hint("use REMAP_PSEUDO_HOOK here, or move the rule into the rules for all sites"))
        }
        (Hook::Remap, RuleScope::Server) if variable.as_str() == "REMAP_PSEUDO_HOOK" => {
            let message =
                "REMAP_PSEUDO_HOOK needs a site or a route, but these rules are for all sites";
            Err(Diagnostic::error(variable.at, message).hint(
                "use READ_REQUEST_HDR_HOOK, or move the rule into the rules of a site or a route",
            ))
        }
        _ => Ok((hook, turn(variable.as_str()))),
    }
}

fn turn(name: &str) -> u8 {
    match name {
        "READ_REQUEST_HDR_HOOK" | "POST_REMAP_HOOK" => 1,
        "READ_REQUEST_PRE_REMAP_HOOK" => 2,
        _ => FIRST_TURN,
    }
}

/// Returns the name that the language has for the hook with this turn.
pub(crate) fn name_at(hook: Hook, turn: u8) -> &'static str {
    match (hook, turn) {
        (Hook::ReadRequest, FIRST_TURN) => "TXN_START_HOOK",
        (Hook::ReadRequest, 2) => "READ_REQUEST_PRE_REMAP_HOOK",
        (Hook::Remap, 1) => "POST_REMAP_HOOK",
        _ => name(hook),
    }
}

const NAMES: &[&str] = &[
    "READ_REQUEST_HDR_HOOK",
    "READ_REQUEST_PRE_REMAP_HOOK",
    "REMAP_PSEUDO_HOOK",
    "POST_REMAP_HOOK",
    "SEND_REQUEST_HDR_HOOK",
    "READ_RESPONSE_HDR_HOOK",
    "SEND_RESPONSE_HDR_HOOK",
    "TXN_START_HOOK",
];

/// Returns the hook that is probably meant by a misspelled name without the usual ending, such as
/// `SEND_RESPONSE_HDR`.
pub(crate) fn nearest_hook(name: &str) -> Option<&'static str> {
    let endings = ["_HOOK", "_HDR_HOOK", "_PSEUDO_HOOK", "_HDR", ""];
    endings.into_iter().find_map(|ending| {
        let stems: Vec<&str> = NAMES.iter().filter_map(|name| name.strip_suffix(ending)).collect();
        let stem = nearest(name, &stems).filter(|_| name.contains('_') || ending.len() > 5)?;
        NAMES.iter().copied().find(|name| name.strip_suffix(ending) == Some(stem))
    })
}

fn named(variable: &SourceWord) -> Result<Hook, Diagnostic> {
    match variable.as_str() {
        "READ_REQUEST_HDR_HOOK" | "READ_REQUEST_PRE_REMAP_HOOK" | "TXN_START_HOOK" => {
            Ok(Hook::ReadRequest)
        }
        "REMAP_PSEUDO_HOOK" | "POST_REMAP_HOOK" => Ok(Hook::Remap),
        "SEND_REQUEST_HDR_HOOK" => Ok(Hook::SendRequest),
        "READ_RESPONSE_HDR_HOOK" => Ok(Hook::ReadResponse),
        "SEND_RESPONSE_HDR_HOOK" => Ok(Hook::SendResponse),
        "TXN_CLOSE_HOOK" => {
            let message = "TXN_CLOSE_HOOK runs after the response, when nothing can be changed";
            Err(Diagnostic::error(variable.at, message)
                .hint("SEND_RESPONSE_HDR_HOOK is the last hook"))
        }
        name => Err(Diagnostic::error(variable.at, format!("there is no hook {name}"))
            .hint(did_you_mean(name, NAMES))),
    }
}

/// Returns the usual name of a hook in the language.
pub(crate) fn name(hook: Hook) -> &'static str {
    match hook {
        Hook::ReadRequest => "READ_REQUEST_HDR_HOOK",
        Hook::Remap => "REMAP_PSEUDO_HOOK",
        Hook::SendRequest => "SEND_REQUEST_HDR_HOOK",
        Hook::ReadResponse => "READ_RESPONSE_HDR_HOOK",
        Hook::SendResponse => "SEND_RESPONSE_HDR_HOOK",
    }
}
