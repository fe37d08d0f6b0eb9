//! Operators that touch no text of a message.

use super::value::expand_value;
use crate::{
    ast::{Lifetime, Operator, Template},
    run::{Effects, Outcome, Stage, State, Surroundings, Texts},
};

/// Does it.
pub(super) fn switch<S: Surroundings>(
    operator: &Operator,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
    effects: &mut Effects,
) -> Outcome {
    match operator {
        Operator::Counter(counter) => stage.surroundings.count(*counter),
        Operator::SetFlag(lifetime, number, on) => {
            let flags = &mut state(*lifetime, stage).flags;
            let bit = 1 << (number & 15);
            *flags = if *on { *flags | bit } else { *flags & !bit };
        }
        Operator::SetInt8(lifetime, number, value) => {
            let Some(int8) = int(value, stage, texts).and_then(|int| u8::try_from(int).ok()) else {
                return Outcome::Failed;
            };
            state(*lifetime, stage).int8[usize::from(number & 3)] = int8;
        }
        Operator::SetInt16(lifetime, value) => {
            let Some(int16) = int(value, stage, texts).and_then(|int| u16::try_from(int).ok())
            else {
                return Outcome::Failed;
            };
            state(*lifetime, stage).int16 = int16;
        }
        Operator::SetControl(control, on) => stage.transaction.controls.set(*control, *on),
        Operator::SetDscp(dscp) => effects.dscp = Some(*dscp),
        _ => return Outcome::Nothing,
    }
    Outcome::Done
}

fn state<'s, S>(lifetime: Lifetime, stage: &'s mut Stage<'_, '_, S>) -> &'s mut State {
    match lifetime {
        Lifetime::Transaction => &mut stage.transaction.state,
        Lifetime::Session => stage.session,
    }
}

/// The number at the beginning of a value; 0 if there is none, as C's `strtol` has it.
fn int<S: Surroundings>(
    template: &Template,
    stage: &mut Stage<'_, '_, S>,
    texts: &mut Texts,
) -> Option<i64> {
    if !expand_value(template, stage, texts) {
        return None;
    }
    let text = texts.value.trim_ascii_start();
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let add =
        |number: i64, byte: &u8| number.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
    Some(sign * digits.fold(0, add))
}
