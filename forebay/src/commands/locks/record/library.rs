//! Finds the library to preload.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "liblockprof.so";

/// Returns the library that `FOREBAY_LOCKPROF` names, or else the library near this program.
///
/// # Errors
/// There is no library, or it cannot be preloaded from its path.
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
    let program =
        program.map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let places = near(program.parent().unwrap_or(Path::new("/")));
    let found = places.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| missing(&places))
}

/// The error if the library is at none of `places`.
fn missing(places: &[PathBuf]) -> String {
    let places: Vec<_> = places.iter().map(|path| format!("  {}", path.display())).collect();
    format!(
        "cannot find the library to preload; build it with `cargo build --release -p \
         forebay-lockprof`, and name target/release/{NAME} in FOREBAY_LOCKPROF, or put it at one \
         of:\n{}",
        places.join("\n")
    )
}

/// Returns the paths at which the library may be: next to the program, as after a build, and in the
/// usual library directories.
fn near(dir: &Path) -> Vec<PathBuf> {
    let mut places = vec![dir.join(NAME)];
    if let Some(above) = dir.parent() {
        places.push(above.join("lib").join(NAME));
        places.push(above.join("lib/forebay").join(NAME));
    }
    places
}

/// Checks that `LD_PRELOAD` can name a path: a blank or a colon cannot be escaped there.
///
/// # Errors
/// The path contains a blank or a colon.
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

/// Returns the value of `LD_PRELOAD`: the library, followed by the libraries that are already
/// preloaded.
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
    fn it_is_next_to_the_program_or_in_a_library_directory() {
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
    fn the_error_without_a_library_says_how_to_build_it() {
        let error = missing(&near(Path::new("/usr/bin")));
        assert!(error.contains("cargo build --release -p forebay-lockprof"), "{error}");
        assert!(error.ends_with("\n  /usr/lib/forebay/liblockprof.so"), "{error}");
    }

    #[test]
    fn a_path_that_would_be_split_is_refused() {
        for path in ["/a b/l.so", "/a:b/l.so"] {
            let error = check(PathBuf::from(path)).unwrap_err();
            assert!(error.starts_with(path) && error.contains("a space or a colon"), "{error}");
        }
        assert_eq!(check(PathBuf::from("/a/l.so")), Ok(PathBuf::from("/a/l.so")));
    }

    #[test]
    fn libraries_that_are_already_preloaded_stay() {
        let library = Path::new("/l.so");
        assert_eq!(first(library, None), "/l.so");
        assert_eq!(first(library, Some("".into())), "/l.so");
        assert_eq!(first(library, Some("a.so b.so".into())), "/l.so:a.so b.so");
    }
}
