//! Peephole optimisation: a run executes fewer instructions.

use super::{END, Instruction};

/// Folds instructions that do no work of their own into their predecessors. Each instruction costs
/// a jump that the processor has to predict, which takes longer than most conditions.
pub(super) fn shorten(code: &mut [Instruction]) {
    let of = |code: &[Instruction], at: u32| code.get(at as usize).copied();
    for at in 0..code.len() {
        let mut instruction = code[at];
        if let Instruction::Compare { matches, yes, no, .. } = &mut instruction {
            if let Some(Instruction::Matched) = of(code, *yes) {
                *matches = true;
                *yes += 1;
            }
            for to in [yes, no] {
                if let Some(Instruction::End) = of(code, *to) {
                    *to = END;
                }
            }
        }
        if let Instruction::Lines { next, .. } = &mut instruction
            && let Some(Instruction::End) = of(code, *next)
        {
            *next = END;
        }
        code[at] = instruction;
    }
}
