//! Warns of operands that a value never or hardly ever has, and suggests the form that was meant.

mod address;
mod few;
mod number;
mod operand;
mod url;

pub(super) use operand::impossible_operands;

use crate::ast::Comparison;

/// Message and hint.
type Mismatch = (String, String);

/// How a text is compared.
#[derive(Clone, Copy)]
struct TextComparison {
    compare: Comparison,
    nocase: bool,
    /// `[NOT]`
    negated: bool,
}

/// What to do about a condition that gives the same result for every request. `[OR]` and groups
/// decide what that means for the rule.
fn without_it(negated: bool) -> &'static str {
    match negated {
        true => "so this always holds: remove the condition, unless it is joined with [OR]",
        false => "so this never holds: remove the operators that depend on it",
    }
}
