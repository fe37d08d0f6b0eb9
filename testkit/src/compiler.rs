//! Compilers for tests that build C or C++. Without a compiler such tests fail, unless the
//! environment skips them.

use std::env;
use std::process::{Command, Stdio};

/// The variable that skips such tests when it is 1.
const SKIP: &str = "FOREBAY_NO_CC";

/// Whether tests that need `program` are to run: a compiler, or a tool for compiled code such as
/// `objcopy`. With `FOREBAY_NO_CC=1` it returns false without looking for the program.
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
