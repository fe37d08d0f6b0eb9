//! Sockets for all programs of the benchmark: on 127.0.0.1 and, for the origin, the addresses after
//! it; with TCP_NODELAY, non-blocking.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use rustix::net::SocketFlags;
use socket2::{Domain, Socket, Type};

/// The length of the backlog, equal to that of every compared server.
const BACKLOG: i32 = 4096;

/// Opens a listener on `port` of an address, which other threads share by SO_REUSEPORT. Accepted
/// connections inherit TCP_NODELAY.
pub(crate) fn listen(port: u16, index: u8) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address(port, index).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts the next connection of `listener`. A single system call also makes it non-blocking.
pub(crate) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::accept_with(listener, flags)?.into())
}

/// Connects to `port`, and then makes the connection non-blocking.
pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address(port, 0))
        .map_err(|e| io::Error::new(e.kind(), format!("connect to port {port}: {e}")))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// The address with this index: 127.0.0.1 has 0, and 127.0.0.2 has 1.
pub(crate) fn address(port: u16, index: u8) -> SocketAddr {
    (Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + u32::from(index)), port).into()
}
