//! The value of the setting `hsts`.

use std::sync::Arc;

use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::suggest::nearest;

/// The value of `Strict-Transport-Security` (RFC 6797 §6.1); `None` if the server adds no such
/// field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictTransportSecurity(pub(crate) Option<Arc<str>>);

/// The directives other than `max-age`.
const FLAGS: [&str; 2] = ["includeSubDomains", "preload"];

impl Readable for StrictTransportSecurity {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let text = setting.text(raw)?;
        if text == "off" {
            return Ok(StrictTransportSecurity(None));
        }
        let (mut seen, mut value) = (Vec::new(), Vec::new());
        for directive in text.split(';').map(str::trim) {
            let name = match directive.split_once('=') {
                Some((name, seconds)) if name.eq_ignore_ascii_case("max-age") => {
                    value.push(format!("max-age={}", check_seconds(seconds, setting)?));
                    "max-age"
                }
                None => match FLAGS.iter().find(|flag| flag.eq_ignore_ascii_case(directive)) {
                    Some(flag) => {
                        value.push((*flag).to_owned());
                        flag
                    }
                    None => return Err(unknown(directive, setting)),
                },
                Some(_) => return Err(unknown(directive, setting)),
            };
            // RFC 6797 §6.1: a directive appears once at most.
            if seen.contains(&name) {
                return Err(setting.problem(format_args!("has `{name}` twice")));
            }
            seen.push(name);
        }
        if !seen.contains(&"max-age") {
            let problem = setting.problem("has no `max-age`");
            return Err(
                problem.hint("add max-age=SECONDS; browsers ignore the field without max-age")
            );
        }
        Ok(StrictTransportSecurity(Some(value.join("; ").into())))
    }
}

fn check_seconds(seconds: &str, setting: &Setting) -> Result<u32, ValueProblem> {
    let is_number = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    seconds.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let problem = setting.problem(format_args!("cannot have the time {seconds:?}"));
        problem.hint("write whole seconds; a year is max-age=31536000")
    })
}

fn unknown(directive: &str, setting: &Setting) -> ValueProblem {
    let problem = setting.problem(format_args!("cannot have the directive {directive:?}"));
    let (name, seconds) = directive.split_once('=').unwrap_or((directive, ""));
    match nearest(name, FLAGS.into_iter().chain(["max-age"])) {
        Some("max-age") => problem.hint(format!("did you mean `max-age={seconds}`?")),
        Some(near) => problem.hint(format!("did you mean `{near}`?")),
        None => problem,
    }
}
