//! Finds files in the runtime directory of servers, and lists them in messages.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Returns the files with this extension, ordered by name.
pub(crate) fn with_extension(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    found.sort();
    found
}

/// Returns a list from which the user can choose, one entry per line.
pub(crate) fn list(entries: &[impl Display]) -> String {
    let lines: Vec<_> = entries.iter().map(|entry| format!("  {entry}")).collect();
    lines.join("\n")
}

/// Returns a list of paths from which the user can choose, one per line.
pub(crate) fn list_paths(paths: &[PathBuf]) -> String {
    list(&paths.iter().map(|path| path.display()).collect::<Vec<_>>())
}
