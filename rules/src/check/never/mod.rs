//! Operands that a value never has, or hardly ever: each is a warning with the form that was meant.

mod address;
mod few;
mod number;
mod operand;
mod url;

pub(super) use operand::never;

use crate::ast::Compare;

/// What is wrong, and what to write instead.
type Problem = (String, String);

/// How a text is compared.
#[derive(Clone, Copy)]
struct How {
    compare: Compare,
    nocase: bool,
}
