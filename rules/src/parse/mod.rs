//! Lines and what they are part of: conditions, operators, branches, rules.

mod draft;
mod flags;
mod line;
mod structure;

pub(crate) use flags::{ConditionFlags, OperatorFlags};
pub(crate) use line::{Line, LineKind, parse_line};
pub(crate) use structure::Structure;
