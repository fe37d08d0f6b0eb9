//! The narrow place where client sockets are read and written.
//!
//! Everything above it sees two polls and a close, so that another form of I/O can stand here.
//! A borrow of the stream lives only inside one poll, never across an await: one task may read a
//! body and write an answer at the same time.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A client's connection.
pub(crate) struct Socket {
    stream: RefCell<TcpStream>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Socket {
        Socket { stream: RefCell::new(stream) }
    }

    /// Reads into `space`; `Ready(0)` is the end of the stream.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        space: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(space);
        Pin::new(&mut *self.stream.borrow_mut())
            .poll_read(cx, &mut buffer)
            .map_ok(|()| buffer.filled().len())
    }

    /// Writes from the start of `slices`; `Ready(count)` is how many bytes went.
    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        match slices {
            // One slice goes as a plain send, which spares the kernel the import of a vector.
            [only] => Pin::new(&mut *stream).poll_write(cx, only),
            _ => Pin::new(&mut *stream).poll_write_vectored(cx, slices),
        }
    }

    /// Marks all further packets with this code point (RFC 2474), 0 to 63.
    pub(crate) fn set_dscp(&self, dscp: u8) {
        let stream = self.stream.borrow();
        let socket = socket2::SockRef::from(&*stream);
        let class = u32::from(dscp) << 2;
        // Of a socket for both families either may count; of the others one fails.
        // A mark is a wish: networks ignore it, and so does the answer if it can't be set.
        let _ = (socket.set_tos_v4(class), socket.set_tclass_v6(class));
    }

    /// Our own address and port.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.stream.borrow().local_addr().ok()
    }

    /// Sends FIN after what was written.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(cx)
    }

    /// Makes the coming close a reset, so that what was sent can't be taken for whole.
    pub(crate) fn reset_on_close(&self) {
        // If it fails the peer is gone already, and there is nobody to deceive.
        let _ = socket2::SockRef::from(&*self.stream.borrow()).set_linger(Some(Duration::ZERO));
    }
}
