//! A scripted origin: a TCP listener that answers as the test says, and records every byte that
//! arrives.
//!
//! Invariant: every byte of every connection is either part of a recorded request or named in a
//! fault. If `faults()` is empty, `requests()` is therefore complete.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crate::clock::{PATIENCE, eventually};
use crate::escape::show;
use crate::request::Request;
use crate::script::{Script, Step, locked};

/// A running origin; it stops and closes its connections when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

type Answer = dyn Fn(&Request) -> Script + Send + Sync;

struct Shared {
    answer: Box<Answer>,
    record: Mutex<Record>,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Record {
    requests: Vec<Request>,
    connections: Vec<Connection>,
    streams: Vec<Weak<TcpStream>>,
    seen_count: HashMap<String, usize>,
}

/// One connection and its bytes.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Every byte received.
    pub bytes: Vec<u8>,
    /// Whether either side has ended the connection.
    pub is_closed: bool,
    /// Descriptions of bytes that are not a valid request.
    pub faults: Vec<String>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Origin {
    /// Starts an origin on a free port of loopback. `answer` gets each request when its head has
    /// arrived, and returns the steps of the response.
    pub fn start(answer: impl Fn(&Request) -> Script + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        Origin::serve(listener, answer)
    }

    /// Starts an origin at the address of an origin that was dropped.
    pub fn start_at(
        address: SocketAddr,
        answer: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) -> Origin {
        let mut listener = None;
        eventually("the address is free", || {
            listener = TcpListener::bind(address).ok();
            listener.is_some()
        });
        Origin::serve(listener.expect("bound above"), answer)
    }

    fn serve(
        listener: TcpListener,
        answer: impl Fn(&Request) -> Script + Send + Sync + 'static,
    ) -> Origin {
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            record: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&accepting, &listener));
        Origin { address, shared }
    }

    /// Starts an origin that answers every request with its method, target and body, so that a
    /// client can tell which response belongs to which request. No response is storable.
    pub fn echo() -> Origin {
        Origin::start(echo_script)
    }

    /// Stops the origin, and waits until connections to it are refused.
    pub fn stop(self) {
        let address = self.address;
        drop(self);
        eventually("connections are refused", || TcpStream::connect(address).is_err());
    }

    /// The address on which the origin listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns every request so far, in order of arrival. The bodies of the last requests may still
    /// be arriving.
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.record).requests.clone()
    }

    /// Returns the requests whose target begins with `prefix`.
    pub fn requests_below(&self, prefix: &str) -> Vec<Request> {
        let record = locked(&self.shared.record);
        record.requests.iter().filter(|seen| seen.target.starts_with(prefix)).cloned().collect()
    }

    /// The number of requests so far.
    pub fn request_count(&self) -> usize {
        locked(&self.shared.record).requests.len()
    }

    /// Returns the requests after the first `count`.
    pub fn requests_since(&self, count: usize) -> Vec<Request> {
        locked(&self.shared.record).requests.get(count..).unwrap_or_default().to_vec()
    }

    /// The number of requests for this target.
    pub fn count(&self, target: &str) -> usize {
        locked(&self.shared.record).seen_count.get(target).copied().unwrap_or(0)
    }

    /// Every connection that the origin has accepted so far.
    pub fn connections(&self) -> Vec<Connection> {
        locked(&self.shared.record).connections.clone()
    }

    /// Returns every fault of every connection and request, with the index of the connection.
    pub fn faults(&self) -> Vec<String> {
        let record = locked(&self.shared.record);
        let mut faults = Vec::new();
        for (number, connection) in record.connections.iter().enumerate() {
            faults.extend(connection.faults.iter().map(|fault| (number, fault.clone())));
        }
        for request in &record.requests {
            faults.extend(request.faults.iter().map(|fault| (request.connection, fault.clone())));
        }
        faults.into_iter().map(|(number, fault)| format!("connection {number}: {fault}")).collect()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Relaxed);
        for stream in locked(&self.shared.record).streams.iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accept loop, which then reads the flag.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

fn echo_script(request: &Request) -> Script {
    if request.method == "HEAD" {
        return Script::answer("200 OK", &["Cache-Control: no-store"], b"");
    }
    let content = format!("{} {}", request.method, request.target);
    Script::answer("200 OK", &["Cache-Control: no-store"], content.as_bytes())
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_stopping.load(Relaxed) {
            return;
        }
        let _ = stream.set_nodelay(true);
        let _ = stream.set_read_timeout(Some(PATIENCE * 3));
        let _ = stream.set_write_timeout(Some(PATIENCE * 3));
        let stream = Arc::new(stream);
        let number = {
            let mut record = locked(&shared.record);
            record.connections.push(Connection::default());
            record.streams.push(Arc::downgrade(&stream));
            record.connections.len() - 1
        };
        let shared = Arc::clone(shared);
        thread::spawn(move || Worker { shared: &shared, stream: &stream, number, at: 0 }.run());
    }
}

