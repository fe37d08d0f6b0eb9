//! The notes, and the files beside the configuration.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use crate::{ImportError, ImportedRules, Note};

/// A line of a file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct SourceLine {
    pub(super) file: Rc<str>,
    pub(super) line: u32,
}

impl SourceLine {
    /// The comment of a section that comes from this line.
    pub(super) fn comment(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    pub(super) fn error(&self, column: u32, message: impl Into<String>) -> ImportError {
        let (file, line) = (self.file.to_string(), self.line);
        ImportError { file, line, column, message: message.into() }
    }
}

/// Everything that the translation writes beside the configuration.
pub(super) struct TsSource {
    /// The directory of relative paths.
    pub(super) etc: PathBuf,
    pub(super) drop_access_rules: bool,
    /// Beginning of the names of the files.
    stem: String,
    notes: RefCell<Vec<Note>>,
    files: RefCell<Vec<ImportedRules>>,
}

impl TsSource {
    pub(super) fn new(etc: PathBuf, drop_access_rules: bool, stem: String) -> TsSource {
        let (notes, files) = Default::default();
        TsSource { etc, drop_access_rules, stem, notes, files }
    }

    /// Notes once that a line is not carried over, or not with the same meaning.
    pub(super) fn note(&self, at: &SourceLine, directive: &str, message: impl Into<String>) {
        let note = Note {
            file: at.file.to_string(),
            line: at.line,
            directive: directive.to_owned(),
            message: message.into(),
        };
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Notes that a line may refuse requests and is not carried over. Returns whether its requests
    /// must be refused.
    pub(super) fn refuse(&self, at: &SourceLine, directive: &str, message: &str) -> bool {
        let consequence = match self.drop_access_rules {
            true => "its requests are served (--drop-access-rules)",
            false => "its requests get 403; see docs/access.md, or use --drop-access-rules",
        };
        self.note(at, directive, format!("not carried over: {message}; {consequence}"));
        !self.drop_access_rules
    }

    /// Adds a file of header rules; the same text is written once. Returns its name.
    pub(super) fn rules(&self, topic: &str, text: String) -> String {
        let mut files = self.files.borrow_mut();
        if let Some(known) = files.iter().find(|file| file.text == text) {
            return known.name.clone();
        }
        let number = files.len() + 1;
        let name = format!("{}.{number}-{topic}.rules", self.stem);
        files.push(ImportedRules { name: name.clone(), text });
        name
    }

    /// An absolute path.
    pub(super) fn path(&self, text: &str) -> String {
        let path = self.etc.join(text);
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }

    pub(super) fn finish(self) -> (Vec<Note>, Vec<ImportedRules>) {
        let mut notes = self.notes.into_inner();
        notes.sort();
        (notes, self.files.into_inner())
    }
}
