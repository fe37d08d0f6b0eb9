//! Operands that a value never has, or hardly ever: each is a warning with the form that was meant.

mod address;
mod few;
mod number;
mod operand;
mod url;

pub(super) use operand::impossible_operands;

use crate::ast::Comparison;

/// What is wrong, and what to write instead.
type Mismatch = (String, String);

/// How a text is compared.
#[derive(Clone, Copy)]
struct TextComparison {
    compare: Comparison,
    nocase: bool,
    /// `[NOT]`
    negated: bool,
}

/// What to do about a condition that is the same for every request. `[OR]` and groups decide what
/// that means for the rule.
fn without_it(negated: bool) -> &'static str {
    match negated {
        true => "so this always holds: leave the condition out, unless it is joined with [OR]",
        false => "so this never holds: leave out what hangs on it",
    }
}
