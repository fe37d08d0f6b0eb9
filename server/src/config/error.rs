//! Errors of a configuration, all reported together, each with its position.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use super::setting::ValueProblem;
use super::source::SourceFiles;
use crate::limits::{CONFIG_ERRORS_MAX, CONFIG_LINE_CHARS_MAX};

/// Beginnings of values that name a variable or a file.
const REFERENCES: [&str; 4] = ["{ env", "{env", "{ file", "{file"];

/// One error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The position of the error.
    pub place: SourceSpan,
    /// A sentence that describes the error, without its position.
    pub message: String,
    /// A description of valid values.
    pub expected: Option<String>,
    /// A suggestion for fixing the error.
    pub hint: Option<String>,
}

/// The position of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSpan {
    /// Characters in one line of a file.
    Text {
        /// The file's name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// The text of the line.
        text: String,
        /// Number of characters at fault, at least 1.
        width: usize,
    },
    /// A file as a whole.
    File(String),
    /// A flag, with its dashes.
    Flag(String),
}

/// The errors of a configuration; never empty. Errors of configuration files are in the order of
/// their positions; errors in the text of rule files follow. Only the first `CONFIG_ERRORS_MAX`
/// errors are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    count: usize,
    errors: Vec<ConfigError>,
}

/// The position of a problem, as recorded while the file is read. A [`SourceSpan`] is made from it
/// only for errors that are reported, because making one costs more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProblemSpan {
    /// A range of bytes, as offsets in the space of all files.
    Span(Range<usize>),
    /// The file as a whole.
    File,
    /// A flag, with its dashes.
    Flag(String),
}

/// The name and the text of a configuration file.
pub(crate) struct FileText<'a> {
    name: &'a str,
    pub(super) text: &'a str,
    /// The offset of the first byte of each line.
    line_starts: Vec<usize>,
}

impl<'a> FileText<'a> {
    pub(crate) fn new(name: &'a str, text: &'a str) -> Self {
        let behind_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        FileText { name, text, line_starts: std::iter::once(0).chain(behind_breaks).collect() }
    }

    /// Returns the directory of the file; empty if the name has no directory.
    pub(crate) fn dir(&self) -> &'a Path {
        Path::new(self.name).parent().unwrap_or(Path::new(""))
    }

    /// Returns `file:line:column` of the byte at `offset`.
    pub(crate) fn position(&self, offset: usize) -> String {
        let (line, column, _) = self.line_of(offset);
        format!("{}:{line}:{column}", self.name)
    }

    /// Returns the line and the column of a byte, both counted from 1, and the offset at which the
    /// line begins.
    fn line_of(&self, offset: usize) -> (usize, usize, usize) {
        let offset = floor(self.text, offset);
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let line_start = self.line_starts[line - 1];
        (line, self.text[line_start..offset].chars().count() + 1, line_start)
    }

    /// Returns the position for an error. `hidden` are the values that its line does not show, in
    /// their order.
    pub(super) fn place(&self, at: ProblemSpan, hidden: &[Range<usize>]) -> SourceSpan {
        match at {
            ProblemSpan::Span(span) => self.text_place(span, hidden),
            ProblemSpan::File => SourceSpan::File(self.name.to_owned()),
            ProblemSpan::Flag(flag) => SourceSpan::Flag(flag),
        }
    }

    fn text_place(&self, span: Range<usize>, hidden: &[Range<usize>]) -> SourceSpan {
        let (line, column, line_start) = self.line_of(span.start);
        let start = floor(self.text, span.start);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let end = floor(self.text, span.end).clamp(start, line_end);
        SourceSpan::Text {
            file: self.name.to_owned(),
            line,
            column,
            text: mask_users(self.masked(line_start..line_end, hidden).trim_end_matches('\r')),
            width: self.text[start..end].trim_end().chars().count().max(1),
        }
    }

    /// Returns a line without the values in `hidden`. All characters keep their columns.
    fn masked(&self, line: Range<usize>, hidden: &[Range<usize>]) -> String {
        let mut masked = String::new();
        let mut at = line.start;
        let is_here = |it: &&Range<usize>| it.start < line.end && it.end > line.start;
        for value in hidden.iter().filter(is_here) {
            let mut start = floor(self.text, value.start).clamp(at, line.end);
            let mut end = floor(self.text, value.end).clamp(start, line.end);
            if value.is_empty() {
                let Some(equals) = self.text[start..line.end].find('=') else { continue };
                let behind = &self.text[start + equals + 1..line.end];
                (start, end) = (line.end - behind.trim_start().len(), line.end);
            }
            masked.push_str(&self.text[at..start]);
            masked.extend(stars(&self.text[start..end]));
            at = end;
        }
        masked + &self.text[at..line.end]
    }
}

