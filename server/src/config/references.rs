//! Values that stand elsewhere: `{ env = "NAME" }` in an environment variable, and
//! `{ file = "PATH" }` in a file.
//!
//! Such a value may be a secret, so errors do not show it: see [`ResolvedReference::hide`].

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::certificate_files::FileStamp;
use super::error::ProblemSpan;
use super::setting::ValueProblem;
use super::source::SourceFiles;
use super::watched::WatchedFile;

/// Largest value in a file: longer than any key or token, and short enough for an accident, such as
/// the path of a log, to be noticed.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// A value that was taken from elsewhere.
#[derive(Debug)]
pub(super) struct ResolvedReference {
    /// The position of the reference.
    pub(super) span: Range<usize>,
    /// The variable or the file, for a message.
    shown: String,
}

impl ResolvedReference {
    /// Returns a problem with the value, without parts of the value.
    pub(super) fn hide(&self, problem: ValueProblem) -> ValueProblem {
        let message = format!("the content of {} is not valid here", self.shown);
        let is_unquoted = problem.hint.is_some_and(|hint| hint.contains("without quotes"));
        let hint = match is_unquoted {
            true => "a number, true or false must stand in the configuration itself",
            false => "the value is not shown, because it may be a secret",
        };
        ValueProblem { message, hint: Some(hint.to_owned()), ..problem }
    }
}

/// Replaces each reference in the table by the text to which it leads.
pub(super) struct ReferenceResolver<'a, 'b> {
    pub(super) sources: &'b SourceFiles<'a>,
    pub(super) substitutions: &'b mut Vec<ResolvedReference>,
    pub(super) problems: &'b mut Vec<(ProblemSpan, ValueProblem)>,
    pub(super) watched: &'b mut Vec<WatchedFile>,
}

impl ReferenceResolver<'_, '_> {
    /// Replaces the references in a table. The parser limits the depth of tables, and so that of
    /// the recursion.
    pub(super) fn resolve(&mut self, table: &mut DeTable<'_>) {
        table.iter_mut().for_each(|(_, value)| self.resolve_value(value));
    }

    fn resolve_value(&mut self, value: &mut Spanned<DeValue<'_>>) {
        let span = value.span();
        match value.get_mut() {
            DeValue::Array(array) => {
                array.iter_mut().for_each(|element| self.resolve_value(element));
            }
            DeValue::Table(table) => {
                // A section, such as a [[site]] with only one key, is no reference.
                let is_inline = self.sources.text(&span).starts_with('{');
                let reference = if is_inline { reference(table) } else { None };
                let Some((kind, target)) = reference else { return self.resolve(table) };
                let at = target.span();
                match self.read(kind, target.get_ref(), &span) {
                    Ok((text, substitution)) => {
                        self.substitutions.push(substitution);
                        *value.get_mut() = DeValue::String(Cow::Owned(text));
                    }
                    Err(problem) => self.problems.push((ProblemSpan::Span(at), problem)),
                }
            }
            _ => {}
        }
    }

    /// Returns the text to which a reference leads.
    fn read(
        &mut self,
        kind: ReferenceKind,
        target: &DeValue<'_>,
        span: &Range<usize>,
    ) -> Result<(String, ResolvedReference), ValueProblem> {
        let DeValue::String(target) = target else {
            return Err(match kind {
                ReferenceKind::Variable => ValueProblem::new("`env` is not text")
                    .hint("write the name of an environment variable, as in { env = \"NAME\" }"),
                ReferenceKind::File => ValueProblem::new("`file` is not text")
                    .hint("write the path of a file, as in { file = \"/run/secrets/NAME\" }"),
            });
        };
        match kind {
            ReferenceKind::Variable => {
                let text = variable(target)?;
                let shown = format!("the environment variable `{target}`");
                Ok((text, ResolvedReference { span: span.clone(), shown }))
            }
            ReferenceKind::File => {
                let path = self.sources.dir(span.start).join(&**target);
                let (text, stamp) = content(&path)?;
                self.watched.push(WatchedFile::new(&path, stamp));
                let shown = path.display().to_string();
                Ok((text, ResolvedReference { span: span.clone(), shown }))
            }
        }
    }
}

/// The place to which a reference leads.
#[derive(Clone, Copy)]
enum ReferenceKind {
    Variable,
    File,
}

/// Returns the kind and the target of a reference; `None` if the table is another one.
fn reference<'t, 'i>(table: &'t DeTable<'i>) -> Option<(ReferenceKind, &'t Spanned<DeValue<'i>>)> {
    let mut entries = table.iter();
    let (key, target) = entries.next()?;
    let kind = match &**key.get_ref() {
        "env" => ReferenceKind::Variable,
        "file" => ReferenceKind::File,
        _ => return None,
    };
    entries.next().is_none().then_some((kind, target))
}

fn variable(name: &str) -> Result<String, ValueProblem> {
    if name.is_empty() || name.contains(['=', '\0']) {
        let text = format!("{name:?} is not the name of an environment variable");
        return Err(ValueProblem::new(text));
    }
    let problem =
        |what: &str| ValueProblem::new(format!("the environment variable `{name}` {what}"));
    let hint = "set it where the server is started (for systemd: Environment= or \
                EnvironmentFile=), and in front of this command too; a running server keeps the \
                variables with which it was started";
    match std::env::var(name) {
        Ok(text) if text.is_empty() => Err(problem("is empty").hint(hint)),
        Ok(text) => Ok(text),
        Err(std::env::VarError::NotPresent) => Err(problem("is not set").hint(hint)),
        Err(std::env::VarError::NotUnicode(_)) => Err(problem("is not UTF-8")),
    }
}

/// Returns the content of a file, without the line end that editors put at the end, and the file's
/// state before it was read.
fn content(path: &Path) -> Result<(String, FileStamp), ValueProblem> {
    let shown = path.display();
    let failed = |error| {
        ValueProblem::new(format!("cannot read {shown}: {error}"))
            .hint("a path is relative to the directory of the configuration file that has it")
    };
    // Opening a pipe would block until the pipe has a writer.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(ValueProblem::new(format!("cannot read {shown}: it is not a regular file"))
            .hint("name a file that has the value"));
    }
    let mut bytes = Vec::new();
    let limit = VALUE_BYTES_MAX as u64 + 1;
    let file = File::open(path).map_err(failed)?;
    let stamp = FileStamp::of(&file.metadata().map_err(failed)?);
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > VALUE_BYTES_MAX {
        let text = format!("{shown} is larger than {VALUE_BYTES_MAX} bytes");
        return Err(ValueProblem::new(text));
    }
    let text = String::from_utf8(bytes);
    let mut text = text.map_err(|_| ValueProblem::new(format!("{shown} is not UTF-8")))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    match text.is_empty() {
        true => Err(ValueProblem::new(format!("{shown} is empty"))
            .hint("write the value into the file, on one line")),
        false => Ok((text, stamp)),
    }
}
