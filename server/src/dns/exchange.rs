//! One question and its answer: name servers are asked over UDP one after the other, and over TCP
//! for an answer that does not fit into a datagram.
#![expect(clippy::big_endian_bytes, reason = "the byte order of DNS (RFC 1035 §2.3.2)")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use aws_lc_rs::rand;

use super::message::{AnswerReading, DnsAnswer, DnsQuestion};
use crate::clock;
use crate::limits::{DNS_ATTEMPT_MS, DNS_MESSAGE_BYTES_MAX, DNS_ROUNDS_MAX};

/// Larger than any datagram that a server may send, so that a longer one is seen to be too long.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 10;

/// A request to one name server, which must be answered by `deadline_ms`.
struct DnsRequest<'a> {
    question: &'a DnsQuestion<'a>,
    server: SocketAddr,
    id: u16,
    bytes: Vec<u8>,
    deadline_ms: u64,
}

/// Asks the servers, each of them [`DNS_ROUNDS_MAX`] times, until one has an answer.
///
/// # Errors
/// The failure of the server that was asked last.
pub(super) fn exchange(
    servers: &[SocketAddr],
    question: &DnsQuestion<'_>,
) -> io::Result<DnsAnswer> {
    let mut failure = io::Error::other("there is no name server");
    for _ in 0..DNS_ROUNDS_MAX {
        for server in servers {
            match ask(*server, question) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let text = format!("name server {server}: {error}");
                    failure = io::Error::new(error.kind(), text);
                }
            }
        }
    }
    Err(failure)
}

fn ask(server: SocketAddr, question: &DnsQuestion<'_>) -> io::Result<DnsAnswer> {
    let request = DnsRequest::new(server, question)?;
    if let Some(answer) = request.ask_over_udp()? {
        return Ok(answer);
    }
    DnsRequest::new(server, question)?.ask_over_tcp()
}

impl<'a> DnsRequest<'a> {
    fn new(server: SocketAddr, question: &'a DnsQuestion<'a>) -> io::Result<DnsRequest<'a>> {
        let mut id = [0; 2];
        rand::fill(&mut id).map_err(|_| io::Error::other("the system has no random bytes"))?;
        let id = u16::from_be_bytes(id);
        let bytes = question.request(id).ok_or(io::Error::other("this is no DNS name"))?;
        let deadline_ms = clock::monotonic_ms() + DNS_ATTEMPT_MS;
        Ok(DnsRequest { question, server, id, bytes, deadline_ms })
    }

    /// Returns the answer; `None` if it was truncated.
    fn ask_over_udp(&self) -> io::Result<Option<DnsAnswer>> {
        let any: IpAddr = match self.server.is_ipv4() {
            true => IpAddr::from([0; 4]),
            false => IpAddr::from([0; 16]),
        };
        // The system chooses a random port, and a connected socket receives only from the server.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(self.server)?;
        socket.send(&self.bytes)?;
        let mut buffer = [0; DATAGRAM_BUFFER_BYTES];
        loop {
            socket.set_read_timeout(Some(self.time_left()?))?;
            let length = match socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if is_wait_over(&error) => continue,
                Err(error) => return Err(error),
            };
            match self.question.read(self.id, buffer.get(..length).unwrap_or_default()) {
                AnswerReading::Foreign => {}
                AnswerReading::Truncated => return Ok(None),
                AnswerReading::Refused(why) => return Err(io::Error::other(why)),
                AnswerReading::Whole(answer) => return Ok(Some(answer)),
            }
        }
    }

    fn ask_over_tcp(&self) -> io::Result<DnsAnswer> {
        let mut stream = TcpStream::connect_timeout(&self.server, self.time_left()?)?;
        stream.set_write_timeout(Some(self.time_left()?))?;
        let length = u16::try_from(self.bytes.len()).map_err(io::Error::other)?;
        let framed: Vec<u8> = length.to_be_bytes().into_iter().chain(self.bytes.clone()).collect();
        stream.write_all(&framed)?;
        let mut length = [0; 2];
        self.read_exact(&mut stream, &mut length)?;
        let length = usize::from(u16::from_be_bytes(length));
        if length > DNS_MESSAGE_BYTES_MAX {
            let text = format!("the answer has more than {DNS_MESSAGE_BYTES_MAX} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, text));
        }
        let mut bytes = vec![0; length];
        self.read_exact(&mut stream, &mut bytes)?;
        match self.question.read(self.id, &bytes) {
            AnswerReading::Whole(answer) => Ok(answer),
            AnswerReading::Refused(why) => Err(io::Error::other(why)),
            AnswerReading::Foreign | AnswerReading::Truncated => {
                Err(io::Error::new(ErrorKind::InvalidData, "the answer is malformed"))
            }
        }
    }

    /// Reads as many bytes as `buffer` has room for, before the deadline, whatever the pace of the
    /// server is.
    fn read_exact(&self, stream: &mut TcpStream, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            stream.set_read_timeout(Some(self.time_left()?))?;
            match stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => buffer = buffer.get_mut(length..).unwrap_or_default(),
                Err(error) if is_wait_over(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn time_left(&self) -> io::Result<Duration> {
        match self.deadline_ms.saturating_sub(clock::monotonic_ms()) {
            0 => {
                let text = format!("no answer in {DNS_ATTEMPT_MS} ms");
                Err(io::Error::new(ErrorKind::TimedOut, text))
            }
            left_ms => Ok(Duration::from_millis(left_ms)),
        }
    }
}

/// Whether a wait ended without a result, so that the deadline decides.
fn is_wait_over(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
