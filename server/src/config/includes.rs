//! The setting `include`: finds, reads and parses the files that a configuration includes.
//!
//! The order of files is that of the text: a file is followed by the files that it includes, and
//! the files of a pattern are sorted by name. No file is included twice, so there are no cycles.

use std::cell::OnceCell;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigErrors, ProblemSpan, SourceSpan};
use super::file::read_text;
use super::references::{ReferenceResolver, ResolvedReference};
use super::setting::ValueProblem;
use super::source::{SourceFiles, moved};
use super::syntax;
use super::table::INCLUDE;
use super::watched::WatchedFile;
use crate::limits::CONFIG_BYTES_MAX;

/// Files that a configuration may include: a file for each site of a busy hosting machine.
const INCLUDE_FILES_MAX: usize = 1024;

/// Levels of included files. A configuration that needs more is hard to follow.
const INCLUDE_DEPTH_MAX: usize = 8;

/// Owns the names and the texts of included files. The parsed files borrow from it.
pub(super) struct IncludedTexts(Vec<OnceCell<(String, String)>>);

/// The parsed files of a configuration, and the problems that were found while they were read.
pub(super) struct Documents<'a> {
    pub(super) sources: SourceFiles<'a>,
    /// The content of each file.
    pub(super) tables: Vec<DeTable<'a>>,
    /// The values that environment variables and files have.
    pub(super) substitutions: Vec<ResolvedReference>,
    pub(super) problems: Vec<(ProblemSpan, ValueProblem)>,
    /// Errors in files that are no text.
    pub(super) elsewhere: Vec<ConfigError>,
    /// The files and patterns that were read, except for the first file.
    pub(super) watched: Vec<WatchedFile>,
    /// The identity of each file, and where it is included.
    opened: Vec<OpenedFile>,
}

struct OpenedFile {
    /// The path without symbolic links; `None` if the file has no path.
    real_path: Option<PathBuf>,
    /// The index of the file that includes this one, and the span of the element that names it.
    included_by: Option<(usize, Range<usize>)>,
}

/// A file to be included.
struct IncludeRequest {
    path: PathBuf,
    by: usize,
    at: Range<usize>,
    is_from_pattern: bool,
}

impl IncludedTexts {
    pub(super) fn new() -> IncludedTexts {
        IncludedTexts((0..INCLUDE_FILES_MAX).map(|_| OnceCell::new()).collect())
    }
}

