//! Origins that are configured by name, with a scripted resolver. The tests check how often the
//! resolver is called, which addresses are tried, and how requests end if the resolver fails or
//! does not answer.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use forebay_server::clock;
use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::counters::Counter;
use forebay_server::engine::{Hooks, Resolver, Stopper, start_with_resolver};
use forebay_shm::CounterFile;
use forebay_testkit::client::request_text;
use forebay_testkit::{Client, Gate, Origin, eventually};

/// One step of the resolver's script; the last step is repeated.
#[derive(Clone)]
enum Does {
    Finds(Vec<SocketAddr>),
    Fails,
    Panics,
    /// Waits until the gate opens, then returns these addresses.
    Hangs(Gate, Vec<SocketAddr>),
}

/// How often the resolver has been called, and how often it has returned.
#[derive(Default)]
struct Asked {
    began_count: AtomicUsize,
    ended_count: AtomicUsize,
}

struct Server {
    address: SocketAddr,
    counters: CounterFile,
    stopper: Stopper,
    thread: Option<JoinHandle<bool>>,
    asked: Arc<Asked>,
    runtime_dir: PathBuf,
}

impl Server {
    /// Starts a server in front of an origin that is configured by name, with a resolver that
    /// follows `script`. Connections to the origin are not kept open, so that each request needs an
    /// address.
    fn start(script: Vec<Does>, flags: &[(&str, &str)]) -> Server {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let own = format!("forebay-hosts-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let runtime_dir = std::env::temp_dir().join(own);
        let runtime = runtime_dir.display().to_string();
        let fixed = [
            ("listen", "127.0.0.1:0"),
            ("workers", "2"),
            ("runtime-dir", &runtime),
            ("origin-pool-idle-count-max", "0"),
        ];
        let flags = fixed.iter().chain(flags).map(|&(name, value)| FlagValue { name, value });
        let flags: Vec<_> = flags.collect();
        let source = ConfigSource::Origin("http://origin.test:80");
        let config = Config::load(source, &flags).expect("a valid configuration");
        let asked = Arc::new(Asked::default());
        let resolver = resolver(script, Arc::clone(&asked));
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let again = config.clone();
            let load = Box::new(move || Ok(again.clone()));
            let hooks = Hooks { load, applied: Box::new(|_| ()) };
            let running = start_with_resolver(config, hooks, resolver).expect("it starts");
            let facts = (running.address, running.counters(), running.stopper());
            tell.send(facts).expect("the test waits");
            running.run().expect("it runs")
        });
        let (address, counters, stopper) = told.recv().expect("it starts");
        let thread = Some(thread);
        Server { address, counters, stopper, thread, asked, runtime_dir }
    }

    /// Returns the status of a request on a new connection.
    fn status(&self) -> u16 {
        Client::connect(self.address).ask("GET", "/", &[]).expect("an answer").status
    }

    fn count(&self, counter: Counter) -> u64 {
        self.counters.sum(counter.index())
    }

    fn resolved_count(&self) -> usize {
        self.asked.began_count.load(Relaxed)
    }

    fn is_resolving(&self) -> bool {
        self.resolved_count() > self.asked.ended_count.load(Relaxed)
    }

    /// Stops the server. Returns whether all requests finished in time.
    fn stop(&mut self) -> bool {
        self.stopper.stop();
        self.thread.take().is_some_and(|thread| thread.join().expect("no panic"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
        // The directory contains only this server's own files.
        let _ = std::fs::remove_dir_all(&self.runtime_dir);
    }
}

fn resolver(script: Vec<Does>, asked: Arc<Asked>) -> Resolver {
    Resolver::new(move |host, _| {
        assert_eq!(host, "origin.test");
        let nth = asked.began_count.fetch_add(1, Relaxed).min(script.len() - 1);
        let found = match &script[nth] {
            Does::Finds(addresses) => Ok(addresses.clone()),
            Does::Fails => Err(io::Error::other("the script says so")),
            Does::Panics => panic!("the script says so"),
            Does::Hangs(gate, addresses) => {
                gate.wait();
                Ok(addresses.clone())
            }
        };
        asked.ended_count.fetch_add(1, Relaxed);
        found
    })
}

/// Returns 127.0.0.2 with the origin's port: an address on which no server listens.
fn closed_address(origin: &Origin) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 2], origin.address().port()))
}

