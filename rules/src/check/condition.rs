//! One condition: what is looked at, and what it has to be.

use crate::{
    ast::{Condition, Hook},
    check::{
        matcher::matcher,
        pattern::RegexCompiler,
        variable::{ValueKind, variable},
    },
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::SourceWord,
    parse::ConditionFlags,
};

/// A line with a condition on it that is no hook and no group.
pub(crate) struct ConditionLine<'a> {
    /// Of its rule.
    pub(crate) hook: Hook,
    /// What stands in its braces.
    pub(crate) name: &'a SourceWord,
    /// What it is compared with.
    pub(crate) operand: Option<&'a SourceWord>,
    /// `[…]`
    pub(crate) flags: &'a ConditionFlags,
    /// All of it.
    pub(crate) at: RuleSpan,
}

/// One condition. Each of its parts is looked at, whatever is wrong with the others.
pub(crate) fn condition(
    line: &ConditionLine<'_>,
    regexes: &mut RegexCompiler,
    findings: &mut Findings,
) -> Option<Condition> {
    let ConditionLine { hook, name, operand, flags, at } = *line;
    let subject = findings.keep(variable(name, hook))?;
    let matcher = matcher(name, &subject, operand, flags, regexes, findings)?;
    Some(Condition { subject, matcher, negated: flags.not.is_some(), at })
}

/// `%{GROUP}` has flags that join it with what follows, and no operand.
pub(crate) fn group(
    operand: Option<&SourceWord>,
    flags: &ConditionFlags,
) -> Result<(), Diagnostic> {
    if let Some(operand) = operand {
        return Err(Diagnostic::error(operand.at, "a group has no operand"));
    }
    match flags.nocase.or(flags.case).or(flags.how.map(|how| how.1)) {
        Some(at) => Err(Diagnostic::error(at, "this flag means nothing for a group")),
        None => Ok(()),
    }
}

/// `%{GROUP:END}` has neither.
pub(crate) fn group_end(
    operand: Option<&SourceWord>,
    flags: &ConditionFlags,
) -> Result<(), Diagnostic> {
    if let Some(operand) = operand {
        return Err(Diagnostic::error(operand.at, "a group has no operand"));
    }
    match flags.or.or(flags.not).or(flags.last).or(flags.nocase).or(flags.how.map(|how| how.1)) {
        Some(at) => Err(Diagnostic::error(at, "flags at the end of a group are not looked at")
            .hint("give them to the %{GROUP} that begins it")),
        None => Ok(()),
    }
}

/// What an operand of a condition may be, for messages.
pub(crate) fn allowed(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Text => "=text, <text, >text, /regex/ or (a,b,c)",
        ValueKind::Number => "=5, <5, >5 or (1,2,3)",
        ValueKind::Flag => "no operand; [NOT] turns it round",
        ValueKind::Address => "=address, /regex/, (a,b) or {10.0.0.0/8,192.0.2.1-192.0.2.9}",
    }
}
