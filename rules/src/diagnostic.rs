//! Findings about a rule file, and their spans.

use std::fmt;

/// A span in a rule file. Lines and columns count from 1. A column is a byte of its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleSpan {
    /// The number of the line.
    pub line: u32,
    /// The column of the first byte.
    pub column: u32,
    /// Length of the span in bytes, at least 1.
    pub len: u32,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The rules run, but probably not as their author intends.
    Warning,
    /// The rule file is refused.
    Error,
}

/// One finding about a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity of the finding.
    pub severity: Severity,
    /// The span that the finding is about.
    pub at: RuleSpan,
    /// The message, a sentence without a full stop.
    pub message: String,
    /// The hint, such as the text to write instead.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Creates a finding for which the file is refused.
    pub(crate) fn error(at: RuleSpan, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, at, message: message.into(), hint: None }
    }

    /// Creates a finding that does not stop the rules from running.
    pub(crate) fn warning(at: RuleSpan, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, at, message: message.into(), hint: None }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}

/// The result of checking a part of a line.
pub(crate) type CheckResult<T> = Result<T, Diagnostic>;

/// The findings about a file that is being read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
}

impl Findings {
    /// Adds a finding. Beyond the limit, a single further finding says that the rest is omitted.
    pub(crate) fn push(&mut self, finding: Diagnostic) {
        use crate::limits::FINDINGS_MAX;
        match self.list.len() {
            len if len < FINDINGS_MAX => self.list.push(finding),
            FINDINGS_MAX => {
                let message = format!(
                    "the file has more than {FINDINGS_MAX} findings; the rest is not shown"
                );
                self.list.push(Diagnostic::error(finding.at, message));
            }
            _ => {}
        }
    }

    /// Returns the value of a result, or adds the result's finding.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        result.map_err(|finding| self.push(finding)).ok()
    }

    /// Returns all findings, in the order of the file.
    pub(crate) fn into_list(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|finding| finding.at);
        self.list
    }
}

/// Displays a finding with its line and carets below its span.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticDisplay<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The whole text of the file.
    pub text: &'a str,
    /// The finding.
    pub diagnostic: &'a Diagnostic,
}

impl fmt::Display for DiagnosticDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, at, message, hint } = self.diagnostic;
        let severity = match severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let message = Printable(message);
        writeln!(f, "{}:{}:{}: {severity}: {message}", self.file, at.line, at.column)?;
        let line = self.text.lines().nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
        writeln!(f, "  {}", Printable(line))?;
        // Carets align with characters, some of which have several bytes.
        let begin = at.column.saturating_sub(1) as usize;
        let end = begin + at.len.max(1) as usize;
        let indent = line.char_indices().take_while(|(place, _)| *place < begin);
        let indent: String = indent.map(|(_, c)| if c == '\t' { '\t' } else { ' ' }).collect();
        let marked = line.char_indices().filter(|(place, _)| (begin..end).contains(place)).count();
        writeln!(f, "  {indent}{}", "^".repeat(marked.max(1)))?;
        match hint {
            Some(hint) => writeln!(f, "  hint: {}", Printable(hint)),
            None => Ok(()),
        }
    }
}

/// Displays text from a file for a terminal: control characters appear as `?`.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let shown = self.0.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c });
        for character in shown {
            f.write_char(character)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_mark_the_span_and_control_characters_are_replaced() {
        for (line, column, len, expected) in [
            ("a bcd e", 3, 3, "  a bcd e\n    ^^^\n"),
            ("\ta bc", 4, 2, "  \ta bc\n  \t  ^^\n"),
            ("\u{e9} b\u{e9}c d", 4, 4, "  \u{e9} b\u{e9}c d\n    ^^^\n"),
            ("a\u{1b}[1m", 2, 1, "  a?[1m\n   ^\n"),
            ("a\u{9b}1m", 2, 2, "  a?1m\n   ^\n"),
            ("a", 2, 1, "  a\n   ^\n"),
        ] {
            let at = RuleSpan { line: 1, column, len };
            let diagnostic = Diagnostic::error(at, "x\u{1b}y").hint("z\u{7}");
            let shown =
                DiagnosticDisplay { file: "f", text: line, diagnostic: &diagnostic }.to_string();
            let wanted = format!("f:1:{column}: error: x?y\n{expected}  hint: z?\n");
            assert_eq!(shown, wanted, "{line:?}");
        }
    }
}
