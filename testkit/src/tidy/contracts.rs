//! Checks the comments that unsafe code and orderings need, and finds leftovers.

use super::Problem;
use super::source::{Source, has_word};

/// The number of lines above an ordering in which its `ORDER:` line must stand.
const ORDER_REACH: usize = 8;

/// The number of lines above an unsafe block in which its `SAFETY:` line must stand.
const SAFETY_REACH: usize = 8;

/// Crates that may hold unsafe code; all others forbid it.
const MAY_BE_UNSAFE: &[&str] = &["cache", "capi", "lockprof", "ordmap", "shm", "studies", "sync"];

/// Reports orderings other than Relaxed, and calls of named orderings, without an `ORDER:` line
/// above. The name of a named ordering is a string, so it is searched for in `lines`: `code` has no
/// strings.
pub(super) fn orderings(source: &Source) -> Vec<Problem> {
    const ORDERINGS: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];
    const NAMED: &[&str] = &["acquire(\"", "release(\"", "fence(\"", "light(\"", "heavy(\""];
    let mut problems = Vec::new();
    let mut is_import = false;
    for (index, line) in source.code.iter().enumerate() {
        is_import |= starts_import(line);
        let plain = ORDERINGS.iter().find(|ordering| has_word(line, ordering));
        let found = plain.or_else(|| NAMED.iter().find(|call| calls(source, index, call)));
        let is_test = source.is_test_file() || source.is_test[index];
        if let Some(ordering) = found.filter(|_| !is_import && !is_test)
            && !source.has_comment_above(index, "ORDER:", ORDER_REACH)
        {
            let message = format!("{ordering} without an `// ORDER:` line that names its partner");
            problems.push(Problem::new(&source.path, index + 1, "order", message));
        }
        is_import &= !line.contains(';');
    }
    problems
}

/// Whether this line of code contains the call. `call` ends with the opening quote of its argument.
fn calls(source: &Source, index: usize, call: &str) -> bool {
    let name = call.trim_end_matches('"');
    source.code[index].contains(name) && source.lines[index].contains(call)
}

/// Reports unsafe blocks without a `SAFETY:` line, and crates that neither may have unsafe code nor
/// forbid it.
pub(super) fn unsafe_code(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        let is_block = line.contains("unsafe {") || line.contains("unsafe impl");
        if is_block && !source.has_comment_above(index, "SAFETY:", SAFETY_REACH) {
            let message = "unsafe without a `// SAFETY:` line";
            problems.push(Problem::new(&source.path, index + 1, "safety", message));
        }
    }
    let parts: Vec<&str> = source.path.split('/').collect();
    if let [package, "src", "lib.rs" | "main.rs"] = parts[..] {
        let is_forbidden = source.code.iter().any(|line| line.contains("#![forbid(unsafe_code)]"));
        if !is_forbidden && !MAY_BE_UNSAFE.contains(&package) {
            let message = format!("{package} has no `#![forbid(unsafe_code)]`");
            problems.push(Problem::new(&source.path, 0, "forbid", message));
        }
    }
    problems
}

/// Reports tests that are ignored or that sleep, and markers of unfinished work.
pub(super) fn leftovers(source: &Source) -> Vec<Problem> {
    const IN_CODE: &[&str] =
        &["#[ignore", "#[should_panic", "todo!", "unimplemented!", "dbg!", "thread::sleep"];
    const IN_COMMENTS: &[&str] = &["FIXME", "TODO", "XXX", "HACK"];
    let mut problems = Vec::new();
    for index in 0..source.code.len() {
        let (code, comment) = (&source.code[index], &source.comments[index]);
        let in_code = IN_CODE.iter().filter(|mark| code.contains(**mark));
        let in_comments = IN_COMMENTS.iter().filter(|mark| has_word(comment, mark));
        for mark in in_code.chain(in_comments) {
            let message = format!("{mark} is left in the tree");
            problems.push(Problem::new(&source.path, index + 1, "leftover", message));
        }
    }
    problems
}

/// Reports paths that exist only on the machine of a developer.
pub(super) fn machine_paths(path: &str, text: &str) -> Vec<Problem> {
    // The paths are in pieces, so that this file does not match itself.
    const PATHS: &[&str] =
        &[concat!("/wor", "k/"), concat!("../sha", "red"), concat!("/ro", "ot/")];
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for found in PATHS.iter().filter(|found| line.contains(**found)) {
            let message = format!("{found} is a path of one machine: leave it out");
            problems.push(Problem::new(path, index + 1, "machine path", message));
        }
    }
    problems
}

fn starts_import(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("use ") || line.starts_with("pub use ") || line.starts_with("pub(crate) use ")
}
