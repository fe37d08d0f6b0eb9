//! The reasons why orders fail, as texts for the operator.

use std::fmt;

use instant_acme::{Error, Problem};

use crate::limits::ACME_PROBLEM_BYTES_MAX;
use crate::terminal::escaped_line;

/// The reason why an order failed.
#[derive(Debug)]
pub(super) struct OrderFailure {
    /// A text for the operator, on one line, with at most [`ACME_PROBLEM_BYTES_MAX`] bytes from
    /// the certificate authority.
    pub(super) text: String,
    /// Whether the authority does not know the account any more.
    pub(super) is_of_account: bool,
}

impl OrderFailure {
    /// Returns the failure of this step of an order.
    pub(super) fn new(step: &str, why: impl fmt::Display) -> OrderFailure {
        let text = format!("{step}: {}", shortened(&why.to_string()));
        OrderFailure { text, is_of_account: false }
    }

    /// Returns a failure for which an error of the ACME client is the reason.
    pub(super) fn of(step: &str) -> impl Fn(Error) -> OrderFailure {
        move |error| match error {
            Error::Api(problem) => {
                let is_of_account = problem_kind(&problem) == Some("accountDoesNotExist");
                OrderFailure { is_of_account, ..OrderFailure::new(step, problem_text(&problem)) }
            }
            Error::Json(_) => OrderFailure::new(step, "the answer is not the JSON of RFC 8555"),
            error => OrderFailure::new(step, error),
        }
    }
}

/// Returns the last part of a problem's type (RFC 8555 §6.7).
pub(super) fn problem_kind(problem: &Problem) -> Option<&str> {
    problem.r#type.as_deref()?.rsplit(':').next()
}

/// Returns the text of a problem document (RFC 7807).
pub(super) fn problem_text(problem: &Problem) -> String {
    let text = problem.to_string();
    let text = text.strip_prefix("API error: ").unwrap_or(&text);
    text.replace("urn:ietf:params:acme:error:", "")
}

/// Makes text from outside short and printable.
pub(super) fn shortened(text: &str) -> String {
    let mut text = escaped_line(text);
    if text.len() > ACME_PROBLEM_BYTES_MAX {
        let end = (0..=ACME_PROBLEM_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_problem_is_short_and_printable() {
        let problem: Problem = serde_json::from_str(
            r#"{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too\n\u001b[2Jmany"}"#,
        )
        .expect("a problem");
        let failure = OrderFailure::of("new order")(Error::Api(problem));
        assert_eq!(failure.text, r"new order: too\u{a}\u{1b}[2Jmany (rateLimited)");
        assert!(!failure.is_of_account);
        let long = OrderFailure::new("directory", "é".repeat(100_000));
        assert!(long.text.len() < ACME_PROBLEM_BYTES_MAX + 20, "{}", long.text.len());
    }
}
