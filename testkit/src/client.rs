//! A client over a raw socket, which sends exactly the given bytes and parses responses strictly.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use crate::clock::{Deadline, PATIENCE, holds_within};
use crate::response::Response;

/// Receive buffer and segment size of a narrow client, in bytes. They are so small that the kernels
/// buffer little for this client.
const NARROW_BYTES: usize = 2048;
const NARROW_SEGMENT_BYTES: u32 = 536;

/// Receive buffer in bytes of a client after [`Client::widen`].
const WIDE_BYTES: usize = 1 << 20;

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    server: SocketAddr,
    unread: Vec<u8>,
    end: Option<End>,
    patience: Duration,
}

/// How the server's side of the connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server ended the connection in an orderly way (FIN).
    Closed,
    /// The server reset the connection (RST).
    Reset,
}

/// The reason why a client has no whole response.
#[derive(Clone, Debug)]
pub enum Broken {
    /// The connection ended; holds the response so far, if at least its head had arrived.
    Cut(End, Option<Box<Response>>),
    /// The response is not HTTP/1.1 in the form of a careful sender.
    Fault(String),
    /// No more bytes came in time; holds the response so far.
    TimedOut(Option<Box<Response>>),
}

impl Client {
    /// Connects; reads then wait at most [`PATIENCE`].
    pub fn connect(server: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&server, PATIENCE).expect("the server listens");
        Client::over(stream, server)
    }

    /// Connects from one of this machine's addresses; on Linux, every address of 127.0.0.0/8 is one
    /// of them.
    pub fn connect_from(address: IpAddr, server: SocketAddr) -> Client {
        let domain = Domain::for_address(server);
        let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::new(address, 0).into()).expect("an address of this machine");
        socket.connect_timeout(&server.into(), PATIENCE).expect("the server listens");
        Client::over(socket.into(), server)
    }

    /// Connects with small kernel buffers: the kernels of both sides together hold about 30 KiB
    /// that the client has not read.
    pub fn connect_narrow(server: SocketAddr) -> Client {
        let domain = Domain::for_address(server);
        let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
        // The server's kernel adopts the client's segment size, and derives the size of its send
        // buffer from it.
        socket.set_tcp_mss(NARROW_SEGMENT_BYTES).expect("the kernel permits this size");
        socket.set_recv_buffer_size(NARROW_BYTES).expect("the kernel permits this size");
        socket.connect_timeout(&server.into(), PATIENCE).expect("the server listens");
        Client::over(socket.into(), server)
    }

    /// Gives the receive buffer a common size, so that a narrow client reads as fast as any other
    /// client.
    pub fn widen(&self) {
        let socket = SockRef::from(&self.stream);
        let _ = socket.set_recv_buffer_size(WIDE_BYTES);
    }

    fn over(stream: TcpStream, server: SocketAddr) -> Client {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(PATIENCE));
        Client { stream, server, unread: Vec::new(), end: None, patience: PATIENCE }
    }

    /// Sets the longest time that each later read waits.
    pub fn with_patience(mut self, patience: Duration) -> Client {
        self.patience = patience;
        self
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// The client's own address.
    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().expect("a connected socket has an address")
    }

    /// Sends all the bytes. Returns `false` if the server stops reading, as may happen after it has
    /// refused a request.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends `bytes` in pieces cut at these offsets. Each piece is sent once the server has read
    /// the previous piece, so that the server really sees the cuts.
    pub fn send_cut(&mut self, bytes: &[u8], cuts: &[usize]) -> bool {
        let mut start = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            let end = cut.clamp(start, bytes.len());
            if !self.send(&bytes[start..end]) {
                return false;
            }
            start = end;
            if end < bytes.len() {
                self.wait_until_read();
            }
        }
        true
    }

    /// Ends the client's side of the connection (FIN).
    pub fn finish_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Resets the connection.
    pub fn reset(self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
    }

    /// Sends a request without body and reads the response.
    pub fn ask(&mut self, method: &str, target: &str, fields: &[&str]) -> Result<Response, Broken> {
        self.send(request_text(method, target, fields));
        self.response(method)
    }

    /// Reads the next whole response. `method` is the method of its request.
    pub fn response(&mut self, method: &str) -> Result<Response, Broken> {
        let (response, size) = self.read_until(method, |_, size| size.is_some())?;
        self.unread.drain(..size.unwrap_or(0));
        Ok(response)
    }

    /// Reads the next response until `is_enough` accepts it. Its bytes stay unread, so that a later
    /// call returns them again.
    pub fn peek(
        &mut self,
        method: &str,
        is_enough: impl Fn(&Response) -> bool,
    ) -> Result<Response, Broken> {
        let (response, _) =
            self.read_until(method, |response, size| size.is_some() || is_enough(response))?;
        Ok(response)
    }

    /// Reads every byte until the server ends the connection. Returns the bytes, and how the
    /// connection ended; `None` if the server does not end it in time.
    pub fn rest(&mut self) -> (Vec<u8>, Option<End>) {
        let deadline = Deadline::after(self.patience);
        while self.end.is_none() && self.fill(deadline) {}
        (std::mem::take(&mut self.unread), self.end)
    }

    /// Whether the server ends the connection without another byte.
    pub fn is_closed_cleanly(&mut self) -> bool {
        let (rest, end) = self.rest();
        rest.is_empty() && end.is_some()
    }

    fn read_until(
        &mut self,
        method: &str,
        is_enough: impl Fn(&Response, Option<usize>) -> bool,
    ) -> Result<(Response, Option<usize>), Broken> {
        let deadline = Deadline::after(self.patience);
        loop {
            // A body without framing ends only with an orderly close.
            let is_end = self.end == Some(End::Closed);
            let found = Response::parse(&self.unread, method, is_end).map_err(Broken::Fault)?;
            let so_far = match found {
                Some((response, size)) if is_enough(&response, size) => {
                    return Ok((response, size));
                }
                found => found.map(|(response, _)| Box::new(response)),
            };
            if let Some(end) = self.end {
                return Err(Broken::Cut(end, so_far));
            }
            if !self.fill(deadline) {
                return Err(Broken::TimedOut(so_far));
            }
        }
    }

    /// Reads once; `false` if the deadline passed.
    fn fill(&mut self, deadline: Deadline) -> bool {
        let Some(left) = deadline.remaining() else {
            return false;
        };
        let _ = self.stream.set_read_timeout(Some(left));
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return false,
                ErrorKind::Interrupted => {}
                _ => self.end = Some(End::Reset),
            },
        }
        true
    }

    /// Waits until the server's receive queue is empty, according to the kernel's socket table. A
    /// server that stops reading is waited for only briefly, since it cannot see the cut.
    fn wait_until_read(&self) {
        let wanted = format!("{} {}", table_address(self.server), table_address(self.address()));
        holds_within(Duration::from_millis(200), || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
            let line = table.lines().find(|line| line.contains(&wanted));
            let queues = line.and_then(|line| line.split_whitespace().nth(4));
            queues.is_none_or(|queues| queues.ends_with(":00000000"))
        });
    }
}

/// A request without body, for the host `example.test`.
pub fn request_text(method: &str, target: &str, fields: &[&str]) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: example.test\r\n");
    for field in fields {
        text.push_str(field);
        text.push_str("\r\n");
    }
    text + "\r\n"
}

/// An IPv4 address as the kernel's socket table writes it: bytes reversed, in hexadecimal.
fn table_address(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else {
        return String::new();
    };
    let [a, b, c, d] = address.ip().octets();
    format!("{d:02X}{c:02X}{b:02X}{a:02X}:{:04X}", address.port())
}
