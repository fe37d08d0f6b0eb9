//! Programs that tests compile: without a compiler such tests fail, unless they may be skipped.

use std::env;
use std::process::{Command, Stdio};

/// Set to 1, it lets tests pass without a compiler.
const SKIP: &str = "FOREBAY_NO_CC";

/// Whether a compiler, or another program for compiled code such as `objcopy`, is installed.
/// Returns false only if `FOREBAY_NO_CC=1` allows tests to be skipped.
///
/// # Panics
/// The program is missing, and the tests may not be skipped.
pub fn has_compiler(program: &str) -> bool {
    if env::var_os(SKIP).is_some_and(|value| value == "1") {
        return false;
    }
    let mut command = Command::new(program);
    let found = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(
        found.is_ok(),
        "{program} is not installed, which this test needs: install a C and C++ compiler, or set \
         {SKIP}=1 to skip such tests"
    );
    true
}
