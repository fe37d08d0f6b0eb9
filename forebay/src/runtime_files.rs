//! What servers keep in their runtime directory, as commands look for it.

use std::path::{Path, PathBuf};

/// The files with this extension, in the order of their names.
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

/// Paths for the user to choose from, a line each.
pub(crate) fn list(paths: &[PathBuf]) -> String {
    let lines: Vec<_> = paths.iter().map(|path| format!("  {}", path.display())).collect();
    lines.join("\n")
}
