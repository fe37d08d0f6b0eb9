//! Files and the files that they include.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::syntax::{DEPTH_MAX, NginxDirective, parse};
use crate::ImportError;

/// Largest number of bytes of all files.
const BYTES_MAX: usize = 8 << 20;
/// Largest number of files.
const FILES_MAX: usize = 1000;

/// Files of nginx's packages without a meaning for a proxy; they may be missing.
const HARMLESS: &[&str] =
    &["mime.types", "fastcgi_params", "fastcgi.conf", "scgi_params", "uwsgi_params"];

/// Reads files, each at most once for each `include`.
pub(super) struct IncludedFiles {
    pub(super) prefix: PathBuf,
    bytes: usize,
    files: usize,
}

impl IncludedFiles {
    pub(super) fn new(prefix: PathBuf) -> IncludedFiles {
        IncludedFiles { prefix, bytes: 0, files: 0 }
    }

    /// The directives of a file, with those of the files that it includes in their places.
    pub(super) fn read(
        &mut self,
        path: &Path,
        depth: usize,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        let shown = path.display().to_string();
        let failed =
            |message: String| ImportError { file: shown.clone(), line: 0, column: 0, message };
        self.files += 1;
        let length = fs::metadata(path)
            .and_then(|found| match found.is_file() {
                true => Ok(found.len()),
                false => Err(std::io::Error::other("not a file")),
            })
            .map_err(|error| failed(error.to_string()))?;
        self.bytes = self.bytes.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        if self.files > FILES_MAX || self.bytes > BYTES_MAX {
            return Err(failed(format!(
                "the configuration has more than {FILES_MAX} files or 8 MiB"
            )));
        }
        let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let directives = parse(&String::from_utf8_lossy(&bytes), &shown)?;
        self.expand(directives, depth)
    }

    fn expand(
        &mut self,
        directives: Vec<NginxDirective>,
        depth: usize,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        let mut all = Vec::new();
        for mut directive in directives {
            if directive.name == "include" && directive.block.is_none() {
                all.extend(self.include(&directive, depth)?);
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand(block, depth)?);
            }
            all.push(directive);
        }
        Ok(all)
    }

    fn include(
        &mut self,
        directive: &NginxDirective,
        depth: usize,
    ) -> Result<Vec<NginxDirective>, ImportError> {
        let failed = |message: String| ImportError {
            file: directive.file.to_string(),
            line: directive.line,
            column: 1,
            message,
        };
        let [pattern] = directive.args.as_slice() else {
            return Err(failed("include needs one file".to_owned()));
        };
        if depth >= DEPTH_MAX {
            return Err(failed("files include one another too deeply".to_owned()));
        }
        if pattern.contains('[') {
            let hint = "name the files, or use * and ?";
            return Err(failed(format!("{pattern}: patterns with [ are not supported; {hint}")));
        }
        let pattern = self.prefix.join(pattern);
        let is_pattern = pattern.to_string_lossy().contains(['*', '?']);
        let mut all = Vec::new();
        let unread = |error: io::Error| failed(format!("{}: {error}", pattern.display()));
        for path in expand_pattern(&pattern).map_err(unread)? {
            all.extend(self.read(&path, depth + 1)?);
        }
        let name = pattern.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_pattern && !pattern.exists() && !HARMLESS.contains(&name.as_str()) {
            let hint = "give the directory of nginx.conf as --prefix";
            return Err(failed(format!("{}: no such file; {hint}", pattern.display())));
        }
        Ok(all)
    }
}

/// The files whose paths match, in the order of their names.
///
/// # Errors
/// A directory cannot be read, so a file that restricts access might be missed.
fn expand_pattern(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy().into_owned();
        let wild = matches!(component, Component::Normal(_)) && text.contains(['*', '?']);
        let mut next = Vec::new();
        for path in found {
            if !wild {
                next.push(path.join(component.as_os_str()));
                continue;
            }
            let folder = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
            let entries = match fs::read_dir(folder) {
                Err(error) if is_absence(&error) => continue,
                entries => entries?,
            };
            let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
            let mut names = names.collect::<io::Result<Vec<_>>>()?;
            names.sort();
            let matching = names.iter().filter(|name| matches(&text, &name.to_string_lossy()));
            next.extend(matching.map(|name| path.join(name)));
        }
        next.truncate(FILES_MAX + 1);
        found = next;
    }
    let mut existing = Vec::new();
    for path in found {
        if path.try_exists()? {
            existing.push(path);
        }
    }
    Ok(existing)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a file's name matches a pattern with `*` and `?`. A leading dot needs a dot.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') != pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, from)) = back else { return false };
                back = Some((star, from + 1));
                p = star + 1;
                n = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
