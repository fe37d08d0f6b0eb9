//! Checks one operator: its name, its hook, its flags and its arguments.

use super::{CheckResult, answer, arguments::Arguments, destination, fields, filter, state};
use crate::{
    ast::{Hook, Operation, Operator},
    check::{qualifier::not_at, suggest::nearest, unsupported},
    diagnostic::{Diagnostic, Findings, RuleSpan},
    filter::Filters,
    lex::SourceWord,
    parse::OperatorFlags,
};

/// The names of all supported operators.
pub(crate) const NAMES: &[&str] = &[
    "add-cookie",
    "add-header",
    "counter",
    "no-op",
    "rm-cookie",
    "rm-destination",
    "rm-header",
    "run-plugin",
    "set-body",
    "set-conn-dscp",
    "set-cookie",
    "set-destination",
    "set-header",
    "set-http-cntl",
    "set-plugin-cntl",
    "set-redirect",
    "set-session-flag",
    "set-session-int16",
    "set-session-int8",
    "set-state-flag",
    "set-state-int16",
    "set-state-int8",
    "set-status",
    "set-status-reason",
];

/// Reads operators, and gives each counter that they use an index.
#[derive(Debug)]
pub(crate) struct OperatorChecker<'f> {
    /// The names of the counters, each at the counter's index.
    pub(crate) counters: Vec<String>,
    /// The filters of this build.
    pub(crate) filters: &'f Filters,
}

/// A line with an operator on it.
pub(crate) struct OperatorLine<'a> {
    /// The hook of the rule.
    pub(crate) hook: Hook,
    /// The operator's name.
    pub(crate) name: &'a SourceWord,
    /// The arguments.
    pub(crate) words: &'a [SourceWord],
    /// The flags in brackets.
    pub(crate) flags: &'a OperatorFlags,
    /// The whole line.
    pub(crate) at: RuleSpan,
}

impl OperatorChecker<'_> {
    /// Checks one operator and returns it with its flags.
    pub(crate) fn operator(
        &mut self,
        line: &OperatorLine<'_>,
        findings: &mut Findings,
    ) -> Option<Operation> {
        let OperatorLine { hook, name, words, flags, at } = *line;
        findings.keep(known(name, words))?;
        let here = findings.keep(check_hook(hook, name));
        let flags_ok = findings.keep(check_flags(name.as_str(), words, flags));
        let mut arguments = Arguments { name, words, hook, flags, findings };
        let operator = self.read(&mut arguments);
        let operator = findings.keep(operator).flatten();
        here.and(flags_ok)?;
        Some(Operation { operator: operator?, last: flags.last.is_some(), at })
    }

    /// Reads the arguments. Returns `None` if their error has been reported already.
    fn read(&mut self, arguments: &mut Arguments<'_, '_>) -> CheckResult<Option<Operator>> {
        match arguments.name.as_str() {
            "set-header" | "add-header" | "rm-header" => fields::header(arguments),
            "set-cookie" | "add-cookie" | "rm-cookie" => fields::cookie(arguments),
            "set-destination" => destination::set(arguments),
            "rm-destination" => destination::remove(arguments),
            "set-status" => answer::status(arguments).map(Some),
            "set-status-reason" => answer::reason(arguments),
            "set-redirect" => answer::redirect(arguments),
            "set-body" => answer::body(arguments),
            "counter" => self.counter(arguments).map(Some),
            "run-plugin" => filter::run(arguments, self.filters).map(Some),
            "no-op" => arguments.none().map(|()| Some(Operator::NoOp)),
            "set-conn-dscp" => state::dscp(arguments).map(Some),
            "set-http-cntl" => state::control(arguments).map(Some),
            "set-plugin-cntl" => state::plugin(arguments).map(Some),
            _ => state::variable(arguments),
        }
    }

    fn counter(&mut self, arguments: &Arguments<'_, '_>) -> CheckResult<Operator> {
        let word = arguments.only("a name, such as shop.teapots")?;
        let name = word.as_str();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) {
            let problem =
                Diagnostic::error(word.at, format!("{name:?} is not a valid name for a counter"));
            return Err(problem.hint("use letters, digits, dots, - and _"));
        }
        let known = self.counters.iter().position(|counter| counter == name);
        let number = known.unwrap_or_else(|| {
            self.counters.push(name.to_owned());
            self.counters.len() - 1
        });
        Ok(Operator::Counter(u32::try_from(number).unwrap_or(u32::MAX)))
    }
}

