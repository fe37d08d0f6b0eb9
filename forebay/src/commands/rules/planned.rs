//! A program that is planned from rule files, and the texts of these files.

use forebay_rules::ast::RuleScope;
use forebay_rules::diagnostic::Severity;
use forebay_rules::filter::Filters;
use forebay_rules::plan::Program;

use super::files::RuleFile;
use super::message::shown;

/// A program and the rule files from which it is planned.
pub(super) struct PlannedRules {
    pub(super) program: Program,
    pub(super) files: Vec<RuleFile>,
}

impl PlannedRules {
    /// Reads rule files and plans them as one program. Files with rules of the server come first;
    /// otherwise the order is kept.
    ///
    /// # Errors
    /// A file cannot be read or is invalid; the text is a message for the user.
    pub(super) fn open(
        names: &[(String, Option<RuleScope>)],
        filters: &Filters,
    ) -> Result<PlannedRules, String> {
        let mut files = Vec::new();
        for (name, scope) in names {
            let file = RuleFile::open(name, *scope, filters)?;
            if !file.read.is_usable() {
                return Err(errors_of(&file));
            }
            files.push(file);
        }
        files.sort_by_key(|file| file.scope == RuleScope::Route);
        let lists: Vec<_> = files.iter().map(|file| &file.read.rules).collect();
        Ok(PlannedRules { program: Program::plan(&lists), files })
    }

    /// Returns a line of one of the files, as text for a terminal.
    pub(super) fn line(&self, file: &str, number: u32) -> String {
        let file = self.files.iter().find(|known| known.name == file);
        let line = file.and_then(|file| file.text.lines().nth(number.saturating_sub(1) as usize));
        let line = line.unwrap_or_default().trim_end().replace('\t', "  ");
        shown(line.as_bytes())
    }

    /// Returns the file and the line of a rule.
    pub(super) fn place(&self, rule: u32) -> (&str, u32) {
        let info = self.program.rules().get(rule as usize);
        info.map_or(("", 0), |info| (&*info.file, info.at.line))
    }
}

fn errors_of(file: &RuleFile) -> String {
    let errors = file.findings().filter(|it| it.diagnostic.severity == Severity::Error);
    let errors: String = errors.map(|error| format!("\n{error}")).collect();
    format!("{}: invalid rules:\n{}", file.name, errors.trim_end())
}
