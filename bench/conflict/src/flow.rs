//! The whole flow as an operation: a server in this process answers a client's requests from
//! memory. Only the server's workers are counted, each of which answers on one connection.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use forebay_conflict::{Counts, Plan, Refused, count_named};
use forebay_server::clock;
use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::counters::Counter;
use forebay_server::engine::{Hooks, Stopper, start};
use forebay_shm::CounterFile;
use forebay_testkit::hit_client::HOST;
use forebay_testkit::server::Folder;
use forebay_testkit::tls::rustls::ClientConfig;
use forebay_testkit::tls::rustls::version::TLS13;
use forebay_testkit::{ClientVersion, HitClient, HitRequest, Origin, Script, TestAuthority};

use crate::workloads::Expected;

/// A row of the table whose operation is a request to a server.
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    pub(crate) expected: Expected,
    version: ClientVersion,
    is_tls: bool,
    /// The number of requests that each client sends at once.
    at_once: usize,
    key_count: usize,
    access_log: bool,
}

const HTTP1: Flow = Flow {
    name: "",
    expected: Expected::NoConflict,
    version: ClientVersion::Http1,
    is_tls: false,
    at_once: 1,
    key_count: 1,
    access_log: false,
};
const HTTP2: Flow = Flow { version: ClientVersion::Http2, ..HTTP1 };

/// The number of keys of the rows with many keys.
const KEYS: usize = 10_000;

/// The rows for requests to a server. With the access log, a worker hands over many lines at once,
/// so a hit causes less than one write on a line in conflict. If a worker handed over each line by
/// itself, a hit would cause one more write.
pub(crate) const FLOWS: &[Flow] = &[
    Flow { name: "whole flow, hit, 1 key", ..HTTP1 },
    Flow { name: "whole flow, hit, 10,000 keys", key_count: KEYS, ..HTTP1 },
    Flow {
        name: "whole flow, hit, 1 key, access log",
        expected: Expected::AtMost(1),
        access_log: true,
        ..HTTP1
    },
    Flow {
        name: "whole flow, hit, 10,000 keys, access log",
        expected: Expected::AtMost(1),
        key_count: KEYS,
        access_log: true,
        ..HTTP1
    },
    Flow { name: "whole flow, hit over TLS, 10,000 keys", is_tls: true, key_count: KEYS, ..HTTP1 },
    Flow { name: "whole flow, hit over HTTP/2, 1 key", ..HTTP2 },
    Flow { name: "whole flow, hit over HTTP/2, 10,000 keys", key_count: KEYS, ..HTTP2 },
    Flow {
        name: "whole flow, 10 hits at once over HTTP/2, 10,000 keys",
        at_once: 10,
        key_count: KEYS,
        ..HTTP2
    },
    Flow {
        name: "whole flow, hit over HTTP/2 and TLS, 10,000 keys",
        is_tls: true,
        key_count: KEYS,
        ..HTTP2
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
            subject.fill();
            let until_ms = clock::monotonic_ms() + WARM_UP_MS;
            while clock::monotonic_ms() < until_ms {
                subject.ask_all(WARM_UP);
            }
            subject
        };
        let operations = plan.operations as usize;
        count_named(plan, c"worker-", begin, |subject| subject.ask_all(operations))
    }
}

/// A server, its origin, and a client of each of its workers.
struct Subject<'f> {
    flow: &'f Flow,
    clients: Vec<HitClient>,
    server: Server,
    origin: Origin,
}

