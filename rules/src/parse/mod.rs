//! Parses lines and assembles them into conditions, operators, branches and rules.

mod assembler;
mod draft;
mod flags;
mod line;

pub(crate) use assembler::RuleAssembler;
pub(crate) use flags::{ConditionFlags, OperatorFlags};
pub(crate) use line::{LineKind, ParsedLine, parse_line};