#[test]
fn many_requests_of_all_workers_wait_for_one_resolution() {
    let (origin, gate) = (Origin::echo(), Gate::new());
    let server = Server::start(vec![Does::Hangs(gate.clone(), vec![origin.address()])], &[]);
    let mut clients: Vec<_> = (0..16)
        .map(|number| {
            let mut client = Client::connect(server.address);
            client.send(request_text("GET", &format!("/{number}"), &[]));
            client
        })
        .collect();
    eventually("the server has read all requests", || server.count(Counter::Requests) == 16);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("an answer").status, 200);
    }
    assert_eq!((origin.request_count(), server.resolved_count()), (16, 1));
    assert_eq!(server.count(Counter::OriginResolutions), 1);
}

#[test]
fn an_address_that_fails_costs_only_the_first_request() {
    let origin = Origin::echo();
    let found = vec![closed_address(&origin), origin.address()];
    let server = Server::start(vec![Does::Finds(found)], &[]);
    for turn in 1..=10 {
        assert_eq!(server.status(), 200, "turn {turn}");
        assert_eq!(server.count(Counter::OriginAddressErrors), 1, "turn {turn}");
    }
    assert_eq!((origin.connections().len(), server.resolved_count()), (10, 1));
    assert_eq!(
        server.count(Counter::OriginConnectErrors),
        0,
        "no request counts as a failed connection to the origin"
    );
}

#[test]
fn the_last_addresses_stay_in_use_while_the_resolver_fails() {
    let origin = Origin::echo();
    let finds = Does::Finds(vec![origin.address()]);
    for fails in [Does::Fails, Does::Finds(Vec::new()), Does::Panics] {
        let started_ms = clock::monotonic_ms();
        // With this setting the addresses become stale immediately.
        let flags = [("origin-address-ms-max", "1ms")];
        let server = Server::start(vec![finds.clone(), fails], &flags);
        for turn in 0..10 {
            assert_eq!(server.status(), 200, "turn {turn}");
            // Wait until the clock has advanced by at least one tick.
            let now_ms = clock::monotonic_ms();
            eventually("the addresses are stale", || clock::monotonic_ms() > now_ms + 1);
        }
        assert_eq!(server.count(Counter::OriginStaleAddresses), 9);
        let errors = || server.count(Counter::OriginResolutionErrors);
        eventually("the failure is counted", || errors() > 0);
        let (errors, seconds) = (errors(), (clock::monotonic_ms() - started_ms) / 1000);
        assert!(errors <= 1 + seconds, "{errors} failed resolutions in {seconds} s");
    }
}

#[test]
fn the_last_addresses_are_not_used_beyond_their_time() {
    let origin = Origin::echo();
    let script = vec![Does::Finds(vec![origin.address()]), Does::Fails];
    let flags = [("origin-address-ms-max", "1ms"), ("origin-stale-address-ms-max", "0")];
    let server = Server::start(script, &flags);
    assert_eq!(server.status(), 200);
    let now_ms = clock::monotonic_ms();
    eventually("the address is too old", || clock::monotonic_ms() > now_ms + 1);
    assert_eq!(server.status(), 502);
    assert_eq!(server.count(Counter::OriginStaleAddresses), 0);
}

