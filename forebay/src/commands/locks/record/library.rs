//! Where the library is that is preloaded.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "liblockprof.so";

/// The library: the one that the environment names, else one near this program.
///
/// # Errors
/// A sentence that says where it was looked for, or why it can't be preloaded from there.
pub(super) fn find() -> Result<PathBuf, String> {
    look().and_then(check)
}

fn look() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("FOREBAY_LOCKPROF") {
        let named = PathBuf::from(named);
        let absolute = named.canonicalize();
        return absolute.map_err(|error| format!("{}: {error}", named.display()));
    }
    let program = env::current_exe().and_then(|path| path.canonicalize());
    let program = program.map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let places = near(program.parent().unwrap_or(Path::new("/")));
    let found = places.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|path| format!("  {}", path.display())).collect();
        format!(
            "the library that is preloaded is not there; name it in FOREBAY_LOCKPROF, or put it \
             at one of:\n{}",
            places.join("\n")
        )
    })
}

/// Where it lies after a build, and where it may be installed.
fn near(dir: &Path) -> Vec<PathBuf> {
    let mut places = vec![dir.join(NAME)];
    if let Some(above) = dir.parent() {
        places.push(above.join("lib").join(NAME));
        places.push(above.join("lib/forebay").join(NAME));
    }
    places
}

/// Looks whether a path can stand in a list of libraries: nothing in it can keep what divides the
/// list from doing so.
///
/// # Errors
/// It can't.
fn check(library: PathBuf) -> Result<PathBuf, String> {
    match library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        true => Err(format!(
            "{}: a library cannot be preloaded from a path with a space or a colon in it; put a \
             copy elsewhere and name that in FOREBAY_LOCKPROF",
            library.display()
        )),
        false => Ok(library),
    }
}

/// The library, before others that are preloaded already.
pub(super) fn first(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lies_beside_the_program_or_in_a_folder_for_libraries() {
        let places = near(Path::new("/usr/bin"));
        let places: Vec<_> = places.iter().map(|path| path.to_string_lossy()).collect();
        assert_eq!(
            places,
            [
                "/usr/bin/liblockprof.so",
                "/usr/lib/liblockprof.so",
                "/usr/lib/forebay/liblockprof.so"
            ]
        );
    }

    #[test]
    fn a_path_that_would_be_two_is_refused() {
        for path in ["/a b/l.so", "/a:b/l.so"] {
            let error = check(PathBuf::from(path)).unwrap_err();
            assert!(error.starts_with(path) && error.contains("a space or a colon"), "{error}");
        }
        assert_eq!(check(PathBuf::from("/a/l.so")), Ok(PathBuf::from("/a/l.so")));
    }

    #[test]
    fn what_is_preloaded_already_stays_so() {
        let library = Path::new("/l.so");
        assert_eq!(first(library, None), "/l.so");
        assert_eq!(first(library, Some("".into())), "/l.so");
        assert_eq!(first(library, Some("a.so b.so".into())), "/l.so:a.so b.so");
    }
}
