//! Writes lines to standard output. It is not an error if a reader closes the pipe early (`|
//! head`).

use std::fmt;
use std::io::{self, Write};

/// Writes one line; ignores that the reader has closed the pipe.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = write_line(text);
}

/// Writes one line; returns false if the reader has closed the pipe.
pub(crate) fn write_line(text: fmt::Arguments<'_>) -> bool {
    // Standard output is flushed at each line end, so `writeln!` itself reports a closed pipe.
    writeln!(io::stdout().lock(), "{text}").is_ok()
}

/// As `println!`, but does not panic if the reader has closed the pipe.
macro_rules! outln {
    ($($text:tt)*) => { crate::stdout::line(format_args!($($text)*)) };
}

pub(crate) use outln;
