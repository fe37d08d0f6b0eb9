//! Builds the examples and finds the programs that they need: the library, a C compiler, Python.

use std::fmt;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use forebay_testkit::has_compiler;

/// The language of an example, and the command that runs it.
#[derive(Clone)]
pub(crate) enum Language {
    C(PathBuf),
    Python(PathBuf),
}

impl fmt::Debug for Language {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if matches!(self, Language::C(_)) { "C" } else { "Python" })
    }
}

impl Language {
    pub(crate) fn command(&self) -> Command {
        let mut command = match self {
            Language::C(program) => Command::new(program),
            Language::Python(python) => {
                let mut command = Command::new(python);
                // Site packages are left out, because searching them takes long.
                command.args(["-S", "-E"]).arg(crate_dir().join("examples/table.py"));
                command.env("FOREBAY_LIBRARY", library_dir().join("libforebay_capi.so"));
                command
            }
        };
        command.env_remove("FOREBAY_CRASH_AT");
        // Cargo sets this variable, which may lead to a folder with an older library.
        command.env_remove("LD_LIBRARY_PATH");
        command
    }
}

/// The languages that this machine can run.
pub(crate) fn languages() -> Vec<Language> {
    static FOUND: OnceLock<Vec<Language>> = OnceLock::new();
    FOUND.get_or_init(|| c().into_iter().chain(python()).collect()).clone()
}

/// Returns every ordered pair of languages, including each language paired with itself.
pub(crate) fn pairs() -> Vec<(Language, Language)> {
    let all = languages();
    let mut pairs = Vec::new();
    for one in &all {
        pairs.extend(all.iter().map(|two| (one.clone(), two.clone())));
    }
    pairs
}

/// Whether this program exists. A missing program is reported where it cannot be overlooked.
pub(crate) fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    let is_there = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if is_there.is_err() {
        // `eprintln!` would not be visible, because the test runner captures it.
        let _ = writeln!(stderr(), "NOT TESTED: {program} is not installed");
    }
    is_there.is_ok()
}

pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder in which cargo puts the libraries that it builds for tests.
pub(crate) fn library_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn c() -> Option<Language> {
    let libraries = library_dir();
    let run_path = format!("-Wl,-rpath,{}", libraries.display());
    let arguments = ["-L".as_ref(), libraries.as_os_str(), "-lforebay_capi".as_ref()];
    compile("table", &table_c(), |cc| cc.args(arguments).arg(run_path)).map(Language::C)
}

/// The interpreter itself, because `python3` may be a script that searches for it each time.
fn python() -> Option<Language> {
    if !has("python3") {
        return None;
    }
    let mut asked = Command::new("python3");
    let output = asked.args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let path = String::from_utf8(output.stdout).unwrap();
    Some(Language::Python(PathBuf::from(path.trim_end())))
}

pub(crate) fn table_c() -> PathBuf {
    crate_dir().join("examples/table.c")
}

/// Compiles a C program. Each test process compiles its own, so that none runs a half-written file.
pub(crate) fn compile(
    name: &str,
    source: &Path,
    link: impl FnOnce(&mut Command) -> &mut Command,
) -> Option<PathBuf> {
    if !has_compiler("cc") {
        return None;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let made = dir.join(format!("{name}.{}", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1", "-I"]);
    cc.arg(crate_dir().join("include")).arg("-o").arg(&made);
    cc.args(["-x", "c"]).arg(source).args(["-x", "none"]);
    let output = link(&mut cc).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let program = dir.join(name);
    std::fs::rename(made, &program).unwrap();
    Some(program)
}
