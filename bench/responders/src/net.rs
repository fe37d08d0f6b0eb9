//! Sockets as all programs here use them: 127.0.0.1, TCP_NODELAY, non-blocking.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::net::SocketFlags;
use socket2::{Domain, Socket, Type};

/// As deep as the backlog of every peer's listener.
const BACKLOG: i32 = 4096;

/// A listener of its own on `port`, shared with other threads by SO_REUSEPORT.
/// Connections that it accepts inherit TCP_NODELAY.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address(port).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The next connection of `listener`, non-blocking from its one system call on.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::accept_with(listener, flags)?.into())
}

/// A connection to `port`, established, then made non-blocking.
pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address(port))
        .map_err(|e| io::Error::new(e.kind(), format!("connect to port {port}: {e}")))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
