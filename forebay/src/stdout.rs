//! Lines on standard output. A reader that has seen enough (`| head`) is no error.

use std::fmt;
use std::io::{self, Write};

/// Writes one line, for somebody who may have gone.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = write_line(text);
}

/// Writes one line; false if nobody reads it any more.
pub(crate) fn write_line(text: fmt::Arguments<'_>) -> bool {
    // The error is that of the write: what could not be written is not left for a flush.
    writeln!(io::stdout().lock(), "{text}").is_ok()
}

/// `println!` that does not panic when nobody reads any more.
macro_rules! outln {
    ($($text:tt)*) => { crate::stdout::line(format_args!($($text)*)) };
}

pub(crate) use outln;
