//! The whole flow as an operation: a server in this process answers a client's requests from
//! memory. Only the server's workers are counted, each of which answers on one connection.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use forebay_conflict::{Counts, Plan, Refused, count_named};
use forebay_server::clock;
use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::counters::Counter;
use forebay_server::engine::{Hooks, Stopper, start};
use forebay_shm::CounterFile;
use forebay_testkit::{Origin, Script};

use crate::workloads::Expected;

/// A row of the table whose operation is a request to a server.
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
    key_count: usize,
    access_log: bool,
}

/// The rows for requests to a server. With the access log, a worker hands over many lines at once,
/// so a hit causes less than one write on a line in conflict. If a worker handed over each line by
/// itself, a hit would cause one more write.
pub(crate) const FLOWS: &[Flow] = &[
    Flow {
        name: "whole flow, hit, 1 key",
        expected: Expected::NoConflict,
        key_count: 1,
        access_log: false,
    },
    Flow {
        name: "whole flow, hit, 10,000 keys",
        expected: Expected::NoConflict,
        key_count: 10_000,
        access_log: false,
    },
    Flow {
        name: "whole flow, hit, 1 key, access log",
        expected: Expected::AtMost(1),
        key_count: 1,
        access_log: true,
    },
    Flow {
        name: "whole flow, hit, 10,000 keys, access log",
        expected: Expected::AtMost(1),
        key_count: 10_000,
        access_log: true,
    },
];

/// The body length of even keys, which is copied behind the head, and of odd keys, which is sent
/// from the cache's memory.
const SHORT_BYTES: usize = 1 << 10;
const LONG_BYTES: usize = 16 << 10;

/// How often each key is used before the count, so that its use bits reach their maximum.
const USES: usize = 4;
/// The number of requests of each worker before the count, and how long a worker serves before the
/// count, so that one-time costs are not counted. Workers that have just started look for room in
/// the store every 50 ms until its lock is free.
const WARM_UP: usize = 100;
const WARM_UP_MS: u64 = 500;
/// The number of requests that are sent at once while the store is filled.
const BATCH: usize = 100;
/// The most connections that are tried. The kernel picks the worker of each connection, and even
/// the last of 64 workers must get one.
const CONNECTIONS_MAX: usize = 10_000;
/// The distance from one requested key to the next, without a common factor with the numbers of
/// keys.
const STRIDE: usize = 7919;

impl Flow {
    /// Counts the accesses of a server's workers for one request.
    pub(crate) fn count(&self, plan: Plan) -> Result<Counts, Refused> {
        let begin = || {
            let mut subject = Subject::start(self, plan.threads);
            subject.fill(self.key_count);
            let until_ms = clock::monotonic_ms() + WARM_UP_MS;
            while clock::monotonic_ms() < until_ms {
                subject.ask_all(self.key_count, WARM_UP);
            }
            subject
        };
        let operations = plan.operations as usize;
        count_named(plan, c"worker-", begin, |subject| subject.ask_all(self.key_count, operations))
    }
}

/// A server, its origin, and a client of each of its workers.
struct Subject {
    clients: Vec<Client>,
    server: Server,
    origin: Origin,
}

impl Subject {
    fn start(flow: &Flow, workers: usize) -> Subject {
        let origin = Origin::start(|request| {
            let is_even = request.target.ends_with(['0', '2', '4', '6', '8']);
            let body_bytes = if is_even { SHORT_BYTES } else { LONG_BYTES };
            let fields = ["Cache-Control: max-age=3600", "Content-Type: text/plain"];
            Script::answer("200 OK", &fields, &vec![b'x'; body_bytes])
        });
        let server = Server::start(origin.address(), workers, flow.access_log);
        let mut clients: Vec<Option<Client>> = (0..workers).map(|_| None).collect();
        for _ in 0..CONNECTIONS_MAX {
            let mut client = Client::connect(server.address);
            let worker = server.worker_that_counts(workers, || client.ask(1, &mut |_| 0));
            clients[worker].get_or_insert(client);
            if clients.iter().all(Option::is_some) {
                break;
            }
        }
        let clients: Vec<_> = clients.into_iter().flatten().collect();
        assert_eq!(clients.len(), workers, "a worker got none of {CONNECTIONS_MAX} connections");
        Subject { clients, server, origin }
    }

    /// Stores each key, and uses it until further use changes nothing.
    fn fill(&mut self, key_count: usize) {
        let client = &mut self.clients[0];
        for _ in 0..=USES {
            for first in (0..key_count).step_by(BATCH) {
                let count = BATCH.min(key_count - first);
                let mut next = first;
                client.ask(count, &mut |_| {
                    next += 1;
                    next - 1
                });
            }
        }
        assert_eq!(self.origin.request_count(), key_count, "a key was not fetched exactly once");
    }

