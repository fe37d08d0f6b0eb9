//! Lines on standard output. A reader that has seen enough (`| head`) is no error.

use std::fmt;
use std::io::{self, Write};

/// Writes one line.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// `println!` that does not panic when nobody reads any more.
macro_rules! say {
    ($($text:tt)*) => { crate::say::line(format_args!($($text)*)) };
}

pub(crate) use say;
