//! Checks one condition: its variable, and the value that the variable must have.

use crate::{
    ast::{Condition, Hook},
    check::{
        matcher::matcher,
        variable::{ValueKind, variable},
    },
    diagnostic::{Diagnostic, Findings, RuleSpan},
    lex::SourceWord,
    parse::ConditionFlags,
    pattern::PatternCompiler,
};

/// A line with a condition that is neither a hook nor a group.
pub(crate) struct ConditionLine<'a> {
    /// The hook of the rule.
    pub(crate) hook: Hook,
    /// The text in the condition's braces.
    pub(crate) name: &'a SourceWord,
    /// The operand.
    pub(crate) operand: Option<&'a SourceWord>,
    /// The flags in brackets.
    pub(crate) flags: &'a ConditionFlags,
    /// The whole line.
    pub(crate) at: RuleSpan,
}

/// Checks one condition. Once the variable is valid, the operand and the flags are both checked,
/// even if one of them has an error.
pub(crate) fn condition(
    line: &ConditionLine<'_>,
    regexes: &mut PatternCompiler,
    findings: &mut Findings,
) -> Option<Condition> {
    let ConditionLine { hook, name, operand, flags, at } = *line;
    let subject = findings.keep(variable(name, hook))?;
    let matcher = matcher(name, &subject, operand, flags, regexes, findings)?;
    Some(Condition { subject, matcher, negated: flags.not.is_some(), at })
}

/// Checks `%{GROUP}`, which has no operand, and no flags about the comparison of a value.
pub(crate) fn group(
    operand: Option<&SourceWord>,
    flags: &ConditionFlags,
) -> Result<(), Diagnostic> {
    if let Some(operand) = operand {
        return Err(Diagnostic::error(operand.at, "a group cannot have an operand"));
    }
    match flags.nocase.or(flags.case).or(flags.how.map(|how| how.1)) {
        Some(at) => Err(Diagnostic::error(at, "this flag has no meaning for a group")),
        None => Ok(()),
    }
}

/// Checks `%{GROUP:END}`, which has neither an operand nor flags.
pub(crate) fn group_end(
    operand: Option<&SourceWord>,
    flags: &ConditionFlags,
) -> Result<(), Diagnostic> {
    if let Some(operand) = operand {
        return Err(Diagnostic::error(operand.at, "a group cannot have an operand"));
    }
    match flags.or.or(flags.not).or(flags.last).or(flags.nocase).or(flags.how.map(|how| how.1)) {
        Some(at) => Err(Diagnostic::error(at, "%{GROUP:END} cannot have flags")
            .hint("put the flags on the %{GROUP} that begins the group")),
        None => Ok(()),
    }
}

/// Returns the operands that a condition of this kind accepts, for messages.
pub(crate) fn allowed(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Text => "write =text, <text, >text, /regex/ or (a,b,c)",
        ValueKind::Number => "write =5, <5, >5 or (1,2,3)",
        ValueKind::Flag => "write no operand; [NOT] negates the condition",
        ValueKind::Address => "write =address, /regex/, (a,b) or {10.0.0.0/8,192.0.2.1-192.0.2.9}",
    }
}