#[test]
fn a_resolver_that_hangs_delays_neither_requests_with_an_address_nor_the_stop() {
    let (origin, gate) = (Origin::echo(), Gate::new());
    let hangs = Does::Hangs(gate.clone(), Vec::new());
    let script = vec![Does::Finds(vec![origin.address()]), hangs];
    // The connect timeout is longer than the duration of the test, so only the last address can
    // help.
    let flags = [("origin-address-ms-max", "1ms"), ("origin-connect-ms-max", "10m")];
    let mut server = Server::start(script, &flags);
    for turn in 0..3 {
        assert_eq!(server.status(), 200, "turn {turn}");
        let now_ms = clock::monotonic_ms();
        eventually("the address is stale", || clock::monotonic_ms() > now_ms + 1);
    }
    assert_eq!(server.count(Counter::OriginStaleAddresses), 2);
    assert_eq!(server.resolved_count(), 2, "resolutions run one at a time");
    assert!(server.is_resolving(), "requests waited for the resolver");
    assert!(server.stop(), "all requests had finished");
    assert!(server.is_resolving(), "the stop waited for the resolver");
    gate.open();
}

#[test]
fn a_request_without_an_address_waits_for_as_long_as_a_connection_may_take() {
    let gate = Gate::new();
    let script = vec![Does::Hangs(gate.clone(), Vec::new())];
    let server = Server::start(script, &[("origin-connect-ms-max", "100ms")]);
    assert_eq!((server.status(), server.status()), (504, 504));
    assert_eq!(server.resolved_count(), 1, "the second request waits for the same resolution");
    gate.open();
}

#[test]
fn a_name_without_addresses_is_not_resolved_for_each_request() {
    for fails in [Does::Fails, Does::Finds(Vec::new()), Does::Panics] {
        let started_ms = clock::monotonic_ms();
        // On a busy machine it takes long to handle a panic, so the connect timeout is long.
        let server = Server::start(vec![fails], &[("origin-connect-ms-max", "1m")]);
        for turn in 0..20 {
            assert_eq!(server.status(), 502, "turn {turn}");
        }
        let seconds = usize::try_from((clock::monotonic_ms() - started_ms) / 1000);
        let (resolved, seconds) = (server.resolved_count(), seconds.expect("a short time"));
        assert!(
            (1..=1 + seconds).contains(&resolved),
            "the name was resolved {resolved} times in {seconds} s"
        );
    }
}

#[test]
fn with_zero_a_name_is_resolved_for_each_connection() {
    let origin = Origin::echo();
    let found = vec![closed_address(&origin), origin.address()];
    let server =
        Server::start(vec![Does::Finds(found), Does::Fails], &[("origin-address-ms-max", "0")]);
    let statuses: Vec<_> = (0..4).map(|_| server.status()).collect();
    assert_eq!(statuses, [200, 502, 502, 502]);
    assert_eq!(server.resolved_count(), 4);
    assert_eq!(server.count(Counter::OriginResolutions), 4);
    assert_eq!(server.count(Counter::OriginResolutionErrors), 3);
}

#[test]
fn an_origin_that_moved_is_found_once_its_old_address_fails() {
    let origin = Origin::echo();
    let old = Does::Finds(vec![closed_address(&origin)]);
    let new = Does::Finds(vec![origin.address()]);
    // The address stays fresh for far longer than the test takes, so only the refused connection
    // can cause a resolution.
    let server = Server::start(vec![old, new], &[("origin-address-ms-max", "1h")]);
    assert_eq!((server.status(), server.status()), (200, 200));
    assert_eq!((server.resolved_count(), origin.request_count()), (2, 2));
    assert_eq!(server.count(Counter::OriginConnectErrors), 0, "no request has failed");
}

#[test]
fn no_request_fails_if_an_origin_moves_while_many_connections_are_opened() {
    let origin = Origin::echo();
    let old = closed_address(&origin);
    let (gate, both) = (Gate::new(), vec![old, origin.address()]);
    let script = vec![Does::Finds(vec![old]), Does::Hangs(gate.clone(), both)];
    let server = Server::start(script, &[("origin-address-ms-max", "1h")]);
    let mut clients: Vec<_> = (0..16)
        .map(|number| {
            let mut client = Client::connect(server.address);
            client.send(request_text("GET", &format!("/{number}"), &[]));
            client
        })
        .collect();
    eventually("the server has read all requests", || server.count(Counter::Requests) == 16);
    eventually("the name is resolved again", || server.resolved_count() == 2);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("an answer").status, 200);
    }
    assert_eq!((origin.request_count(), server.resolved_count()), (16, 2));
}

