//! Checks names, operands and hooks. Each check returns the meaning of a part of a line, or reports
//! why the part is invalid.

mod capture;
mod condition;
mod field;
mod hook;
mod impossible;
mod matcher;
mod missing_braces;
mod number;
mod operator;
mod pattern;
mod qualifier;
mod range;
mod set;
pub(crate) mod suggest;
mod suspicious_value;
mod template;
mod unreachable;
mod unsupported;
mod variable;

pub(crate) use condition::{ConditionLine, condition, group, group_end};
pub(crate) use hook::{FIRST_TURN, hook, is_hook};
pub(crate) use operator::{OperatorChecker, OperatorLine};
pub(crate) use unreachable::{check_branches, find_unreachable};

#[cfg(test)]
pub(crate) use operator::NAMES as OPERATORS;
#[cfg(test)]
pub(crate) use variable::NAMES as CONDITIONS;
