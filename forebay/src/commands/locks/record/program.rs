//! Finds the program, and checks that a library can be preloaded into it.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::PT_INTERP;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const GROUP_EXECUTABLE: u32 = 0o10;
const EXECUTABLE: u32 = 0o111;

/// The extended attribute that holds the capabilities of a file.
const CAPABILITIES: &str = "security.capability";

/// Finds a program as a shell does.
///
/// # Errors
/// There is no such program.
pub(super) fn find(name: &OsStr) -> Result<PathBuf, String> {
    let is_program = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & EXECUTABLE != 0)
    };
    if Path::new(name).components().count() > 1 {
        return Ok(PathBuf::from(name));
    }
    let dirs = env::var_os("PATH").unwrap_or_default();
    let mut paths = env::split_paths(&dirs).map(|dir| dir.join(name));
    let found = paths.find(|path| is_program(path));
    found.ok_or_else(|| match name.as_encoded_bytes().starts_with(b"-") {
        true => format!("{}: neither an option (see --help) nor a program", name.display()),
        false => format!("{}: no such program in PATH", name.display()),
    })
}

/// Checks that a library can be preloaded into the program at this path.
///
/// # Errors
/// The library cannot be preloaded; the text gives the reason.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let fault = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let mut file = File::open(path).map_err(|error| fault(&error))?;
    let found = file.metadata().map_err(|error| fault(&error))?;
    if !found.is_file() {
        return Err(fault(&"not a program"));
    }
    if has_other_rights(path, &found) {
        return Err(fault(
            &"the program runs with the rights of another user or group, or with capabilities, so \
              the system preloads nothing; run the program as that user",
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| fault(&error))?;
    check_bytes(&bytes).map_err(|what| fault(&what))
}

/// Whether the system runs the program with other rights than this process has. `LD_PRELOAD` is
/// then ignored.
fn has_other_rights(path: &Path, found: &Metadata) -> bool {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mode = found.mode();
    let as_another = mode & SET_USER != 0 && found.uid() != user.as_raw();
    // Without the execute bit of the group, the set-group-id bit has another meaning.
    let in_another = mode & SET_GROUP != 0 && mode & GROUP_EXECUTABLE != 0;
    let in_another = in_another && found.gid() != group.as_raw();
    let has_more = || rustix::fs::getxattr(path, CAPABILITIES, &mut [0_u8; 64]).is_ok();
    as_another || in_another || !user.is_root() && has_more()
}

fn check_bytes(bytes: &[u8]) -> Result<(), &'static str> {
    // A script is accepted, because only the system knows its interpreter.
    if bytes.starts_with(b"#!") {
        return Ok(());
    }
    let Ok(elf) = ElfFile64::<Endianness>::parse(bytes) else {
        return Err("this is not a 64-bit program for this machine");
    };
    let header = elf.elf_header();
    let machine = if cfg!(target_arch = "aarch64") {
        object::elf::EM_AARCH64
    } else {
        object::elf::EM_X86_64
    };
    if header.e_machine(elf.endian()) != machine {
        return Err("this is not a 64-bit program for this machine");
    }
    let headers = elf.elf_program_headers();
    match headers.iter().any(|header| header.p_type(elf.endian()) == PT_INTERP) {
        true => Ok(()),
        false => Err("the program is statically linked, so no library can be preloaded into it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let shell = find(OsStr::new("sh")).expect("every system has a shell");
        assert!(shell.is_absolute() && check(&shell).is_ok(), "{}", shell.display());
        assert_eq!(find(OsStr::new("./a")), Ok(PathBuf::from("./a")));
        assert!(find(OsStr::new("no such program")).is_err());
        let flag = find(OsStr::new("--stack")).unwrap_err();
        assert!(flag.contains("neither an option"), "{flag}");
    }

    #[test]
    fn a_program_that_gets_other_rights_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program");
        std::fs::copy(env::current_exe().expect("a path"), &path).expect("copied");
        let with_mode = |mode: u32| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("ours");
            check(&path)
        };
        // A set-user-id bit with the current user id changes no rights.
        assert_eq!(with_mode(0o4755), Ok(()));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("we are root");
        assert_eq!(with_mode(0o755), Ok(()));
        // Without the execute bit, the set-group-id bit means mandatory locking.
        assert_eq!(with_mode(0o2745), Ok(()));
        for mode in [0o4755, 0o2755] {
            let error = with_mode(mode).unwrap_err();
            assert!(error.contains("rights of another user"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn a_file_that_takes_no_library_is_refused() {
        let us = std::fs::read(env::current_exe().expect("a path")).expect("readable");
        assert_eq!(check_bytes(&us), Ok(()));
        assert_eq!(check_bytes(b"#!/bin/sh\n"), Ok(()));
        // This is a program without the header that names the dynamic linker.
        let mut fixed = us.clone();
        let start = usize::from(us[32]) + usize::from(us[33]) * 256;
        for header in 0..usize::from(us[56]) {
            let at = start + header * usize::from(us[54]);
            if us[at] == 3 {
                fixed[at] = 0;
            }
        }
        assert!(check_bytes(&fixed).unwrap_err().contains("statically"));
        let mut foreign = us;
        foreign[18] = 0xf3;
        assert!(check_bytes(&foreign).unwrap_err().contains("this machine"));
        for bytes in [&b""[..], b"text", &foreign[..100]] {
            assert!(check_bytes(bytes).is_err(), "{} bytes", bytes.len());
        }
    }
}
