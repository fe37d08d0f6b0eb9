//! Finds the profiles of one run of a program. Each process has a profile, next to the file that
//! `--out` names.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the existing profiles of a run; the profile of the first process comes first.
pub(super) fn of_run(out: &Path) -> Vec<PathBuf> {
    beside(out, is_of)
}

/// Returns the files in the directory of `out` for which `is_wanted(file name, file name of out)`
/// holds.
pub(super) fn beside(out: &Path, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (out.parent(), out.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let here = Path::new(".");
    let Ok(entries) = fs::read_dir(if dir.as_os_str().is_empty() { here } else { dir }) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|found| is_wanted(found, name)).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// Whether a file belongs to the run: its name is the name of the run, alone or followed by a
/// process id, or by a process id and the number of the process's `exec` calls.
fn is_of(found: &str, name: &str) -> bool {
    let Some(rest) = found.strip_prefix(name) else {
        return false;
    };
    let mut parts = rest.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next() == Some("") && rest.matches('.').count() <= 2 && parts.all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_named_file_and_one_for_each_further_process() {
        for (found, expected) in [
            ("a.locks", true),
            ("a.locks.17", true),
            ("a.locks.17.2", true),
            ("a.locks.17.2.3", false),
            ("a.locks.17.new", false),
            ("a.locks.", false),
            ("a.locks.svg", false),
            ("a.locks2", false),
            ("b.locks", false),
        ] {
            assert_eq!(is_of(found, "a.locks"), expected, "{found}");
        }
    }
}
