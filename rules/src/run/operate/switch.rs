//! Operators on counters, variables and controls.

use super::value::expand_value;
use crate::{
    ast::{Lifetime, Operator, Template},
    run::{Effects, OperatorOutcome, RuleEnvironment, RuleVariables, RunBuffers, RunContext},
};

/// Runs an operator on a counter, a variable or a control.
pub(super) fn switch<S: RuleEnvironment>(
    operator: &Operator,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
    effects: &mut Effects,
) -> OperatorOutcome {
    match operator {
        Operator::Counter(counter) => context.environment.count(*counter),
        Operator::SetFlag(lifetime, number, on) => {
            let flags = &mut state(*lifetime, context).flags;
            let bit = 1 << (number & 15);
            *flags = if *on { *flags | bit } else { *flags & !bit };
        }
        Operator::SetInt8(lifetime, number, value) => {
            let Some(int8) = int(value, context, buffers).and_then(|int| u8::try_from(int).ok())
            else {
                return OperatorOutcome::Failed;
            };
            state(*lifetime, context).int8[usize::from(number & 3)] = int8;
        }
        Operator::SetInt16(lifetime, value) => {
            let Some(int16) = int(value, context, buffers).and_then(|int| u16::try_from(int).ok())
            else {
                return OperatorOutcome::Failed;
            };
            state(*lifetime, context).int16 = int16;
        }
        Operator::SetControl(control, on) => context.transaction.controls.set(*control, *on),
        Operator::SetDscp(dscp) => effects.dscp = Some(*dscp),
        _ => return OperatorOutcome::Nothing,
    }
    OperatorOutcome::Done
}

fn state<'s, S>(
    lifetime: Lifetime,
    context: &'s mut RunContext<'_, '_, S>,
) -> &'s mut RuleVariables {
    match lifetime {
        Lifetime::Transaction => &mut context.transaction.state,
        Lifetime::Session => context.session,
    }
}

/// Expands a value and parses the number at its beginning, like C's `strtol`; 0 if there is no
/// number, and `None` if the value is too large.
fn int<S: RuleEnvironment>(
    template: &Template,
    context: &mut RunContext<'_, '_, S>,
    buffers: &mut RunBuffers,
) -> Option<i64> {
    if !expand_value(template, context, buffers) {
        return None;
    }
    let text = buffers.value.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let add =
        |number: i64, byte: &u8| number.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
    Some(sign * digits.fold(0, add))
}
