//! What is wrong with a rule file, and where.

use std::fmt;

/// A place in a rule file: line and column count from 1, in bytes of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// Line.
    pub line: u32,
    /// Column of the first byte.
    pub column: u32,
    /// Bytes, at least 1.
    pub len: u32,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The rules run, but hardly as they are meant.
    Warning,
    /// The file is refused.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub at: At,
    /// What is wrong, as a sentence without a dot.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// The file is refused for this.
    pub(crate) fn error(at: At, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, at, message: message.into(), hint: None }
    }

    /// It runs, but hardly as it is meant.
    pub(crate) fn warning(at: At, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, at, message: message.into(), hint: None }
    }

    /// With what to write instead.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }
}

/// What is wrong with a file so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
}

impl Findings {
    /// One more.
    pub(crate) fn push(&mut self, finding: Diagnostic) {
        use crate::limits::FINDINGS_MAX;
        match self.list.len() {
            len if len < FINDINGS_MAX => self.list.push(finding),
            FINDINGS_MAX => {
                let message = format!("more than {FINDINGS_MAX} findings: the rest is left out");
                self.list.push(Diagnostic::error(finding.at, message));
            }
            _ => {}
        }
    }

    /// What went well; what did not is kept as a finding.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        result.map_err(|finding| self.push(finding)).ok()
    }

    /// All, in the order of the file.
    pub(crate) fn into_list(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|finding| finding.at);
        self.list
    }
}

/// A finding with the name and the text of its file, to be printed with the line and a caret.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// What the file is called.
    pub file: &'a str,
    /// The whole text of the file.
    pub text: &'a str,
    /// The finding.
    pub diagnostic: &'a Diagnostic,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, at, message, hint } = self.diagnostic;
        let severity = match severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        writeln!(f, "{}:{}:{}: {severity}: {message}", self.file, at.line, at.column)?;
        let line = self.text.lines().nth(at.line.saturating_sub(1) as usize).unwrap_or_default();
        writeln!(f, "  {line}")?;
        let indent: String = line
            .bytes()
            .take(at.column.saturating_sub(1) as usize)
            .map(|byte| if byte == b'\t' { '\t' } else { ' ' })
            .collect();
        writeln!(f, "  {indent}{}", "^".repeat(at.len.max(1) as usize))?;
        match hint {
            Some(hint) => writeln!(f, "  hint: {hint}"),
            None => Ok(()),
        }
    }
}
