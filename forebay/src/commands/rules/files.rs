//! Reads the rule files named on a command line.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use forebay_rules::ParsedFile;
use forebay_rules::ast::RuleScope;
use forebay_rules::diagnostic::{DiagnosticDisplay, RuleSpan, Severity};
use forebay_rules::filter::Filters;
use forebay_rules::limits::FILE_BYTES_MAX;

/// A rule file and its findings.
pub(super) struct RuleFile {
    /// The name of the file as given.
    pub(super) name: String,
    pub(super) text: String,
    /// The scope in which the file is valid. If it is valid in none, the scope with the fewest
    /// errors.
    pub(super) scope: RuleScope,
    /// The requested scopes in which the file is valid.
    pub(super) valid: Vec<RuleScope>,
    /// The rules, read for `scope`.
    pub(super) read: ParsedFile,
}

/// Returns the name of a scope on the command line.
pub(super) fn name_of(scope: RuleScope) -> &'static str {
    match scope {
        RuleScope::Server => "server",
        RuleScope::Route => "route",
    }
}

/// Returns the name of a scope in a sentence.
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
    /// Reads a file for this scope or, if none is given, for the scope that fits. Rules may run
    /// these filters.
    ///
    /// # Errors
    /// The file cannot be read; the text is a message for the user.
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
        // The sort is stable, so of two scopes with the same number of errors the first one wins.
        reads.sort_by_key(|(_, (_, read))| count(read, Severity::Error));
        let (scope, (text, read)) = reads.swap_remove(0);
        Ok(RuleFile { name: name.to_owned(), text, scope, valid, read })
    }

    pub(super) fn count(&self, severity: Severity) -> usize {
        count(&self.read, severity)
    }

    /// Iterates over all findings, each with its line and carets.
    pub(super) fn findings(&self) -> impl Iterator<Item = DiagnosticDisplay<'_>> {
        let shown =
            |diagnostic| DiagnosticDisplay { file: &self.name, text: &self.text, diagnostic };
        self.read.diagnostics.iter().map(shown)
    }
}

fn count(read: &ParsedFile, severity: Severity) -> usize {
    read.diagnostics.iter().filter(|finding| finding.severity == severity).count()
}

/// Reads a file as text.
///
/// # Errors
/// The file cannot be read or is not UTF-8. The text is a message that begins with the name of the
/// file.
pub(super) fn text_of(name: &str) -> Result<String, String> {
    let bytes = bytes_of(Path::new(name)).map_err(|error| format!("{name}: {error}"))?;
    forebay_rules::decode(bytes).map_err(|(_, problem)| {
        let RuleSpan { line, column, .. } = problem.at;
        format!("{name}:{line}:{column}: {}", problem.message)
    })
}

/// Reads a file, up to one byte more than the limit. The surplus byte shows that the file is too
/// large.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
