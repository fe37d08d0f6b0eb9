//! Collects the files of the tree that are written by hand.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders without files written by hand. In a worktree `.git` is a file.
const SKIPPED: &[&str] = &["target", ".git", "artifacts", "corpus", "corpora", "out"];

/// Returns the path from the root and the content of every text file, in order.
pub(super) fn texts(root: &Path) -> Vec<(String, String)> {
    let files = files_of(root).into_iter();
    files
        .filter_map(|file| Some((relative(root, &file), fs::read_to_string(&file).ok()?)))
        .collect()
}

fn files_of(root: &Path) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![root.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        let inside = fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in inside.map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match path.is_dir() {
                _ if SKIPPED.contains(&name.as_str()) => {}
                true if path.is_symlink() => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

fn relative(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned()
}
