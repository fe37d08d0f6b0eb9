//! Writes lines to standard output. A reader that closes the pipe early (`| head`) is no error.

use std::fmt;
use std::io::{self, Write};

/// Writes one line, whether or not it is read.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = write_line(text);
}

/// Writes one line; returns false once the reader has closed the pipe.
pub(crate) fn write_line(text: fmt::Arguments<'_>) -> bool {
    // `writeln!` itself reports the error: nothing is buffered until a flush.
    writeln!(io::stdout().lock(), "{text}").is_ok()
}

/// `println!` without the panic when the reader has closed the pipe.
macro_rules! outln {
    ($($text:tt)*) => { crate::stdout::line(format_args!($($text)*)) };
}

pub(crate) use outln;
