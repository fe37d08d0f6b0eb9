//! Lines and what they are part of: conditions, operators, branches, rules.

mod assembler;
mod draft;
mod flags;
mod line;

pub(crate) use assembler::RuleAssembler;
pub(crate) use flags::{ConditionFlags, OperatorFlags};
pub(crate) use line::{LineKind, RuleLine, parse_line};
