//! Operators that write the same line in every run.

use forebay_http::edit::{ConstantLine, FieldValue};

use crate::ast::{Operator, Template};

/// Returns the line if it is the same in every run and not empty.
pub(super) fn constant_line(operator: &Operator) -> Option<ConstantLine> {
    let constant = |value: &Template| value.constant().map(<[u8]>::to_vec);
    let (name, value, is_set) = match operator {
        Operator::SetHeader(name, value) => (name, constant(value)?, true),
        Operator::AddHeader(name, value) => (name, constant(value)?, false),
        _ => return None,
    };
    let value = FieldValue::parse(&value).filter(|value| !value.as_bytes().is_empty())?;
    Some(match is_set {
        true => ConstantLine::set(name.clone(), value),
        false => ConstantLine::append(name.clone(), value),
    })
}
