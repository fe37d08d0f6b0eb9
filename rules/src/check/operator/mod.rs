//! Checks operators and their arguments.

mod answer;
mod arguments;
mod checker;
mod destination;
mod fields;
mod filter;
mod state;

#[cfg(test)]
pub(crate) use checker::NAMES;
pub(crate) use checker::{OperatorChecker, OperatorLine};

use crate::diagnostic::CheckResult;