impl<'a> Documents<'a> {
    /// Parses the file with this name and text, and the files that it includes.
    pub(super) fn open(name: &'a str, text: &'a str, texts: &'a IncludedTexts) -> Documents<'a> {
        let mut documents = Documents {
            sources: SourceFiles::new(name, text),
            tables: Vec::new(),
            substitutions: Vec::new(),
            problems: Vec::new(),
            elsewhere: Vec::new(),
            watched: Vec::new(),
            opened: Vec::new(),
        };
        let real_path = Path::new(name).canonicalize().ok();
        documents.opened.push(OpenedFile { real_path, included_by: None });
        let mut pending = documents.parse(text, 0);
        let mut free = texts.0.iter();
        while let Some(file) = pending.pop() {
            let Some(real_path) = documents.check(&file) else { continue };
            let Some(read) = documents.read(&file) else { continue };
            let Some(slot) = free.next() else {
                let many =
                    format!("the configuration includes more than {INCLUDE_FILES_MAX} files");
                documents.problem(file.at, ValueProblem::new(many));
                break;
            };
            let (name, text) = slot.get_or_init(|| read);
            let first = documents.sources.add(name, text);
            let included_by = Some((file.by, file.at));
            documents.opened.push(OpenedFile { real_path: Some(real_path), included_by });
            pending.extend(documents.parse(text, first));
        }
        documents
    }

    fn problem(&mut self, at: Range<usize>, problem: ValueProblem) {
        self.problems.push((ProblemSpan::Span(at), problem));
    }

    /// Parses the newest file, whose first byte has the offset `first`. Returns the files that it
    /// includes, the last one first.
    fn parse(&mut self, text: &'a str, first: usize) -> Vec<IncludeRequest> {
        let (document, syntax_errors) = DeTable::parse_recoverable(text);
        let is_broken = !syntax_errors.is_empty();
        let errors = syntax::problems(text, &syntax_errors).into_iter();
        let errors = errors.map(|(span, problem)| {
            (ProblemSpan::Span(span.start + first..span.end + first), problem)
        });
        self.problems.extend(errors);
        let mut table = moved(document.into_inner(), first);
        let include = table.remove(INCLUDE.name);
        if !is_broken {
            let Documents { sources, substitutions, problems, watched, .. } = &mut *self;
            ReferenceResolver { sources, substitutions, problems, watched }.resolve(&mut table);
        }
        self.tables.push(table);
        // After a syntax error the parser guesses the rest of the file.
        let Some(include) = include.filter(|_| !is_broken) else { return Vec::new() };
        let mut pending = Vec::new();
        let DeValue::Array(elements) = include.get_ref() else {
            let problem = INCLUDE.problem("is not an array");
            let problem = match include.get_ref() {
                DeValue::String(text) => problem.hint(format!("write [{:?}]", &**text)),
                _ => problem,
            };
            self.problem(include.span(), problem);
            return pending;
        };
        for element in elements.iter() {
            match element.get_ref() {
                DeValue::String(text) if !text.is_empty() => {
                    self.find(text, element.span(), &mut pending);
                }
                DeValue::String(_) => {
                    self.problem(element.span(), INCLUDE.problem("contains an empty file name"));
                }
                _ => {
                    self.problem(element.span(), INCLUDE.problem("has an element that is not text"))
                }
            }
        }
        pending.reverse();
        pending
    }

    /// Adds the files that `text` names: one file, or all files of a directory whose names match a
    /// pattern.
    fn find(&mut self, text: &str, at: Range<usize>, pending: &mut Vec<IncludeRequest>) {
        let by = self.opened.len() - 1;
        let path = self.sources.dir(at.start).join(text);
        let is_pattern = |text: &str| text.contains(['*', '?']);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !is_pattern(text) {
            let is_from_pattern = false;
            return pending.push(IncludeRequest { path, by, at, is_from_pattern });
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        if !is_pattern(&name) || text.matches(['*', '?']).count() > name.matches(['*', '?']).count()
        {
            let problem = INCLUDE.problem(format_args!("cannot contain {text:?}"));
            let hint = "write * and ? only in the name of the file, not in that of a directory";
            return self.problem(at, problem.hint(hint));
        }
        match matching_files(dir, &name) {
            Ok(paths) => {
                self.watched.push(WatchedFile::of_pattern(dir, &name, &paths));
                pending.extend(paths.into_iter().map(|path| IncludeRequest {
                    path,
                    by,
                    at: at.clone(),
                    is_from_pattern: true,
                }));
            }
            Err(error) => {
                let shown = dir.display();
                let problem =
                    ValueProblem::new(format!("cannot read the directory {shown}: {error}"));
                let hint = "correct the path, which is relative to the directory of this file; \
                            if there are no files yet, create the directory";
                self.problem(at, problem.hint(hint));
            }
        }
    }

    /// Returns the path of a file without symbolic links; `None`, with a problem, if the file
    /// cannot be found or is already part of the configuration.
    fn check(&mut self, file: &IncludeRequest) -> Option<PathBuf> {
        let shown = file.path.display();
        let real_path = match file.path.canonicalize() {
            Ok(real_path) => real_path,
            Err(error) => {
                let problem = ValueProblem::new(format!("cannot read {shown}: {error}"));
                let hint = "a path is relative to the directory of the file that includes it";
                self.problem(file.at.clone(), problem.hint(hint));
                return None;
            }
        };
        let is_same = |opened: &OpenedFile| opened.real_path.as_ref() == Some(&real_path);
        let chain = self.ancestors(file.by);
        if let Some(known) = self.opened.iter().position(is_same) {
            let problem = match (&self.opened[known].included_by, chain.contains(&known)) {
                (_, true) if file.is_from_pattern => {
                    let text = format!("the pattern matches {shown}, which includes this file");
                    let text = match known == file.by {
                        true => format!("the pattern matches {shown}, the file that has it"),
                        false => text,
                    };
                    ValueProblem::new(text)
                        .hint("put the included files into a directory of their own")
                }
                (_, true) => ValueProblem::new(format!("{shown} includes itself"))
                    .hint("leave it out here, or where it includes this file"),
                (Some((_, at)), false) => {
                    let first = self.sources.position(at.start);
                    ValueProblem::new(format!("{shown} is included twice"))
                        .hint(format!("the first include is at {first}"))
                }
                (None, false) => ValueProblem::new(format!("{shown} is included twice")),
            };
            self.problem(file.at.clone(), problem);
            return None;
        }
        if chain.len() > INCLUDE_DEPTH_MAX {
            let deep = format!("files are included more than {INCLUDE_DEPTH_MAX} levels deep");
            let hint = "include the file from the first file instead";
            self.problem(file.at.clone(), ValueProblem::new(deep).hint(hint));
            return None;
        }
        Some(real_path)
    }

    /// Returns the indexes of a file and of the files through which it is included.
    fn ancestors(&self, file: usize) -> Vec<usize> {
        let above = |file: &usize| self.opened[*file].included_by.as_ref().map(|(by, _)| *by);
        std::iter::successors(Some(file), above).collect()
    }

    /// Returns the name and the text of a file.
    fn read(&mut self, file: &IncludeRequest) -> Option<(String, String)> {
        let name = file.path.display().to_string();
        // Opening a pipe would block until the pipe has a writer.
        if !file.path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let problem =
                ValueProblem::new(format!("cannot read {name}: it is not a regular file"));
            let hint = "for all files of a directory, write a pattern, such as \"conf.d/*.toml\"";
            self.problem(file.at.clone(), problem.hint(hint));
            return None;
        }
        let text = match read_text(&file.path) {
            Ok((text, stamp)) => {
                self.watched.push(WatchedFile::new(&file.path, stamp));
                text
            }
            Err(errors) => {
                self.unreadable(file, &errors);
                return None;
            }
        };
        if self.sources.bytes() + text.len() > CONFIG_BYTES_MAX {
            let large = format!("the files are larger than {CONFIG_BYTES_MAX} bytes together");
            self.problem(file.at.clone(), ValueProblem::new(large));
            return None;
        }
        Some((name, text))
    }

    /// Reports a file that cannot be read where it is included, and one that is no text at the byte
    /// that is none.
    fn unreadable(&mut self, file: &IncludeRequest, errors: &ConfigErrors) {
        for error in errors.iter() {
            match error.place {
                SourceSpan::Text { .. } => self.elsewhere.push(error.clone()),
                _ => {
                    let text = format!("{}: {}", file.path.display(), error.message);
                    self.problem(file.at.clone(), ValueProblem::new(text));
                }
            }
        }
    }
}

/// Returns the regular files of a directory whose names match a pattern, sorted by name. A pattern
/// matches a name that begins with a dot only if it begins with a dot itself.
pub(super) fn matching_files(dir: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let listed = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let mut names = Vec::new();
    for entry in listed.read_dir()? {
        let name = entry?.file_name();
        let shown = name.to_string_lossy();
        let is_hidden = shown.starts_with('.') && !pattern.starts_with('.');
        if is_hidden || !matches(pattern.as_bytes(), shown.as_bytes()) {
            continue;
        }
        // A file that cannot be examined is not left out: reading it reports the error.
        if dir.join(&name).metadata().map_or(true, |metadata| metadata.is_file()) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// Whether a pattern matches a name: `*` stands for any bytes, `?` for one byte.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The position behind the last `*`, and the number of bytes of the name that everything up to
    // this `*` stands for.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, in_name));
            }
            (Some(byte), _) if *byte == b'?' || name.get(in_name) == Some(byte) => {
                at += 1;
                in_name += 1;
            }
            (_, Some((behind, taken))) => {
                star = Some((behind, taken + 1));
                at = behind;
                in_name = taken + 1;
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_names() {
        let cases = [
            ("*.toml", "a.toml", true),
            ("*.toml", "a.toml.bak", false),
            ("*.toml", ".toml", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("?.toml", "a.toml", true),
            ("?.toml", "ab.toml", false),
            ("a", "ab", false),
            ("ab", "a", false),
            ("**a", "bca", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }
}
