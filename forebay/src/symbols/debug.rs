//! Finds debug information that was split into a separate file.
//!
//! A file is used only if it belongs to the same build as the program: the build ids are equal or,
//! if one of the two has no build id, the checksum is equal to the checksum in the program.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{File, Object, ReadCache};

use super::open;

/// The directory for debug files on Debian and other distributions.
pub(super) const ROOT: &str = "/usr/lib/debug";

/// Opens a program's separate debug file, if there is one.
pub(super) fn load<'data>(
    root: &Path,
    program: &Path,
    object: &impl Object<'data>,
) -> Option<Loader> {
    let others = candidates(root, program, object).into_iter().filter(|path| path != program);
    let mut fitting = others.filter_map(|path| Some((fitting(&path, object)?, path)));
    let (file, path) = fitting.next()?;
    let shared = shared(root, &path, &file);
    open::load(&file, shared.as_ref()).or_else(|| open::load(&file, None))
}

/// Returns the paths at which the debug file may be, in the order in which debuggers search: by
/// build id, then by the name in `.gnu_debuglink`.
fn candidates<'data>(root: &Path, program: &Path, object: &impl Object<'data>) -> Vec<PathBuf> {
    let by_id = object.build_id().ok().flatten().and_then(|id| by_id(root, id));
    let mut paths: Vec<_> = by_id.into_iter().collect();
    let link =
        object.gnu_debuglink().ok().flatten().map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    // Only the file name is used, so that the link cannot lead to another directory.
    let name = link.and_then(Path::file_name);
    // Libraries are often symbolic links.
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

/// Opens the file at `path`, if it belongs to the same build as the program.
fn fitting<'data>(path: &Path, program: &impl Object<'data>) -> Option<fs::File> {
    let file = open::plain_file(path)?;
    // The cache reads only the parts that are needed.
    let cache = ReadCache::new(&file);
    let found = File::parse(&cache).ok()?;
    let id_of_program = program.build_id().ok().flatten();
    let fits = match (id_of_program, found.build_id().ok().flatten()) {
        (Some(program), Some(found)) => program == found,
        _ => program.gnu_debuglink().ok()??.1 == crc32(beginning(&file)?).ok()?,
    };
    fits.then_some(file)
}

/// Returns a reader from the first byte of the file.
fn beginning(mut file: &fs::File) -> Option<BufReader<&fs::File>> {
    file.rewind().ok()?;
    Some(BufReader::with_capacity(64 << 10, file))
}

/// Opens the shared part of several debug files, which Debian stores once for each package.
fn shared(root: &Path, debug: &Path, file: &fs::File) -> Option<fs::File> {
    let cache = ReadCache::new(file);
    let object = File::parse(&cache).ok()?;
    let (name, id) = object.gnu_debugaltlink().ok()??;
    let named = debug.parent()?.join(OsStr::from_bytes(name));
    let paths = std::iter::once(named).chain(by_id(root, id));
    let has_id = |file: &fs::File| {
        let cache = ReadCache::new(file);
        let object = File::parse(&cache);
        object.is_ok_and(|object| object.build_id().is_ok_and(|found| found == Some(id)))
    };
    paths.filter_map(|path| open::plain_file(&path)).find(has_id)
}

/// Computes the checksum of `.gnu_debuglink`: CRC-32, as in Ethernet and zip.
fn crc32(mut bytes: impl io::BufRead) -> io::Result<u32> {
    const TABLE: [u32; 256] = table();
    let mut crc = u32::MAX;
    loop {
        let part = bytes.fill_buf()?;
        if part.is_empty() {
            return Ok(!crc);
        }
        crc = part
            .iter()
            .fold(crc, |crc, byte| TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ crc >> 8);
        let byte_count = part.len();
        bytes.consume(byte_count);
    }
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

    use forebay_testkit::has_compiler;

    use super::*;

    const SOURCE: &str = "int a_function(int n) { return n + 1; }\n\
                          int main(void) { return a_function(-1); }\n";

    /// Compiles a program and splits its debug information off; `None` if tests without a compiler
    /// are skipped.
    fn compiled(dir: &Path, flags: &[&str]) -> Option<()> {
        fs::write(dir.join("x.c"), SOURCE).expect("written");
        if !has_compiler("cc") || !has_compiler("objcopy") {
            return None;
        }
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
        let bytes = fs::read(program).expect("readable");
        let object = File::parse(&*bytes).expect("a program");
        let Some(loader) = load(root, program, &object) else { return false };
        let whole = fs::read(program.with_file_name("whole")).expect("readable");
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
    fn a_debug_file_is_found_by_build_id_where_debian_puts_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (dir, root) = (dir.path(), dir.path().join("root"));
        if compiled(dir, &["-Wl,--build-id=0x0123456789"]).is_none() {
            return;
        }
        let into = root.join(".build-id/01");
        fs::create_dir_all(&into).expect("ours");
        fs::rename(dir.join("x.debug"), into.join("23456789.debug")).expect("ours");
        assert!(is_found(&root, &dir.join("program")));
        assert!(!is_found(dir, &dir.join("program")));
    }

    #[test]
    fn a_debug_file_is_found_by_its_name_if_it_is_of_this_build() {
        for flags in [&["-Wl,--build-id=none"][..], &["-Wl,--build-id=0x0123"]] {
            let dir = tempfile::tempdir().expect("a folder");
            let dir = dir.path().canonicalize().expect("a folder");
            let (dir, root) = (&*dir, dir.join("root"));
            if compiled(dir, flags).is_none() {
                return;
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
            // The debug file of another build.
            compiled(dir, &["-Wl,--build-id=0x4567", "-DANOTHER"]).expect("they are there");
            fs::rename(dir.join("x.debug"), &now).expect("ours");
            fs::rename(dir.join("program"), dir.join("another")).expect("ours");
            fs::write(&program, &stripped).expect("ours");
            assert!(!is_found(&root, &program), "of another build");
        }
    }

    #[test]
    fn the_checksum_is_that_of_ethernet() {
        let by_two = BufReader::with_capacity(2, &b"123456789"[..]);
        assert_eq!(crc32(by_two).expect("readable"), 0xcbf4_3926);
        assert_eq!(crc32(&b""[..]).expect("readable"), 0);
    }
}
