//! Files of header rules beside a configuration.

use crate::ImportedRules;

/// Largest number of rule files, which have names with their numbers.
const FILES_MAX: usize = 1000;

/// The rule files of a configuration; equal rules have one file.
#[derive(Clone, Debug)]
pub(crate) struct RuleFiles {
    stem: String,
    files: Vec<ImportedRules>,
}

impl RuleFiles {
    /// Creates an empty list. The names of the files begin with `stem`.
    pub(crate) fn new(stem: Option<&str>) -> RuleFiles {
        RuleFiles { stem: stem.unwrap_or("forebay").to_owned(), files: Vec::new() }
    }

    /// The name of the file with these rules; `None` if there are too many files.
    pub(crate) fn name_of(&mut self, text: String) -> Option<String> {
        if let Some(known) = self.files.iter().find(|file| file.text == text) {
            return Some(known.name.clone());
        }
        if self.files.len() == FILES_MAX {
            return None;
        }
        let name = format!("{}.{}.rules", self.stem, self.files.len() + 1);
        self.files.push(ImportedRules { name: name.clone(), text });
        Some(name)
    }

    pub(crate) fn into_files(self) -> Vec<ImportedRules> {
        self.files
    }
}
