//! Prepares the files of a run's profiles, and tidies them up. Each process has a profile, next to
//! the file that `--out` names.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use forebay_shm::{ProfileFile, is_alive};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::commands::locks::files::{beside, of_run};

const PAGE_BYTES: u64 = 4096;

/// Size in bytes of the profile of a process with one thread.
const ROOM_BYTES: u64 = 1_250_000;

/// Returns the path of the first profile. It is absolute, because the program may change its
/// working directory.
///
/// # Errors
/// The directory does not exist, or `out` does not end in a file name.
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
    let name = out.file_name().ok_or_else(|| fault(&"this is not a file name"))?;
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = dir.canonicalize().map_err(|error| fault(&error))?;
    Ok(dir.join(name))
}

/// Removes the profiles of an earlier run. If one of them must not be removed, no profile is
/// removed.
///
/// # Errors
/// A file is not a profile, is still in use, or cannot be removed.
pub(super) fn clear(out: &Path) -> Result<(), String> {
    let files = of_run(out);
    for path in &files {
        let file = ProfileFile::open(path).map_err(|error| error.to_string())?;
        let about =
            file.about().map_err(|error| format!("{error}; choose another file with --out"))?;
        if is_alive(&about) {
            return Err(format!(
                "{}: process {} is still writing this profile; choose another file with --out",
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

/// Checks that a profile can be created, by creating a file with the size for one thread.
///
/// # Errors
/// The directory is not writable, or its disk is full.
pub(super) fn check(out: &Path) -> Result<(), String> {
    let mut name = out.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let path = PathBuf::from(name);
    let fault = |what: &dyn std::fmt::Display| format!("{}: {what}", out.display());
    let file = File::create_new(&path);
    let file = file.map_err(|error| fault(&format!("cannot create the profile: {error}")))?;
    let room = fallocate(&file, FallocateFlags::empty(), 0, room_bytes());
    // The name contains the id of this process, so the file is its own.
    let _ = fs::remove_file(&path);
    match room {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(fault(&format!(
            "no room for a profile, which takes 0.9 MB plus 0.35 MB per thread: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Returns the size of the smallest profile. If the environment sets the capacity, that size is
/// unknown, and the size of a page is returned.
fn room_bytes() -> u64 {
    let chosen = ["LOCKPROF_SITES", "LOCKPROF_ROWS", "LOCKPROF_PAIRS"];
    let is_chosen = chosen.iter().any(|name| std::env::var_os(name).is_some());
    if is_chosen { PAGE_BYTES } else { ROOM_BYTES }
}

/// Removes the profiles of exited processes that took no lock while recording was on. If the first
/// profile is removed, the next profile gets its name.
pub(super) fn drop_empty(out: &Path) {
    drop_unfinished(out);
    for path in of_run(out) {
        let reading = ProfileFile::open(&path).and_then(|file| file.read());
        let is_empty = reading.is_ok_and(|reading| {
            let has_recorded = !reading.control.is_on || reading.counts.threads_started > 0;
            !has_recorded && !is_alive(&reading.about)
        });
        if is_empty {
            // A file that cannot be removed is reported like the others.
            let _ = fs::remove_file(&path);
        }
    }
    if let Some(first) = of_run(out).first().filter(|_| !out.exists()) {
        let _ = fs::rename(first, out);
    }
}

/// Removes the unfinished profiles of processes that were killed while creating them.
fn drop_unfinished(out: &Path) {
    for path in beside(out, |found, name| is_gone(maker(found, name))) {
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_file {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns the process that creates a profile in a temporary file of this name; `None` if no such
/// file has this name.
fn maker(found: &str, name: &str) -> Option<u32> {
    let rest = found.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".new")?;
    let (pid, random) = rest.split_once('.')?;
    let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = pid.bytes().all(|byte| byte.is_ascii_digit());
    if is_random && is_number { pid.parse().ok() } else { None }
}

/// Whether `pid` is the id of a process that has exited.
fn is_gone(pid: Option<u32>) -> bool {
    let has_gone = |pid| matches!(Path::new(&format!("/proc/{pid}")).try_exists(), Ok(false));
    Path::new("/proc/self").exists() && pid.is_some_and(has_gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unfinished_profiles_of_exited_processes_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        // No process id is this large.
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
