//! The byte stream below an HTTP/2 connection, which records what the origin sends.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::header_blocks::HeaderBlocks;
use crate::clock;
use crate::transport::OriginIo;

/// The bytes that the origin has sent on a connection.
#[derive(Debug, Default)]
pub(super) struct InputMeter {
    bytes: Cell<u64>,
    last_ms: Cell<u64>,
    is_http1: Cell<bool>,
    blocks: RefCell<HeaderBlocks>,
}

impl InputMeter {
    /// Returns the number of bytes that have arrived.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Returns the time at which bytes arrived last, in monotonic milliseconds; 0 if none have.
    pub(super) fn last_ms(&self) -> u64 {
        self.last_ms.get()
    }

    /// Whether the first bytes are a response of HTTP/1.1. A frame of HTTP/2 that begins with these
    /// bytes would have more than 4 MiB.
    pub(super) fn is_http1(&self) -> bool {
        self.is_http1.get()
    }

    /// Whether a header block of this stream is too long.
    pub(super) fn has_long_block(&self, stream: u32) -> bool {
        self.blocks.borrow().is_long(stream)
    }

    fn note(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.last_ms.set(clock::monotonic_ms());
        if self.bytes.get() == 0 {
            self.is_http1.set(bytes.starts_with(b"HTTP/"));
        }
        self.bytes.update(|count| count + bytes.len() as u64);
        self.blocks.borrow_mut().note(bytes);
    }
}

/// A byte stream with a meter for its input.
pub(super) struct MeteredIo {
    pub(super) io: Box<dyn OriginIo>,
    pub(super) meter: Rc<InputMeter>,
}

impl AsyncRead for MeteredIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.meter.note(buffer.filled().get(before..).unwrap_or_default());
        read
    }
}

impl AsyncWrite for MeteredIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
