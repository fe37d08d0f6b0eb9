//! Names, operands and hooks: what a line means, or why it means nothing here.

mod braceless;
mod capture;
mod condition;
mod field;
mod hook;
mod matcher;
mod never;
mod number;
mod odd_value;
mod operator;
mod pattern;
mod qualifier;
mod range;
mod reach;
mod refused;
mod set;
pub(crate) mod suggest;
mod template;
mod variable;

pub(crate) use condition::{ConditionLine, condition, group, group_end};
pub(crate) use hook::{FIRST_TURN, hook, is_hook};
pub(crate) use operator::{Checker, OperatorLine};
pub(crate) use pattern::Regexes;
pub(crate) use reach::{look_at_branches, look_for_unreachable};

#[cfg(test)]
pub(crate) use operator::NAMES as OPERATORS;
#[cfg(test)]
pub(crate) use variable::NAMES as CONDITIONS;
