//! The program that is to be run: where it is, and whether a library can be preloaded into it.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::PT_INTERP;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};

const SET_USER_OR_GROUP: u32 = 0o6000;
const EXECUTABLE: u32 = 0o111;

/// The program of this name, as a shell finds it.
///
/// # Errors
/// There is none.
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
    found.ok_or_else(|| format!("{}: no such program", name.display()))
}

/// Looks whether a library can be preloaded.
///
/// # Errors
/// A sentence that says why not.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let fault = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let mut file = File::open(path).map_err(|error| fault(&error))?;
    let found = file.metadata().map_err(|error| fault(&error))?;
    if !found.is_file() {
        return Err(fault(&"this is no program"));
    }
    let us = rustix::process::geteuid();
    if found.mode() & SET_USER_OR_GROUP != 0 && !us.is_root() {
        return Err(fault(
            &"it runs with the rights of another user or group, so the system preloads nothing; \
              run it as that user",
        ));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| fault(&error))?;
    check_bytes(&bytes).map_err(|what| fault(&what))
}

fn check_bytes(bytes: &[u8]) -> Result<(), &'static str> {
    // A script: what runs it can be told by the system only.
    if bytes.starts_with(b"#!") {
        return Ok(());
    }
    let Ok(elf) = ElfFile64::<Endianness>::parse(bytes) else {
        return Err("this is no program of 64 bits for this machine");
    };
    let header = elf.elf_header();
    let machine = if cfg!(target_arch = "aarch64") {
        object::elf::EM_AARCH64
    } else {
        object::elf::EM_X86_64
    };
    if header.e_machine(elf.endian()) != machine {
        return Err("this is no program of 64 bits for this machine");
    }
    let headers = elf.elf_program_headers();
    match headers.iter().any(|header| header.p_type(elf.endian()) == PT_INTERP) {
        true => Ok(()),
        false => Err("it is linked statically, so no library can be preloaded into it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let shell = find(OsStr::new("sh")).expect("everybody has one");
        assert!(shell.is_absolute() && check(&shell).is_ok(), "{}", shell.display());
        assert_eq!(find(OsStr::new("./a")), Ok(PathBuf::from("./a")));
        assert!(find(OsStr::new("no such program")).is_err());
    }

    #[test]
    fn what_takes_no_library_is_refused() {
        let us = std::fs::read(env::current_exe().expect("a path")).expect("readable");
        assert_eq!(check_bytes(&us), Ok(()));
        assert_eq!(check_bytes(b"#!/bin/sh\n"), Ok(()));
        // Without the header that names the dynamic linker.
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
