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
    // `writeln!` itself reports the error: nothing is buffered until a flush.
    writeln!(io::stdout().lock(), "{text}").is_ok()
}

/// As `println!`, but does not panic if the reader has closed the pipe.
macro_rules! outln {
    ($($text:tt)*) => { crate::stdout::line(format_args!($($text)*)) };
}

pub(crate) use outln;
