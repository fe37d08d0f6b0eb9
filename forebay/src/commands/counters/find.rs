//! Finds the counter file that a command reads.

use std::path::{Path, PathBuf};

use forebay_server::config::RuntimeDir;
use forebay_server::engine::runtime_dir;
use forebay_shm::CounterReader;

use crate::runtime_files::{list_paths, with_extension};

/// Returns the named file. Without a name, returns the file of the only running server or, if no
/// server is running, the only file in the runtime directory.
pub(super) fn find(file: Option<&String>) -> Result<PathBuf, String> {
    match file {
        Some(file) => Ok(PathBuf::from(file)),
        None => only_one(&runtime_dir(&RuntimeDir::Auto)),
    }
}

fn only_one(dir: &Path) -> Result<PathBuf, String> {
    let (mut alive, mut dead) = (Vec::new(), Vec::new());
    for path in with_extension(dir, "counters") {
        match CounterReader::open(&path).is_ok_and(|reader| reader.writer().is_alive()) {
            true => alive.push(path),
            false => dead.push(path),
        }
    }
    match (alive.len(), dead.len()) {
        (1, _) => Ok(alive.remove(0)),
        (0, 1) => Ok(dead.remove(0)),
        (0, 0) => Err(format!(
            "no counter file found in {}; name it with `forebay counters FILE`",
            dir.display()
        )),
        (0, _) => Err(format!(
            "no server is running, and several counter files remain; choose one:\n{}",
            list_paths(&dead)
        )),
        _ => Err(format!(
            "several servers are running; choose the file of one:\n{}",
            list_paths(&alive)
        )),
    }
}
