//! Writes lines to standard output. It is not an error if a reader closes the pipe early (`|
//! head`).

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use forebay_server::events::Event;

/// Writes one line; ignores errors, such as that the reader has closed the pipe.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let _ = write_line(text);
}

/// Writes one line; returns false if that fails, such as because the reader has closed the pipe.
pub(crate) fn write_line(text: fmt::Arguments<'_>) -> bool {
    // Standard output is flushed at each line end, so `writeln!` itself reports a closed pipe.
    writeln!(io::stdout().lock(), "{text}").is_ok()
}

/// Stack size in bytes of the thread that [`announce`] starts. The thread needs little stack, and
/// the system keeps the stack after the thread has ended.
const STACK_BYTES: usize = 64 << 10;

/// Writes the text from a separate thread. A running server must not wait for the reader of a pipe,
/// and must not end because a disk is full; a failure is logged as an event.
pub(crate) fn announce(text: String) {
    let write = move || {
        if let Err(error) = write_directly(&text) {
            Event::AnnounceFailed.log(&error);
        }
    };
    let thread = std::thread::Builder::new().name("announce".to_owned()).stack_size(STACK_BYTES);
    if let Err(error) = thread.spawn(write) {
        Event::AnnounceFailed.log(&error);
    }
}

/// Writes without the lock of `io::stdout`, because this thread could hold that lock forever.
fn write_directly(text: &str) -> io::Result<()> {
    File::from(io::stdout().as_fd().try_clone_to_owned()?).write_all(text.as_bytes())
}

/// Prints a line like `println!`, but does not panic if the reader has closed the pipe.
macro_rules! outln {
    ($($text:tt)*) => { crate::stdout::line(format_args!($($text)*)) };
}

pub(crate) use outln;