#[test]
fn an_origin_that_is_down_is_resolved_again_at_most_once_a_second() {
    let origin = Origin::echo();
    let started_ms = clock::monotonic_ms();
    let server = Server::start(vec![Does::Finds(vec![closed_address(&origin)])], &[]);
    eventually("the name is resolved again", || {
        assert_eq!(server.status(), 502);
        server.resolved_count() > 1
    });
    let seconds = usize::try_from((clock::monotonic_ms() - started_ms) / 1000);
    let (resolved, seconds) = (server.resolved_count(), seconds.expect("a short time"));
    assert!(resolved <= 2 + seconds, "the name was resolved {resolved} times in {seconds} s");
}

#[test]
fn an_origin_that_moved_is_found_although_its_old_address_does_not_answer() {
    let origin = Origin::echo();
    // The kernel drops requests for connections while the queue of a listening socket is full.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let full = full.expect("a socket");
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    full.listen(0).expect("it listens");
    let old = full.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
    let _queued = TcpStream::connect(old).expect("the queue has room for one");
    let script = vec![Does::Finds(vec![old]), Does::Finds(vec![origin.address()])];
    let flags = [("origin-address-ms-max", "1h"), ("origin-connect-ms-max", "4s")];
    let server = Server::start(script, &flags);
    assert_eq!((server.status(), server.status()), (200, 200));
    assert_eq!((server.resolved_count(), origin.request_count()), (2, 2));
}

#[test]
fn no_request_gets_a_stale_address_from_a_resolver_that_works() {
    let (old, new, gate) = (Origin::echo(), Origin::echo(), Gate::new());
    let hangs = Does::Hangs(gate.clone(), vec![new.address()]);
    let script = vec![Does::Finds(vec![old.address()]), hangs];
    let server = Server::start(script, &[("origin-address-ms-max", "1ms")]);
    assert_eq!(server.status(), 200);
    let now_ms = clock::monotonic_ms();
    eventually("the address is stale", || clock::monotonic_ms() > now_ms + 1);
    let mut clients: Vec<_> = (0..6)
        .map(|number| {
            let mut client = Client::connect(server.address);
            client.send(request_text("GET", &format!("/{number}"), &[]));
            client
        })
        .collect();
    eventually("the server has read all requests", || {
        server.count(Counter::Requests) == 7 && server.is_resolving()
    });
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("an answer").status, 200);
    }
    assert_eq!((old.request_count(), new.request_count()), (1, 6));
    assert_eq!(server.count(Counter::OriginStaleAddresses), 0);
}

#[test]
fn connections_take_turns_on_all_addresses() {
    let origins = [Origin::echo(), Origin::echo(), Origin::echo()];
    let found = origins.iter().map(Origin::address).collect();
    let server = Server::start(vec![Does::Finds(found)], &[("origin-address-ms-max", "1h")]);
    for turn in 0..30 {
        assert_eq!(server.status(), 200, "turn {turn}");
    }
    assert_eq!(origins.map(|origin| origin.connections().len()), [10, 10, 10]);
}

#[test]
fn resolutions_that_hang_take_no_more_threads_than_there_are_permits() {
    let (origin, gate) = (Origin::echo(), Gate::new());
    let script = vec![Does::Hangs(gate.clone(), vec![origin.address()])];
    // Each connection begins its own resolution, and gives up before the resolution ends.
    let flags = [("origin-address-ms-max", "0"), ("origin-connect-ms-max", "100ms")];
    let server = Server::start(script, &flags);
    let mut clients: Vec<_> = (0..100)
        .map(|number| {
            let mut client = Client::connect(server.address);
            client.send(request_text("GET", &format!("/{number}"), &[]));
            client
        })
        .collect();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("an answer").status, 504);
    }
    let resolved = server.resolved_count();
    assert!((1..=2 * 32).contains(&resolved), "two workers started {resolved} resolver threads");
    gate.open();
    eventually("the permits are free again", || server.status() == 200);
}
