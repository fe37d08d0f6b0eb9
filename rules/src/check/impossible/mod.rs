//! Warns of operands that never or hardly ever match, and suggests the operand that was meant.

mod address;
mod few;
mod number;
mod operand;
mod url;

pub(super) use operand::impossible_operands;

use crate::ast::Comparison;

/// The message and the hint of a warning.
type Mismatch = (String, String);

/// How a text is compared.
#[derive(Clone, Copy)]
struct TextComparison {
    compare: Comparison,
    nocase: bool,
    /// Whether the condition has the flag `[NOT]`.
    negated: bool,
}

/// Returns the advice for a condition that gives the same result for every request. The advice is
/// conditional, because `[OR]` and groups decide how the condition affects the rule.
fn without_it(negated: bool) -> &'static str {
    match negated {
        true => "so this always holds: remove the condition, unless it is joined with [OR]",
        false => "so this never holds: remove the operators that depend on this condition",
    }
}