fn known(name: &SourceWord, words: &[SourceWord]) -> CheckResult<()> {
    let text = name.as_str();
    if NAMES.contains(&text) {
        return Ok(());
    }
    if let Some((why, hint)) = unsupported::operator(text) {
        return Err(Diagnostic::error(name.at, format!("{text}: {why}")).hint(hint));
    }
    if text == "set-config" {
        let hint =
            words.first().map_or("see docs/settings.md", |word| unsupported::config(word.as_str()));
        let problem = Diagnostic::error(name.at, "set-config: rules cannot change settings");
        return Err(problem.hint(hint));
    }
    let problem = Diagnostic::error(name.at, format!("there is no operator {text}"));
    Err(match nearest(text, NAMES) {
        Some(near) => problem.hint(format!("did you mean {near}?")),
        None => problem.hint("see docs/rules.md for all operators; a condition begins with `cond`"),
    })
}

fn check_hook(hook: Hook, name: &SourceWord) -> CheckResult<()> {
    use Hook::{ReadRequest, ReadResponse, Remap, SendRequest, SendResponse};
    let (allowed, hint): (&[Hook], &str) = match name.as_str() {
        "add-cookie" | "set-cookie" | "rm-cookie" => (
            &[ReadRequest, Remap, SendRequest],
            "for the request's Cookie use READ_REQUEST_HDR_HOOK, REMAP_PSEUDO_HOOK or \
             SEND_REQUEST_HDR_HOOK; for responses use add-header Set-Cookie",
        ),
        "set-destination" | "rm-destination" => (
            &[ReadRequest, Remap],
            "the URL is the cache key: change it at READ_REQUEST_HDR_HOOK or REMAP_PSEUDO_HOOK",
        ),
        "set-status" | "set-redirect" => (
            &[ReadRequest, Remap, ReadResponse, SendResponse],
            "to answer without the origin, use READ_REQUEST_HDR_HOOK or REMAP_PSEUDO_HOOK; to \
             change the response, READ_RESPONSE_HDR_HOOK or SEND_RESPONSE_HDR_HOOK",
        ),
        "set-status-reason" => {
            (&[SendResponse], "a reason is not stored: use SEND_RESPONSE_HDR_HOOK")
        }
        "set-body" | "set-conn-dscp" => (
            &[ReadRequest, Remap, SendResponse],
            "use READ_REQUEST_HDR_HOOK, REMAP_PSEUDO_HOOK or SEND_RESPONSE_HDR_HOOK",
        ),
        _ => return Ok(()),
    };
    if allowed.contains(&hook) { Ok(()) } else { Err(not_at(name, name.as_str(), hook, hint)) }
}

fn check_flags(name: &str, words: &[SourceWord], flags: &OperatorFlags) -> CheckResult<()> {
    let part = words.first().map(SourceWord::as_str);
    if let Some(at) = flags.append_query
        && name != "set-redirect"
        && !(name == "set-destination" && matches!(part, Some("QUERY" | "URL")))
    {
        return Err(Diagnostic::error(at, "[QSA] has no meaning here")
            .hint("[QSA] applies to set-redirect and set-destination QUERY"));
    }
    if let Some(at) = flags.keep
        && !(name == "rm-destination" && part == Some("QUERY") && words.len() > 1)
    {
        return Err(Diagnostic::error(at, "[I] has no meaning here")
            .hint("[I] applies to rm-destination QUERY a,b, which then keeps a and b"));
    }
    Ok(())
}