/// Returns `text` with asterisks in place of all characters except quotes.
fn stars(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| if matches!(c, '"' | '\'' | '\r') { c } else { '*' })
}

/// Returns the last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

/// Whether a character would control the terminal.
fn is_hidden(character: char) -> bool {
    character.is_control() && character != '\n'
}

/// Returns a text in which the user names and passwords of URLs are hidden. All other characters
/// keep their columns.
pub(crate) fn mask_users(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('@') {
        let of_url = before.rfind("://").map(|at| at + "://".len());
        // A password may contain quotes and spaces; without a scheme, its beginning is uncertain.
        let begins = |c: char| c == '"' || c == '\'' || c.is_whitespace();
        let start = of_url.unwrap_or_else(|| before.rfind(begins).map_or(0, |at| at + 1));
        let (open, user) = before.split_at(start);
        masked.push_str(open);
        match of_url.is_some() || user.contains(':') {
            true => masked.extend(user.chars().map(|_| '*')),
            false => masked.push_str(user),
        }
        masked.push('@');
        rest = behind;
    }
    masked + rest
}

/// Returns the value of a line, without quotes and brackets, that may be a password or a key: it
/// has a name like those of the settings for files with secrets, and is no path.
fn secret_value(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(['=', ':'])?;
    let name = name.trim().to_ascii_lowercase();
    let is_secret = ["auth", "signed", "password", "secret"].iter().any(|it| name.contains(it));
    let is_other = ["realm", "forward", "client_auth"].iter().any(|it| name.contains(it));
    let value = value.trim().trim_matches(['"', '\'', '[', ']', ' ']);
    let is_reference = REFERENCES.iter().any(|it| value.starts_with(it));
    let is_word = matches!(value, "" | "off" | "on" | "true" | "false");
    let is_shown = is_other || is_reference || is_word || value.starts_with('/');
    (is_secret && !is_shown).then_some(value)
}

impl ConfigError {
    pub(crate) fn new(place: SourceSpan, problem: ValueProblem) -> ConfigError {
        let ValueProblem { message, expected, hint, is_secret, hidden: _ } = problem;
        let place = match is_secret && !place.is_reference() {
            true => place.without_value(),
            false => place,
        };
        let secret = match &place {
            SourceSpan::Text { text, .. } => secret_value(text).map(str::to_owned),
            SourceSpan::File(_) | SourceSpan::Flag(_) => None,
        };
        let place = secret.as_deref().map_or(place.clone(), |secret| place.without(secret));
        let has_secret = |text: &str| secret.as_deref().is_some_and(|it| text.contains(it));
        let hint = hint.map(|hint| match has_secret(&hint) {
            true => {
                "secrets are in a file of their own; write the absolute path of the file".into()
            }
            false => hint,
        });
        let shown = |text: String| {
            let text = mask_users(&text).replace(is_hidden, " ");
            secret.as_deref().map_or(text.clone(), |secret| text.replace(secret, "***"))
        };
        let (message, hint) = (shown(message), hint.map(shown));
        ConfigError { place, message, expected, hint }
    }
}

