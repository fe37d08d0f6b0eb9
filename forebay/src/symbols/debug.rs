//! What was taken out of a program: functions and lines, in a file of their own.
//!
//! A file is taken if it is that of this very build: it has the same build id, or, where there is
//! none, the check that the program names it with.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{File, Object as _, ReadCache};

/// Where Debian and others put them.
pub(super) const ROOT: &str = "/usr/lib/debug";

/// Opens what was taken out of a program, if it is there.
pub(super) fn load(root: &Path, program: &Path, object: &File<'_>) -> Option<Loader> {
    let fits = |path: &PathBuf| path != program && fits(path, object).is_some_and(|fits| fits);
    let found = candidates(root, program, object).into_iter().find(fits)?;
    let shared = shared(root, &found);
    Loader::new_with_sup(&found, shared).or_else(|_| Loader::new(&found)).ok()
}

/// The bytes of a plain file: others need not end.
pub(super) fn bytes_of(path: &Path) -> Option<Vec<u8>> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| fs::read(path).ok()).flatten()
}

/// Where it may be, as debuggers look for it: by build id, then by the name that the program has
/// for it.
fn candidates(root: &Path, program: &Path, object: &File<'_>) -> Vec<PathBuf> {
    let by_id = object.build_id().ok().flatten().and_then(|id| by_id(root, id));
    let mut paths: Vec<_> = by_id.into_iter().collect();
    let link =
        object.gnu_debuglink().ok().flatten().map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    // A name, and no way to somewhere.
    let name = link.and_then(Path::file_name);
    // Libraries are named by links.
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    if let (Some(name), Some(dir)) = (name, program.parent()) {
        paths.push(dir.join(name));
        paths.push(dir.join(".debug").join(name));
        paths.push(root.join(dir.strip_prefix("/").unwrap_or(dir)).join(name));
    }
    paths
}

fn by_id(root: &Path, id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(root.join(format!(".build-id/{first:02x}/{rest}.debug")))
}

/// Is it of the same build? `None` if it is no such file.
fn fits(path: &Path, program: &File<'_>) -> Option<bool> {
    // It may be large: only what is looked at is read.
    let cache = opened(path)?;
    let found = File::parse(&cache).ok()?;
    match (program.build_id().ok().flatten(), found.build_id().ok().flatten()) {
        (Some(program), Some(found)) => Some(program == found),
        _ => Some(program.gnu_debuglink().ok()??.1 == crc32(&bytes_of(path)?)),
    }
}

/// What several such files have in common: Debian keeps it once for all files of a package.
fn shared(root: &Path, debug: &Path) -> Option<PathBuf> {
    let cache = opened(debug)?;
    let object = File::parse(&cache).ok()?;
    let (name, id) = object.gnu_debugaltlink().ok()??;
    let named = debug.parent()?.join(OsStr::from_bytes(name));
    let is_it = |path: &PathBuf| {
        let cache = opened(path);
        let object = cache.as_ref().and_then(|cache| File::parse(cache).ok());
        object.is_some_and(|object| object.build_id().is_ok_and(|found| found == Some(id)))
    };
    std::iter::once(named).chain(by_id(root, id)).find(is_it)
}

fn opened(path: &Path) -> Option<ReadCache<fs::File>> {
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| fs::File::open(path).ok()).flatten().map(ReadCache::new)
}

/// The check of `.gnu_debuglink`: CRC-32 as in Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes
        .iter()
        .fold(u32::MAX, |crc, byte| TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ crc >> 8)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { 0xedb8_8320 ^ crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SOURCE: &str = "int a_function(int n) { return n + 1; }\n\
                          int main(void) { return a_function(-1); }\n";

    /// A program that was compiled in a folder, and its bytes in a file without what is for
    /// debuggers; `None` without compilers.
    fn compiled(dir: &Path, flags: &[&str]) -> Option<()> {
        fs::write(dir.join("x.c"), SOURCE).expect("written");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).current_dir(dir).output().ok()?;
            assert!(output.status.success(), "{output:?}");
            Some(())
        };
        run("cc", &[&["-g", "-O0", "-o", "whole", "x.c"], flags].concat())?;
        run("objcopy", &["--only-keep-debug", "--compress-debug-sections", "whole", "x.debug"])?;
        run("objcopy", &["--strip-all", "--add-gnu-debuglink=x.debug", "whole", "program"])
    }

    fn is_found(root: &Path, program: &Path) -> bool {
        let bytes = bytes_of(program).expect("readable");
        let object = File::parse(&*bytes).expect("a program");
        let Some(loader) = load(root, program, &object) else { return false };
        let whole = bytes_of(&program.with_file_name("whole")).expect("readable");
        let whole = File::parse(&*whole).expect("a program");
        let symbols = whole.symbol_map();
        let function = symbols.symbols().iter().find(|symbol| symbol.name() == "a_function");
        let address = function.expect("it is there").address();
        assert_eq!(loader.find_symbol(address), Some("a_function"));
        let at = loader.find_location(address).expect("readable").expect("it has lines");
        assert_eq!((at.line, at.file.map(|file| file.ends_with("x.c"))), (Some(1), Some(true)));
        true
    }

    #[test]
    fn what_was_taken_out_is_found_by_build_id_where_debian_puts_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (dir, root) = (dir.path(), dir.path().join("root"));
        if compiled(dir, &["-Wl,--build-id=0x0123456789"]).is_none() {
            return println!("cc or objcopy is not installed");
        }
        let into = root.join(".build-id/01");
        fs::create_dir_all(&into).expect("ours");
        fs::rename(dir.join("x.debug"), into.join("23456789.debug")).expect("ours");
        assert!(is_found(&root, &dir.join("program")));
        assert!(!is_found(dir, &dir.join("program")));
    }

    #[test]
    fn what_was_taken_out_is_found_by_its_name_if_it_is_of_this_build() {
        for flags in [&["-Wl,--build-id=none"][..], &["-Wl,--build-id=0x0123"]] {
            let dir = tempfile::tempdir().expect("a folder");
            let dir = dir.path().canonicalize().expect("a folder");
            let (dir, root) = (&*dir, dir.join("root"));
            if compiled(dir, flags).is_none() {
                return println!("cc or objcopy is not installed");
            }
            let program = dir.join("program");
            let stripped = fs::read(&program).expect("readable");
            assert!(is_found(&root, &program), "beside it");
            let mirrored = root.join(dir.strip_prefix("/").expect("absolute"));
            let mut now = dir.join("x.debug");
            for into in [dir.join(".debug"), mirrored] {
                fs::create_dir_all(&into).expect("ours");
                fs::rename(&now, into.join("x.debug")).expect("ours");
                now = into.join("x.debug");
                assert!(is_found(&root, &program), "{}", now.display());
            }
            let mut other = fs::read(&now).expect("readable");
            other.truncate(other.len() / 2);
            fs::write(&now, &other).expect("ours");
            assert!(!is_found(&root, &program), "cut off");
            // That of another build.
            compiled(dir, &["-Wl,--build-id=0x4567", "-DANOTHER"]).expect("they are there");
            fs::rename(dir.join("x.debug"), &now).expect("ours");
            fs::rename(dir.join("program"), dir.join("another")).expect("ours");
            fs::write(&program, &stripped).expect("ours");
            assert!(!is_found(&root, &program), "of another build");
        }
    }

    #[test]
    fn the_check_is_that_of_ethernet() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
