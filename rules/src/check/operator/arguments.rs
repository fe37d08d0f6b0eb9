//! The arguments of an operator.

use crate::{
    ast::{Hook, Template},
    check::{
        suspicious_value::single_quotes,
        template::{joined, template},
    },
    diagnostic::{CheckResult, Diagnostic, Findings, RuleSpan},
    lex::SourceWord,
    parse::OperatorFlags,
};

/// The words of an operator, with the context in which they are read.
pub(crate) struct Arguments<'a, 'f> {
    pub(crate) name: &'a SourceWord,
    pub(crate) words: &'a [SourceWord],
    pub(crate) hook: Hook,
    pub(crate) flags: &'a OperatorFlags,
    pub(crate) findings: &'f mut Findings,
}

impl<'a> Arguments<'a, '_> {
    /// Refuses any argument.
    pub(crate) fn none(&self) -> CheckResult<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => {
                let message = format!("{} takes no argument", self.name.as_str());
                Err(Diagnostic::error(word.at, message).hint(self.instead(word)))
            }
        }
    }

    /// Returns the first argument. `what` names it in messages.
    pub(crate) fn first(&self, what: &str) -> CheckResult<&'a SourceWord> {
        self.words.first().ok_or_else(|| self.missing(what))
    }

    /// Returns the only argument.
    pub(crate) fn only(&self, what: &str) -> CheckResult<&'a SourceWord> {
        let first = self.first(what)?;
        self.no_more_than(1)?;
        Ok(first)
    }

    /// Returns the second of two arguments.
    pub(crate) fn second(&self, what: &str) -> CheckResult<&'a SourceWord> {
        self.no_more_than(2)?;
        self.words.get(1).ok_or_else(|| self.missing(what))
    }

    pub(crate) fn no_more_than(&self, count: usize) -> CheckResult<()> {
        match self.words.get(count) {
            None => Ok(()),
            Some(word) => {
                let message = format!("too many words for {}", self.name.as_str());
                Err(Diagnostic::error(word.at, message).hint(self.instead(word)))
            }
        }
    }

    /// Returns the hint for a surplus word.
    fn instead(&self, word: &SourceWord) -> &'static str {
        if word.is_comment() {
            return "put the comment on a line of its own";
        }
        if word.as_str().starts_with('[') {
            return "flags are the last word of a line, without spaces: [L,QSA]";
        }
        match self.name.as_str() {
            "set-status" => "to set the reason, use set-status-reason at SEND_RESPONSE_HDR_HOOK",
            "set-body" | "set-status-reason" => "put text with spaces in quotes: \"Not Found\"",
            "rm-header" | "rm-cookie" => "write one line for each name",
            "rm-destination" => "separate names by commas, without spaces: QUERY a,b",
            _ => "remove this word",
        }
    }

    /// Reads the only argument as a value.
    pub(crate) fn only_value(&mut self, what: &str) -> CheckResult<Option<Template>> {
        let word = self.only(what)?;
        if let Some(problem) = single_quotes(std::slice::from_ref(word), word) {
            self.findings.push(problem);
        }
        Ok(self.template(word))
    }

    /// Reads all arguments after the first as one value.
    pub(crate) fn value(&mut self, what: &str) -> CheckResult<Option<Template>> {
        let words = self.words.get(1..).unwrap_or_default();
        let Some(word) = joined(words, self.findings) else {
            return Err(self.missing(what));
        };
        Ok(template(&word, self.hook, self.findings))
    }

    /// Reads one word as a value.
    pub(crate) fn template(&mut self, word: &SourceWord) -> Option<Template> {
        template(word, self.hook, self.findings)
    }

    /// Returns the span of the value, which is all arguments after the first.
    pub(crate) fn value_at(&self) -> RuleSpan {
        match (self.words.get(1), self.words.last()) {
            (Some(first), Some(last)) => {
                let len = (last.at.column + last.at.len).saturating_sub(first.at.column).max(1);
                RuleSpan { len, ..first.at }
            }
            _ => self.name.at,
        }
    }

    fn missing(&self, what: &str) -> Diagnostic {
        Diagnostic::error(self.name.at, format!("{} needs {what}", self.name.as_str()))
    }
}