/// Serves one connection.
struct Worker<'a> {
    shared: &'a Shared,
    stream: &'a TcpStream,
    number: usize,
    /// The offset of the next request in the connection's bytes.
    at: usize,
}

/// Says that a connection is over.
struct Over;

impl Worker<'_> {
    fn run(mut self) {
        while self.serve_one().is_ok() {}
        let mut record = locked(&self.shared.record);
        let connection = &mut record.connections[self.number];
        let rest = connection.bytes.get(self.at..).unwrap_or_default();
        let leftover = match Request::parse(rest) {
            Ok(Some((_, Some(size)))) => &rest[size..],
            Ok(Some((_, None))) => &[],
            Ok(None) | Err(_) => rest,
        };
        if !leftover.is_empty() && connection.faults.is_empty() {
            connection.faults.push(format!("not a request: {}", show(leftover)));
        }
        connection.is_closed = true;
    }

    fn serve_one(&mut self) -> Result<(), Over> {
        let index = self.next_request()?;
        let request = locked(&self.shared.record).requests[index].clone();
        for step in (self.shared.answer)(&request).steps {
            self.perform(step, index)?;
        }
        self.finish_body(index)
    }

    fn perform(&mut self, step: Step, index: usize) -> Result<(), Over> {
        match step {
            Step::ReadBody => self.read_body(index),
            Step::Send(bytes) => self.send(&bytes),
            Step::Wait(gate) => {
                if gate.wait() {
                    Ok(())
                } else {
                    Err(Over)
                }
            }
            Step::Open(gate) => {
                gate.open();
                Ok(())
            }
            Step::Close => {
                let _ = self.stream.shutdown(Shutdown::Write);
                self.drain()
            }
            Step::Reset => {
                // A linger time of zero turns the close into a reset.
                let _ = rustix::net::sockopt::set_socket_linger(self.stream, Some(Duration::ZERO));
                Err(Over)
            }
            Step::Stall => self.drain(),
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Over> {
        let mut stream = self.stream;
        stream.write_all(bytes).map_err(|_| Over)
    }

    /// Reads until a whole request head has arrived, and records the request.
    fn next_request(&mut self) -> Result<usize, Over> {
        loop {
            if let Some(mut request) = self.parse()? {
                let mut record = locked(&self.shared.record);
                let seen = record.seen_count.entry(request.target.clone()).or_default();
                request.nth = *seen;
                request.connection = self.number;
                *seen += 1;
                record.requests.push(request);
                return Ok(record.requests.len() - 1);
            }
            self.read()?;
        }
    }

    /// Reads until the body of request `index` is whole, and records it as it grows.
    fn read_body(&mut self, index: usize) -> Result<(), Over> {
        loop {
            let Some(now) = self.parse()? else {
                return Err(Over);
            };
            let is_whole = now.is_whole;
            {
                let mut record = locked(&self.shared.record);
                let known = &mut record.requests[index];
                *known = Request { connection: known.connection, nth: known.nth, ..now };
            }
            if is_whole {
                return Ok(());
            }
            self.read()?;
        }
    }

    /// Advances `at` past the request, so that the next request is parsed from there.
    fn finish_body(&mut self, index: usize) -> Result<(), Over> {
        self.read_body(index)?;
        let mut record = locked(&self.shared.record);
        let connection = &mut record.connections[self.number];
        if let Ok(Some((_, Some(size)))) = Request::parse(&connection.bytes[self.at..]) {
            self.at += size;
        }
        Ok(())
    }

    /// Parses the request at `at` as far as it has arrived. Bytes that cannot be a request end the
    /// connection.
    fn parse(&self) -> Result<Option<Request>, Over> {
        let mut record = locked(&self.shared.record);
        let connection = &mut record.connections[self.number];
        let fault = match Request::parse(&connection.bytes[self.at..]) {
            Ok(found) => return Ok(found.map(|(request, _)| request)),
            Err(fault) => fault,
        };
        connection.faults.push(format!("{fault} in {}", show(&connection.bytes[self.at..])));
        drop(record);
        let _ = self.send(b"HTTP/1.1 400 Lint\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        Err(Over)
    }

    /// Reads and records until the other side closes.
    fn drain(&self) -> Result<(), Over> {
        while self.read().is_ok() {}
        Err(Over)
    }

    fn read(&self) -> Result<(), Over> {
        let mut buffer = [0; 64 * 1024];
        let mut stream = self.stream;
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => Err(Over),
            Ok(count) => {
                let mut record = locked(&self.shared.record);
                record.connections[self.number].bytes.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}
