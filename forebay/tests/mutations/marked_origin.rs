//! An origin that repeats the marks of its requests, and checks the requests strictly.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use forebay_testkit::escape::show;
use forebay_testkit::{Request, Rng};

use crate::marks::Marks;
use crate::mutator::Mutator;

/// The largest number of faults that the origin keeps; further faults are likely the same.
const FAULTS_MAX: usize = 10;

/// How long a connection waits for the next request after a mutated answer. The proxy may wait for
/// the rest of a body that does not exist.
const MUTATED_IDLE: Duration = Duration::from_millis(20);

/// The origin's answers.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Answers {
    /// Well-formed answers.
    Plain,
    /// Mutations of well-formed answers.
    Mutated,
}

/// An origin on a port of its own. Its threads end with the test's process.
pub(crate) struct MarkedOrigin {
    shared: Arc<Shared>,
    seen_faults: Receiver<String>,
    address: SocketAddr,
}

struct Shared {
    marks: Arc<Marks>,
    mutator: Mutator,
    is_mutating: AtomicBool,
    answer_count: AtomicU64,
    faults: SyncSender<String>,
}

impl MarkedOrigin {
    /// Starts the origin.
    pub(crate) fn start(marks: &Arc<Marks>, answers: Answers, mut rng: Rng) -> MarkedOrigin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (faults, seen_faults) = sync_channel(FAULTS_MAX);
        let shared = Arc::new(Shared {
            marks: Arc::clone(marks),
            mutator: Mutator::of_answers(),
            is_mutating: AtomicBool::new(answers == Answers::Mutated),
            answer_count: AtomicU64::new(0),
            faults,
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (shared, rng) = (Arc::clone(&accepting), rng.fork());
                let _ = stream.set_nodelay(true);
                thread::spawn(move || shared.serve(stream, rng));
            }
        });
        MarkedOrigin { shared, seen_faults, address }
    }

    /// The origin's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of answers so far.
    pub(crate) fn answer_count(&self) -> u64 {
        self.shared.answer_count.load(Relaxed)
    }

    /// Ends the mutations.
    pub(crate) fn answer_plainly(&self) {
        self.shared.is_mutating.store(false, Relaxed);
    }

    /// Faults of the proxy in its requests: bytes that are not a request, or the marks of two
    /// clients in one request.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.seen_faults.try_iter().collect()
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream, mut rng: Rng) {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            match Request::parse(&bytes) {
                Ok(Some((request, Some(size)))) => {
                    self.check(&request, &bytes[..size]);
                    let answer = self.answer(&request, &mut rng);
                    bytes.drain(..size);
                    if stream.write_all(&answer.bytes).is_err() {
                        return;
                    }
                    self.answer_count.fetch_add(1, Relaxed);
                    if answer.ends_connection {
                        let _ = stream.shutdown(Shutdown::Write);
                    }
                    let idle = answer.is_mutated.then_some(MUTATED_IDLE);
                    let _ = stream.set_read_timeout(idle);
                }
                Ok(_) => match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                },
                Err(fault) => return self.add_fault(format!("{fault} in {}", show(&bytes))),
            }
        }
    }

    fn check(&self, request: &Request, bytes: &[u8]) {
        if !request.faults.is_empty() {
            self.add_fault(format!("{:?} in {}", request.faults, show(bytes)));
        }
        let marks: BTreeSet<String> = self.marks.found_in(bytes).collect();
        if marks.len() > 1 {
            self.add_fault(format!("the marks of two clients in {}", show(bytes)));
        }
    }

    fn add_fault(&self, fault: String) {
        // If there are many faults, the first faults are enough.
        let _ = self.faults.try_send(fault);
    }

    fn answer(&self, request: &Request, rng: &mut Rng) -> Answer {
        // The answer to a path that is the same for all clients depends on a field that its Vary
        // names. A storable answer to any other path depends on the path alone.
        let stored = format!("{} {}", request.method, request.target);
        let field: Vec<&str> = request.head.all("x-mark").collect();
        let (control, body) = match request.target.as_str() {
            "/varies" => ("max-age=60\r\nVary: X-Mark", field.join(" ")),
            target if target.contains("/stored/") => ("max-age=60", stored),
            _ => ("no-store", format!("{stored} {}", field.join(" "))),
        };
        if !self.is_mutating.load(Relaxed) {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: {length}\r\n\r\n"
            );
            let body = if request.method == "HEAD" { String::new() } else { body };
            return Answer::plain(head + &body);
        }
        let mark = self.marks.found_in(body.as_bytes()).next().unwrap_or_default();
        let mut bytes = self.mutator.mutated(rng, &mark);
        if request.target == "/varies" {
            // Without Vary this answer, which has a client's mark, would be for all clients.
            let end = bytes.windows(2).position(|window| window == b"\r\n").unwrap_or(0);
            bytes.splice(end..end, *b"\r\nVary: X-Mark");
        }
        Answer { bytes, ends_connection: rng.below(4) == 0, is_mutated: true }
    }
}

struct Answer {
    bytes: Vec<u8>,
    ends_connection: bool,
    is_mutated: bool,
}

impl Answer {
    fn plain(text: String) -> Answer {
        Answer { bytes: text.into_bytes(), ends_connection: false, is_mutated: false }
    }
}
