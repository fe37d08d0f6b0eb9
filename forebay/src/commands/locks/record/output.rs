//! The files of a run: one for each process, beside the one that was named.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_shm::{ProfileFile, is_alive};

/// Where the first profile of a run is to be: absolute, for the program may go elsewhere.
///
/// # Errors
/// There is no such directory.
pub(super) fn path(out: Option<&Path>, program: &Path) -> Result<PathBuf, String> {
    let out = match out {
        Some(out) => out.to_owned(),
        None => {
            let mut name = program.file_name().unwrap_or_default().to_owned();
            name.push(".locks");
            PathBuf::from(name)
        }
    };
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", out.display());
    let name = out.file_name().ok_or_else(|| fault(&"this names no file"))?;
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = dir.canonicalize().map_err(|error| fault(&error))?;
    Ok(dir.join(name))
}

/// Removes the profiles of an earlier run: all, or none if there is an error.
///
/// # Errors
/// What is there is no profile, is that of a process that still runs, or can't be removed.
pub(super) fn clear(out: &Path) -> Result<(), String> {
    let files = of_run(out);
    for path in &files {
        let file = ProfileFile::open(path).map_err(|error| error.to_string())?;
        let about = file.about().map_err(|error| format!("{error}; choose another file"))?;
        if is_alive(&about) {
            return Err(format!(
                "{}: process {} still writes it; choose another file",
                path.display(),
                about.pid
            ));
        }
    }
    for path in &files {
        fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    drop_unfinished(out);
    Ok(())
}

/// Removes the profiles of processes that have gone and took no lock while it was on; a later one
/// takes the place of the first.
pub(super) fn drop_empty(out: &Path) {
    drop_unfinished(out);
    for path in of_run(out) {
        let reading = ProfileFile::open(&path).and_then(|file| file.read());
        let is_empty = reading.is_ok_and(|reading| {
            let has_recorded = !reading.control.is_on || reading.counts.threads_started > 0;
            !has_recorded && !is_alive(&reading.about)
        });
        if is_empty {
            // What can't be removed is shown as it is.
            let _ = fs::remove_file(&path);
        }
    }
    if let Some(first) = of_run(out).first().filter(|_| !out.exists()) {
        let _ = fs::rename(first, out);
    }
}

/// Removes what processes that have gone left unfinished: they were killed while they made their
/// profiles.
fn drop_unfinished(out: &Path) {
    for path in beside(out, |found, name| is_gone(maker(found, name))) {
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_file {
            // What can't be removed is in nobody's way.
            let _ = fs::remove_file(&path);
        }
    }
}

/// The profiles that are there, the first process's first.
pub(super) fn of_run(out: &Path) -> Vec<PathBuf> {
    beside(out, is_of)
}

/// Files in the directory of a run that are wanted, by their names and that of the run.
fn beside(out: &Path, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<PathBuf> {
    let (Some(dir), Some(name)) = (out.parent(), out.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|found| is_wanted(found, name)).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// The process that makes a profile of the run in a file of this name, which it then renames.
fn maker(found: &str, name: &str) -> Option<u32> {
    let rest = found.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".new")?;
    let (pid, random) = rest.split_once('.')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = pid.bytes().all(|byte| byte.is_ascii_digit());
    if is_random && is_number { pid.parse().ok() } else { None }
}

/// Is it a process that is there no more?
fn is_gone(pid: Option<u32>) -> bool {
    let has_gone = |pid| matches!(Path::new(&format!("/proc/{pid}")).try_exists(), Ok(false));
    Path::new("/proc/self").exists() && pid.is_some_and(has_gone)
}

/// Is this the name of a run, or that with the number of a process behind it, or with that and the
/// number of its life?
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
    fn a_run_has_the_file_that_was_named_and_one_for_each_further_process() {
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

    #[test]
    fn what_a_process_that_has_gone_left_unfinished_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        // No process has so large a number.
        let (us, gone) = (std::process::id(), u32::MAX - 1);
        let left = format!("a.locks.{gone}.0123456789abcdef.new");
        let stays = [
            format!("a.locks.{us}.0123456789abcdef.new"),
            format!("a.locks.{gone}.0123456789abcde.new"),
            format!("a.locks.{gone}.0123456789abcdeg.new"),
            format!("a.locks.+{gone}.0123456789abcdef.new"),
            format!("a.locks.{gone}.0123456789abcdef.old"),
            format!("b.locks.{gone}.0123456789abcdef.new"),
            "a.locks.new".to_owned(),
        ];
        for name in stays.iter().chain([&left]) {
            fs::write(dir.path().join(name), "").expect("written");
        }
        let link = dir.path().join(format!("a.locks.{gone}.fedcba9876543210.new"));
        std::os::unix::fs::symlink("nowhere", &link).expect("a link");
        clear(&dir.path().join("a.locks")).expect("no profiles");
        assert!(!dir.path().join(left).exists());
        for name in stays {
            assert!(dir.path().join(&name).exists(), "{name}");
        }
        assert!(link.is_symlink());
    }

    #[test]
    fn a_file_is_named_after_its_program() {
        let here = std::env::current_dir().and_then(|dir| dir.canonicalize()).expect("somewhere");
        let program = Path::new("/usr/bin/thing");
        assert_eq!(path(None, program), Ok(here.join("thing.locks")));
        assert_eq!(path(Some(Path::new("x")), program), Ok(here.join("x")));
        assert_eq!(path(Some(Path::new("/tmp/../x")), program), Ok(PathBuf::from("/x")));
        assert!(path(Some(Path::new("/no/such/x")), program).is_err());
        assert!(path(Some(Path::new("/")), program).is_err());
    }
}
