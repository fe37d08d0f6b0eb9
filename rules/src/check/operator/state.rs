//! Operators on variables, controls and the connection.

use crate::{
    ast::{Hook, HttpControl, Lifetime, Operator},
    check::{
        number::{number_in, switch},
        qualifier::{self, not_at},
        variable::ONLY_INT16,
    },
    diagnostic::Diagnostic,
    lex::SourceWord,
};

use super::{CheckResult, arguments::Arguments};

/// Checks `set-state-…` and `set-session-…`.
pub(crate) fn variable(arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
    let name = arguments.name.as_str();
    let (lifetime, kind) = match name.strip_prefix("set-session-") {
        Some(kind) => (Lifetime::Session, kind),
        None => (Lifetime::Transaction, name.strip_prefix("set-state-").unwrap_or_default()),
    };
    match kind {
        "flag" => {
            let index = index(arguments, 15, "the number of a flag")?;
            let value = switch(arguments.second("on or off")?)?;
            Ok(Some(Operator::SetFlag(lifetime, index, value)))
        }
        "int8" => {
            let index = index(arguments, 3, "the number of an INT8")?;
            let word = arguments.second("a value")?;
            let value = number_value(word, 255, arguments)?;
            Ok(value.map(|value| Operator::SetInt8(lifetime, index, value)))
        }
        _ => {
            // The number 0 may be omitted, because there is only one INT16.
            let word = if arguments.words.len() > 1 {
                index(arguments, 0, ONLY_INT16)?;
                arguments.second("a value")?
            } else {
                arguments.first("a value")?
            };
            let value = number_value(word, 65535, arguments)?;
            Ok(value.map(|value| Operator::SetInt16(lifetime, value)))
        }
    }
}

fn index(arguments: &Arguments<'_, '_>, max: u8, what: &str) -> CheckResult<u8> {
    let word = arguments.first("a number and a value")?;
    let index = number_in(word, 0..=i64::from(max), what)?;
    Ok(u8::try_from(index).unwrap_or(max))
}

/// Reads a value that must be a number of at most `max`. A constant is checked here, a value with
/// variables when the rule runs.
fn number_value(
    word: &SourceWord,
    max: i64,
    arguments: &mut Arguments<'_, '_>,
) -> CheckResult<Option<crate::ast::Template>> {
    let template = arguments.template(word);
    if template.as_ref().is_some_and(|template| template.constant().is_some()) {
        number_in(word, 0..=max, "the value")?;
    }
    Ok(template)
}

pub(crate) fn dscp(arguments: &Arguments<'_, '_>) -> CheckResult<Operator> {
    let value = number_in(arguments.only("a number")?, 0..=63, "a DSCP")?;
    Ok(Operator::SetDscp(u8::try_from(value).unwrap_or_default()))
}

pub(crate) fn control(arguments: &Arguments<'_, '_>) -> CheckResult<Operator> {
    let control = qualifier::control(arguments.first("a control, then on or off")?)?;
    let word = arguments.second("on or off")?;
    let on = switch(word)?;
    let refusal = match (control, on) {
        (HttpControl::ResponseCacheable, true) => Some((
            "rules cannot allow storing a response if the origin forbids it",
            "change the response: set-header Cache-Control at READ_RESPONSE_HDR_HOOK",
        )),
        (HttpControl::RequestCacheable, true) => Some((
            "rules cannot serve a request from the cache if the request asks for the origin",
            "change the request: rm-header Cache-Control at REMAP_PSEUDO_HOOK",
        )),
        _ => None,
    };
    if let Some((why, hint)) = refusal {
        return Err(Diagnostic::error(word.at, why).hint(hint));
    }
    check_control_hook(arguments.name, control, arguments.hook)?;
    Ok(Operator::SetControl(control, on))
}

/// Checks that a hook can set a control: the lookup follows `Remap`, and the decision to store
/// follows `ReadResponse`.
fn check_control_hook(name: &SourceWord, control: HttpControl, hook: Hook) -> CheckResult<()> {
    let (last, hint) = match control {
        HttpControl::Logging => (
            Hook::SendResponse,
            "use READ_REQUEST_HDR_HOOK, REMAP_PSEUDO_HOOK, READ_RESPONSE_HDR_HOOK or \
             SEND_RESPONSE_HDR_HOOK",
        ),
        HttpControl::RequestCacheable => {
            (Hook::Remap, "use READ_REQUEST_HDR_HOOK or REMAP_PSEUDO_HOOK")
        }
        HttpControl::ResponseCacheable | HttpControl::ServerNoStore => (
            Hook::ReadResponse,
            "use READ_REQUEST_HDR_HOOK, REMAP_PSEUDO_HOOK or READ_RESPONSE_HDR_HOOK",
        ),
    };
    if hook > last {
        let message = "at this hook it is too late to set this control";
        return Err(Diagnostic::error(name.at, message).hint(hint));
    }
    match hook {
        Hook::SendRequest => Err(not_at(name, name.as_str(), hook, hint)),
        _ => Ok(()),
    }
}

/// Checks `set-plugin-cntl`. Accepts only the values that describe the fixed behaviour of Forebay.
pub(crate) fn plugin(arguments: &Arguments<'_, '_>) -> CheckResult<Operator> {
    let name = arguments.first("a name and a value")?;
    let value = arguments.second("a value")?;
    let problem = match (name.as_str(), value.as_str()) {
        ("TIMEZONE", "GMT") | ("INBOUND_IP_SOURCE", "PEER") => return Ok(Operator::NoOp),
        ("TIMEZONE", _) => {
            Diagnostic::error(value.at, "times are always in GMT").hint("use TIMEZONE GMT")
        }
        ("INBOUND_IP_SOURCE", _) => Diagnostic::error(
            value.at,
            "rules cannot choose the client's address; the setting trusted_proxies does",
        )
        .hint("use INBOUND_IP_SOURCE PEER, or compare with %{HEADER:X-Forwarded-For}"),
        (other, _) => Diagnostic::error(name.at, format!("there is no plugin control {other}"))
            .hint("write TIMEZONE GMT or INBOUND_IP_SOURCE PEER"),
    };
    Err(problem)
}
