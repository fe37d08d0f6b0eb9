//! Pipes that stand for a reader that stalls.

use std::io::{PipeReader, PipeWriter, Write};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Returns a pipe that is full, so that each write waits until the caller reads from the pipe.
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("it is open");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("it is ours");
    while writer.write(&[b'x'; 512]).is_ok() {}
    fcntl_setfl(&writer, flags).expect("it is ours");
    (reader, writer)
}
