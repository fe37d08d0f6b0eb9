//! Finds numbers outside of a variable's range.

use super::Mismatch;
use crate::ast::{Comparison, TimePart, UrlPart, Variable};

pub(super) fn never(subject: &Variable, how: Comparison, with: i64) -> Option<Mismatch> {
    let (least, most) = range_of(subject)?;
    let never = match how {
        Comparison::Less => with <= least,
        Comparison::Greater => with >= most,
        _ => with < least || with > most,
    };
    let message = match most {
        i64::MAX => format!("this never holds: the value is at least {least}"),
        _ => format!("this never holds: the value is from {least} to {most}"),
    };
    never.then_some((message, String::new()))
}

fn range_of(subject: &Variable) -> Option<(i64, i64)> {
    Some(match subject {
        Variable::Status => (100, 599),
        Variable::Random(below) => (0, i64::from(*below) - 1),
        Variable::Int8(..) => (0, 255),
        Variable::Int16(_) => (0, 65535),
        Variable::Port(_) | Variable::NextHopPort | Variable::Url(_, UrlPart::Port) => (1, 65535),
        Variable::TransactionCount => (1, i64::MAX),
        Variable::Now(TimePart::Month) => (0, 11),
        Variable::Now(TimePart::Day) => (1, 31),
        Variable::Now(TimePart::Hour) => (0, 23),
        Variable::Now(TimePart::Minute) => (0, 59),
        Variable::Now(TimePart::Weekday) => (0, 6),
        Variable::Now(TimePart::YearDay) => (0, 365),
        _ => return None,
    })
}