impl Subject<'_> {
    fn start(flow: &Flow, workers: usize) -> Subject<'_> {
        let origin = Origin::start(|request| {
            let is_even = request.target.ends_with(['0', '2', '4', '6', '8']);
            let body_bytes = if is_even { SHORT_BYTES } else { LONG_BYTES };
            let fields = ["Cache-Control: max-age=3600", "Content-Type: text/plain"];
            Script::answer("200 OK", &fields, &vec![b'x'; body_bytes])
        });
        let server = Server::start(origin.address(), workers, flow.access_log);
        let mut clients: Vec<Option<HitClient>> = (0..workers).map(|_| None).collect();
        for _ in 0..CONNECTIONS_MAX {
            let mut client = server.connect(flow);
            let ask = || with_requests(std::iter::once(0), |requests| client.ask(requests));
            let worker = server.worker_that_counts(workers, ask);
            clients[worker].get_or_insert(client);
            if clients.iter().all(Option::is_some) {
                break;
            }
        }
        let clients: Vec<_> = clients.into_iter().flatten().collect();
        assert_eq!(clients.len(), workers, "a worker got none of {CONNECTIONS_MAX} connections");
        Subject { flow, clients, server, origin }
    }

    /// Stores each key, and uses it until further use changes nothing.
    fn fill(&mut self) {
        let (client, key_count) = (&mut self.clients[0], self.flow.key_count);
        for _ in 0..=USES {
            for first in (0..key_count).step_by(BATCH) {
                let keys = first..key_count.min(first + BATCH);
                with_requests(keys, |requests| client.ask(requests));
            }
        }
        assert_eq!(self.origin.request_count(), key_count, "a key was not fetched exactly once");
    }

    /// Makes each worker answer `count` requests, all workers at once. Each client begins with
    /// another key.
    fn ask_all(&mut self, count: usize) {
        let Flow { at_once, key_count, .. } = *self.flow;
        let hits = self.server.sum(Counter::Hits);
        for turn in (0..count).step_by(at_once) {
            let keys_of = |worker: usize| {
                (turn..turn + at_once).map(move |turn| (turn + worker) * STRIDE % key_count)
            };
            for (worker, client) in self.clients.iter_mut().enumerate() {
                with_requests(keys_of(worker), |requests| client.send(requests));
            }
            for (worker, client) in self.clients.iter_mut().enumerate() {
                with_requests(keys_of(worker), |requests| client.receive(requests));
            }
        }
        let answered = self.server.sum(Counter::Hits) - hits;
        assert_eq!(answered, (self.clients.len() * count) as u64, "a request was not a hit");
    }
}

/// Passes requests for the keys to `action`.
fn with_requests(keys: impl Iterator<Item = usize>, action: impl FnOnce(&[HitRequest<'_>])) {
    let targets: Vec<_> = keys.map(|key| format!("/obj/{key}")).collect();
    let request = |target| HitRequest { method: "GET", target, fields: &[], status: 200 };
    let requests: Vec<_> = targets.iter().map(|target| request(&target[..])).collect();
    action(&requests);
}

/// A server in this process, which stops when it is dropped.
struct Server {
    plain: SocketAddr,
    tls: SocketAddr,
    trusting: Arc<ClientConfig>,
    counters: CounterFile,
    stopper: Stopper,
    thread: Option<JoinHandle<bool>>,
    _folder: Folder,
}

impl Server {
    fn start(origin: SocketAddr, workers: usize, access_log: bool) -> Server {
        let (folder, authority) = (Folder::new(), TestAuthority::new());
        let (cert, key) = authority.issue(&[HOST]).write(&folder.path(""), "server");
        let [dir, cert, key] =
            [folder.path("run"), cert, key].map(|path| path.display().to_string());
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let flags = [
                ("listen", "127.0.0.1:0"),
                ("http2", "true"),
                ("listen-tls", "127.0.0.1:0"),
                ("tls-cert", &cert),
                ("tls-key", &key),
                ("workers", &workers.to_string()),
                // The first connection waits until each worker has one.
                ("idle-ms-max", "1h"),
                ("runtime-dir", &dir),
                ("access-log", if access_log { "/dev/null" } else { "off" }),
            ];
            let flags = flags.map(|(name, value)| FlagValue { name, value });
            let url = format!("http://{origin}");
            let config = Config::load(ConfigSource::Origin(&url), &flags);
            let config = config.expect("a valid configuration");
            let again = config.clone();
            let hooks =
                Hooks { load: Box::new(move || Ok(again.clone())), applied: Box::new(|_| ()) };
            let running = start(config, hooks).expect("the server starts");
            tell.send((running.urls.clone(), running.counters(), running.stopper()))
                .expect("the starting thread waits for the addresses");
            running.run().expect("the server runs")
        });
        let (urls, counters, stopper) = told.recv().expect("the server starts");
        let address = |scheme| {
            let mut addresses = urls.iter().filter_map(|url| url.strip_prefix(scheme));
            addresses.next().and_then(|address| address.parse().ok()).expect("an address")
        };
        let (plain, tls) = (address("http://"), address("https://"));
        let (trusting, thread) = (authority.client(&[&TLS13]), Some(thread));
        Server { plain, tls, trusting, counters, stopper, thread, _folder: folder }
    }

    fn connect(&self, flow: &Flow) -> HitClient {
        match flow.is_tls {
            true => HitClient::connect_tls(self.tls, flow.version, &self.trusting),
            false => HitClient::connect(self.plain, flow.version),
        }
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
        if !thread::panicking() {
            assert!(
                matches!(ended, Some(Ok(true))),
                "the server stopped before all requests finished"
            );
        }
    }
}
