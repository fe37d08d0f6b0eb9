//! Looks for the compilers that tests need to build C or C++. Without a compiler such tests fail,
//! unless `FOREBAY_NO_CC` is 1, which skips them.

use std::env;
use std::process::{Command, Stdio};

/// The environment variable that skips tests that need a compiler, when its value is 1.
const SKIP: &str = "FOREBAY_NO_CC";

/// Whether tests that need `program` are to run. The program is a compiler, or a tool for compiled
/// code such as `objcopy`. With `FOREBAY_NO_CC=1` the function returns false without looking for
/// the program.
///
/// # Panics
/// The program is not installed, and `FOREBAY_NO_CC` is not 1.
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
