//! Limits the length of files, functions and lines.

use super::Problem;
use super::source::Source;

const FILE_LINES_MAX: usize = 500;
const CONTENTS_LINES_MAX: usize = 120;
const INLINE_TEST_LINES_MAX: usize = 150;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Checks the length of files without their inline tests. `mod.rs` and `lib.rs` are tables of
/// contents and have a lower limit.
pub(super) fn file_sizes(source: &Source) -> Vec<Problem> {
    let test_lines = source.is_test.iter().filter(|is_test| **is_test).count();
    let lines = source.lines.len() - test_lines;
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let is_contents = matches!(name, "mod.rs" | "lib.rs") && !source.is_test_file();
    let limit = if is_contents { CONTENTS_LINES_MAX } else { FILE_LINES_MAX };
    let mut problems = Vec::new();
    if lines > limit {
        let message = format!("{lines} lines, at most {limit}");
        problems.push(Problem::new(&source.path, 0, "file size", message));
    }
    if test_lines > INLINE_TEST_LINES_MAX {
        let message =
            format!("{test_lines} lines of inline tests belong in a tests.rs beside the file");
        problems.push(Problem::new(&source.path, 0, "inline tests", message));
    }
    problems
}

/// Checks the length of functions, in lines of code.
pub(super) fn function_sizes(source: &Source) -> Vec<Problem> {
    let long = source.functions().into_iter().filter(|found| found.size > FUNCTION_LINES_MAX);
    long.map(|found| {
        let message =
            format!("{} has {} lines, at most {FUNCTION_LINES_MAX}", found.name, found.size);
        Problem::new(&source.path, found.line + 1, "function size", message)
    })
    .collect()
}

/// Checks the columns of every line.
pub(super) fn columns(source: &Source) -> Vec<Problem> {
    let lines = source.lines.iter().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
        .map(|(index, line)| {
            let message = format!("{} columns, at most {COLUMNS_MAX}", line.chars().count());
            Problem::new(&source.path, index + 1, "columns", message)
        })
        .collect()
}
