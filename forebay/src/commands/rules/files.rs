//! Rule files as they are named on a command line.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use forebay_rules::ParsedFile;
use forebay_rules::ast::RuleScope;
use forebay_rules::diagnostic::{DiagnosticDisplay, RuleSpan, Severity};
use forebay_rules::filter::Filters;
use forebay_rules::limits::FILE_BYTES_MAX;

/// A rule file that was read.
pub(super) struct RuleFile {
    /// As it was named.
    pub(super) name: String,
    pub(super) text: String,
    /// Where it is right; if nowhere, where it comes nearest to it.
    pub(super) scope: RuleScope,
    /// Every scope that was asked for and in which it is right.
    pub(super) valid: Vec<RuleScope>,
    /// As rules of that scope.
    pub(super) read: ParsedFile,
}

/// How a scope is called on the command line.
pub(super) fn name_of(scope: RuleScope) -> &'static str {
    match scope {
        RuleScope::Server => "server",
        RuleScope::Route => "route",
    }
}

/// The same in a sentence.
pub(super) fn whose(scope: RuleScope) -> &'static str {
    match scope {
        RuleScope::Server => "rules of the server",
        RuleScope::Route => "rules of a site or a route",
    }
}

pub(super) fn scope_named(word: &str) -> Option<RuleScope> {
    [RuleScope::Server, RuleScope::Route].into_iter().find(|scope| name_of(*scope) == word)
}

impl RuleFile {
    /// Reads a file as rules of this scope, or of the one that fits; they may run these filters.
    ///
    /// # Errors
    /// A sentence: it cannot be read.
    pub(super) fn open(
        name: &str,
        scope: Option<RuleScope>,
        filters: &Filters,
    ) -> Result<RuleFile, String> {
        let bytes = bytes_of(Path::new(name)).map_err(|error| format!("{name}: {error}"))?;
        let scopes = scope.map_or(vec![RuleScope::Route, RuleScope::Server], |scope| vec![scope]);
        let mut reads: Vec<_> = scopes
            .into_iter()
            .map(|scope| (scope, forebay_rules::read_bytes(name, bytes.clone(), scope, filters)))
            .collect();
        let usable = reads.iter().filter(|(_, (_, read))| read.is_usable());
        let valid = usable.map(|(scope, _)| *scope).collect();
        // Of two with as many errors the first stays in front.
        reads.sort_by_key(|(_, (_, read))| count(read, Severity::Error));
        let (scope, (text, read)) = reads.swap_remove(0);
        Ok(RuleFile { name: name.to_owned(), text, scope, valid, read })
    }

    pub(super) fn count(&self, severity: Severity) -> usize {
        count(&self.read, severity)
    }

    /// Every finding, with its line and a caret.
    pub(super) fn findings(&self) -> impl Iterator<Item = DiagnosticDisplay<'_>> {
        let shown =
            |diagnostic| DiagnosticDisplay { file: &self.name, text: &self.text, diagnostic };
        self.read.diagnostics.iter().map(shown)
    }
}

fn count(read: &ParsedFile, severity: Severity) -> usize {
    read.diagnostics.iter().filter(|finding| finding.severity == severity).count()
}

/// The text of any file.
///
/// # Errors
/// A sentence with the file's name: it cannot be read, or is no text.
pub(super) fn text_of(name: &str) -> Result<String, String> {
    let bytes = bytes_of(Path::new(name)).map_err(|error| format!("{name}: {error}"))?;
    forebay_rules::decode(bytes).map_err(|(_, problem)| {
        let RuleSpan { line, column, .. } = problem.at;
        format!("{name}:{line}:{column}: {}", problem.message)
    })
}

/// No more is read than what tells that a file is too large.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
