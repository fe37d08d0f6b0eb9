//! The setting `origin_error_statuses`.

use crate::config::read::raw;
use crate::config::setting::{RawValue, Readable, Setting, ValueProblem};

/// The statuses of answers that count as failures of the origin. The bit of a status is its
/// distance from 500.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorStatuses(u128);

impl ErrorStatuses {
    /// Whether the list has the status.
    pub(crate) fn has(self, status: u16) -> bool {
        matches!(status, 500..=599) && self.0 & 1 << (status - 500) != 0
    }
}

impl Readable for ErrorStatuses {
    fn read(given: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        let mut statuses = ErrorStatuses::default();
        let mut add = |text: &str| match text.parse::<u16>() {
            Ok(status @ 500..=599) => {
                statuses.0 |= 1 << (status - 500);
                Ok(())
            }
            _ => {
                let problem = setting.problem(format_args!("cannot contain {text}"));
                Err(problem.hint("such a status is a number from 500 to 599"))
            }
        };
        match given {
            RawValue::Array(array) => {
                array.iter().try_for_each(|one| match raw(one.get_ref()) {
                    RawValue::Integer(number) => add(&number.to_string()),
                    RawValue::Text(text) => add(text),
                    _ => Err(setting.problem("has an element that is not a number")),
                })?
            }
            given => setting.texts(given)?.into_iter().try_for_each(add)?,
        }
        Ok(statuses)
    }
}