    /// Makes each worker answer `count` requests, all workers at once. Each client begins with
    /// another key.
    fn ask_all(&mut self, key_count: usize, count: usize) {
        let hits = self.server.sum(Counter::Hits);
        for turn in 0..count {
            for (worker, client) in self.clients.iter_mut().enumerate() {
                client.send(1, &mut |_| (turn + worker) * STRIDE % key_count);
            }
            self.clients.iter_mut().for_each(|client| client.receive(1));
        }
        let answered = self.server.sum(Counter::Hits) - hits;
        assert_eq!(answered, (self.clients.len() * count) as u64, "a request was not a hit");
    }
}

/// A server in this process, which stops when it is dropped.
struct Server {
    address: SocketAddr,
    counters: CounterFile,
    stopper: Stopper,
    thread: Option<JoinHandle<bool>>,
    runtime_dir: PathBuf,
}

impl Server {
    fn start(origin: SocketAddr, workers: usize, access_log: bool) -> Server {
        let runtime_dir = std::env::temp_dir().join(format!("conflict-{}", std::process::id()));
        let (url, dir) = (format!("http://{origin}"), runtime_dir.display().to_string());
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let flags = [
                FlagValue { name: "listen", value: "127.0.0.1:0" },
                FlagValue { name: "workers", value: &workers.to_string() },
                FlagValue { name: "runtime-dir", value: &dir },
                FlagValue {
                    name: "access-log",
                    value: if access_log { "/dev/null" } else { "off" },
                },
            ];
            let config = Config::load(ConfigSource::Origin(&url), &flags);
            let config = config.expect("a valid configuration");
            let again = config.clone();
            let hooks =
                Hooks { load: Box::new(move || Ok(again.clone())), applied: Box::new(|_| ()) };
            let running = start(config, hooks).expect("the server starts");
            tell.send((running.address, running.counters(), running.stopper()))
                .expect("the starting thread waits for the address");
            running.run().expect("the server runs")
        });
        let (address, counters, stopper) = told.recv().expect("the server starts");
        Server { address, counters, stopper, thread: Some(thread), runtime_dir }
    }

    fn sum(&self, counter: Counter) -> u64 {
        self.counters.sum(counter.index())
    }

    /// Returns the index of the worker that answers the requests of `ask`.
    fn worker_that_counts(&self, workers: usize, ask: impl FnOnce()) -> usize {
        let counts = || -> Vec<u64> {
            let count = |slot| self.counters.slot_value(slot, Counter::Requests.index());
            (0..workers).map(count).collect()
        };
        let before = counts();
        ask();
        let grown = counts().iter().zip(&before).position(|(after, before)| after > before);
        grown.expect("a worker answered")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        // The directory contains only the sockets and the counter file of this server.
        let _ = std::fs::remove_dir_all(&self.runtime_dir);
        if !thread::panicking() {
            assert!(
                matches!(ended, Some(Ok(true))),
                "the server stopped before all requests finished"
            );
        }
    }
}

/// A client on one connection.
struct Client {
    stream: TcpStream,
    requests: String,
    input: Vec<u8>,
    filled: usize,
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Client { stream, requests: String::new(), input: vec![0; 1 << 20], filled: 0 }
    }

    /// Sends `count` requests and reads their answers. `key` returns the key of each request.
    fn ask(&mut self, count: usize, key: &mut dyn FnMut(usize) -> usize) {
        self.send(count, key);
        self.receive(count);
    }

    fn send(&mut self, count: usize, key: &mut dyn FnMut(usize) -> usize) {
        self.requests.clear();
        for i in 0..count {
            let key = key(i);
            // Writing to a string cannot fail.
            let _ = fmt::Write::write_fmt(
                &mut self.requests,
                format_args!("GET /obj/{key} HTTP/1.1\r\nHost: www.example.org\r\n\r\n"),
            );
        }
        self.stream.write_all(self.requests.as_bytes()).expect("the connection is kept");
    }

    fn receive(&mut self, count: usize) {
        let mut left = count;
        let mut start = 0;
        while left > 0 {
            if let Some(bytes) = length_of_answer(&self.input[start..self.filled]) {
                (start, left) = (start + bytes, left - 1);
                continue;
            }
            self.input.copy_within(start..self.filled, 0);
            (self.filled, start) = (self.filled - start, 0);
            let count = self.stream.read(&mut self.input[self.filled..]).expect("an answer");
            assert!(count > 0, "the server closed the connection");
            self.filled += count;
        }
        assert_eq!(start, self.filled, "more bytes arrived than the answers");
        self.filled = 0;
    }
}

/// Returns the length of the first answer, once it has arrived completely.
fn length_of_answer(input: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let head = input.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    assert!(input.starts_with(b"HTTP/1.1 200 "), "an answer has another status than 200");
    let length = input[..head].windows(LENGTH.len()).position(|part| part == LENGTH);
    let digits = input[length.expect("the answer has a length") + LENGTH.len()..head].iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (input.len() >= head + body).then_some(head + body)
}