impl SourceSpan {
    /// Hides `secret` in the line.
    fn without(mut self, secret: &str) -> SourceSpan {
        if let SourceSpan::Text { text, .. } = &mut self {
            *text = text.replace(secret, &"*".repeat(secret.chars().count()));
        }
        self
    }

    /// Whether the characters at fault name a variable or a file that has the value. The line is
    /// then no secret.
    fn is_reference(&self) -> bool {
        let SourceSpan::Text { column, text, .. } = self else { return false };
        let value: String = text.chars().skip(column - 1).collect();
        REFERENCES.iter().any(|it| value.starts_with(it))
    }

    /// Hides the characters at fault.
    fn without_value(mut self) -> SourceSpan {
        if let SourceSpan::Text { column, text, width, .. } = &mut self {
            let value = *column..*column + *width;
            let shown = |(number, c)| match value.contains(&number) && c != '"' && c != '\'' {
                true => '*',
                false => c,
            };
            *text = (1..).zip(text.chars()).map(shown).collect();
        }
        self
    }
}

impl ConfigErrors {
    /// Returns `Ok` if there are no `problems` in configuration files or in flags, and no errors
    /// `elsewhere`, that is, in rule files.
    pub(crate) fn check(
        sources: &SourceFiles<'_>,
        mut problems: Vec<(ProblemSpan, ValueProblem)>,
        elsewhere: Vec<ConfigError>,
    ) -> Result<(), ConfigErrors> {
        let count = problems.len() + elsewhere.len();
        if count == 0 {
            return Ok(());
        }
        problems.sort_by_key(|(at, _)| match at {
            ProblemSpan::Span(span) => span.start,
            ProblemSpan::File | ProblemSpan::Flag(_) => 0,
        });
        let hidden: Vec<_> = problems.iter().filter_map(|(_, it)| it.hidden.clone()).collect();
        let error = |(at, problem)| ConfigError::new(sources.place(at, &hidden), problem);
        let errors = problems.into_iter().map(error).chain(elsewhere).take(CONFIG_ERRORS_MAX);
        Err(ConfigErrors { count, errors: errors.collect() })
    }

    /// Returns the errors that are kept: at most `CONFIG_ERRORS_MAX`.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.errors.iter()
    }

    /// Returns the number of all errors, including those that are not kept.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        ConfigErrors { count: 1, errors: vec![error] }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.errors {
            writeln!(f, "{error}")?;
        }
        match self.count {
            1 => f.write_str("1 error"),
            count if count > self.errors.len() => {
                write!(f, "{count} errors; the first {} are shown", self.errors.len())
            }
            count => write!(f, "{count} errors"),
        }
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceSpan::Text { file, line, column, .. } => write!(f, "{file}:{line}:{column}"),
            SourceSpan::File(name) | SourceSpan::Flag(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.place, self.message)?;
        if let SourceSpan::Text { line, column, text, width, .. } = &self.place {
            write_line(f, *line, text, *column..*column + *width)?;
        }
        if let Some(expected) = &self.expected {
            writeln!(f, "  expected: {expected}")?;
        }
        if let Some(hint) = &self.hint {
            writeln!(f, "  hint: {hint}")?;
        }
        Ok(())
    }
}

/// Writes the line, with carets under the columns at fault. The file may have any content: control
/// characters become spaces, and a very long line is cut.
fn write_line(
    f: &mut fmt::Formatter<'_>,
    number: usize,
    text: &str,
    columns: Range<usize>,
) -> fmt::Result {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = text.chars().take(CONFIG_LINE_CHARS_MAX).map(shown).collect();
    let number = number.to_string();
    writeln!(f, "  {number} | {}", line.trim_end())?;
    if columns.start > CONFIG_LINE_CHARS_MAX {
        return Ok(());
    }
    let width = columns.len().min(CONFIG_LINE_CHARS_MAX + 1 - columns.start).max(1);
    let before = " ".repeat(columns.start - 1);
    writeln!(f, "  {:pad$} | {before}{}", "", "^".repeat(width), pad = number.len())
}

impl std::error::Error for ConfigErrors {}
