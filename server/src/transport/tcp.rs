//! TCP connections to clients and to origins, and connections to the Unix sockets of origins, based
//! on tokio's sockets.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::{ClientEnd, Connecting, Connector, Listener, OriginConnection, OriginEnds, Transport};
use crate::config::ListenerNumber;

/// A client's TCP connection.
struct TcpTransport {
    stream: RefCell<TcpStream>,
    peer: SocketAddr,
    listener: ListenerNumber,
}

impl TcpTransport {
    fn boxed(stream: TcpStream, peer: SocketAddr, listener: ListenerNumber) -> Box<dyn Transport> {
        Box::new(TcpTransport { stream: RefCell::new(stream), peer, listener })
    }
}

impl Transport for TcpTransport {
    fn poll_read(&self, cx: &mut Context<'_>, space: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(space);
        Pin::new(&mut *self.stream.borrow_mut())
            .poll_read(cx, &mut buffer)
            .map_ok(|()| buffer.filled().len())
    }

    fn read_now(&self, space: &mut [u8]) -> Option<usize> {
        // This does not block, because the socket is non-blocking.
        rustix::io::read(&*self.stream.borrow(), space).ok()
    }

    fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut stream = self.stream.borrow_mut();
        match slices {
            // For a single slice, a plain `send` saves the kernel the import of a vector.
            [only] => Pin::new(&mut *stream).poll_write(cx, only),
            _ => Pin::new(&mut *stream).poll_write_vectored(cx, slices),
        }
    }

    fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(cx)
    }

    fn client_end(&self) -> ClientEnd {
        let stream = self.stream.borrow();
        let mut ends = [PollFd::new(&*stream, PollFlags::RDHUP)];
        // An error of the call says nothing about the client.
        let _ = poll(&mut ends, Some(&Timespec::default()));
        match ends[0].revents() {
            found if found.intersects(PollFlags::HUP | PollFlags::ERR) => ClientEnd::Both,
            found if found.contains(PollFlags::RDHUP) => ClientEnd::Half,
            _ => ClientEnd::Open,
        }
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn local(&self) -> Option<SocketAddr> {
        self.stream.borrow().local_addr().ok()
    }

    fn listener(&self) -> ListenerNumber {
        self.listener
    }

    fn set_dscp(&self, dscp: u8) {
        let stream = self.stream.borrow();
        let socket = socket2::SockRef::from(&*stream);
        let class = u32::from(dscp) << 2;
        // On a dual-stack socket either option may apply; on other sockets one of the calls fails.
        let _ = (socket.set_tos_v4(class), socket.set_tclass_v6(class));
    }

    fn reset_on_close(&self) {
        // This fails only if the client is gone, and then it does not see the response anyway.
        let _ = socket2::SockRef::from(&*self.stream.borrow()).set_linger(Some(Duration::ZERO));
    }
}

/// A listening TCP socket in the event loop of the calling thread.
pub(crate) struct TcpListener {
    socket: tokio::net::TcpListener,
    number: ListenerNumber,
}

impl TcpListener {
    /// Registers a non-blocking, listening socket with the event loop of the calling thread.
    ///
    /// # Errors
    /// The event loop cannot register the socket.
    pub(crate) fn register(
        socket: std::net::TcpListener,
        number: ListenerNumber,
    ) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(TcpListener { socket: tokio::net::TcpListener::from_std(socket)?, number }))
    }
}

impl Listener for TcpListener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Box<dyn Transport>>> {
        let accepted = self.socket.poll_accept(cx);
        accepted.map_ok(|(stream, peer)| TcpTransport::boxed(stream, peer, self.number))
    }

    fn close(self: Box<Self>, accept: &mut dyn FnMut(Box<dyn Transport>)) {
        // Connections are accepted directly from the kernel's queue, because the event loop may not
        // know about all of them yet.
        let Ok(listener) = self.socket.into_std() else { return };
        while let Ok((stream, peer)) = listener.accept() {
            let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = stream {
                accept(TcpTransport::boxed(stream, peer, self.number));
            }
        }
    }
}

/// How long to wait until a Unix socket whose queue of connections is full is tried again. The
/// system refuses such a connection without a wait, other than with TCP.
const FULL_QUEUE_WAIT: Duration = Duration::from_millis(10);

/// Opens connections to origins over TCP and to Unix sockets.
pub(crate) struct TcpConnector;

impl Connector for TcpConnector {
    fn connect(&self, address: SocketAddr) -> Connecting {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // With Nagle's algorithm a small request could wait for the acknowledgement of the
            // previous request.
            let _ = stream.set_nodelay(true);
            let ends = ends_of(&stream);
            Ok(OriginConnection { io: Box::new(stream), ends, is_http2: false })
        })
    }

    fn connect_socket(&self, path: &Path) -> Connecting {
        let path = path.to_owned();
        Box::pin(async move {
            loop {
                match UnixStream::connect(&path).await {
                    Ok(stream) => {
                        return Ok(OriginConnection {
                            io: Box::new(stream),
                            ends: None,
                            is_http2: false,
                        });
                    }
                    // The caller limits the time of the loop.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        tokio::time::sleep(FULL_QUEUE_WAIT).await;
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

fn ends_of(stream: &TcpStream) -> Option<OriginEnds> {
    let (server, local) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
    Some(OriginEnds { server: server.ip().to_canonical(), local: local.ip().to_canonical() })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_of_which_the_event_loop_does_not_know_can_be_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("an event loop").block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("an address");
            let mut client = std::net::TcpStream::connect(address).expect("it listens");
            let (stream, peer) = listener.accept().expect("a connection");
            stream.set_nonblocking(true).expect("a socket");
            let stream = TcpStream::from_std(stream).expect("a socket");
            let listener = ListenerNumber::default();
            let transport = TcpTransport { stream: RefCell::new(stream), peer, listener };
            let mut space = [0; 8];
            // In its first turn, the event loop learns that the socket is ready for writing but not
            // for reading.
            poll_fn(|cx| transport.stream.borrow().poll_write_ready(cx)).await.expect("it is open");
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(transport.poll_read(&mut cx, &mut space).is_pending());
            assert_eq!(transport.read_now(&mut space), None);
            client.write_all(b"GET").expect("it is open");
            assert!(transport.poll_read(&mut cx, &mut space).is_pending(), "no turn since");
            assert_eq!(transport.read_now(&mut space), Some(3));
            assert_eq!(&space[..3], b"GET");
        });
    }
}
