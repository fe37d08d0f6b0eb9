//! A worker that hangs. `/healthz` names it, and the server goes on serving, reloads and ends
//! without it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_http::edit::{EditError, FieldName};
use forebay_rules::filter::{Filter, FilterMessage, Filters};
use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::counters::Counter;
use forebay_server::engine::{AdminEndpoint, Hooks, Stopper, start, upgrade};
use forebay_shm::CounterFile;
use forebay_sync::{LockClass, Mutex, MutexGuard};
use forebay_testkit::server::Folder;
use forebay_testkit::{Client, Gate, Origin, Script, Signal, eventually};

const RULE: &str = "cond %{READ_REQUEST_HDR_HOOK} [AND]\n\
                    cond %{CLIENT-URL:PATH} /^hang/\n    run-plugin hang\n";

/// The time within which an admin request must be answered. In these tests a worker hangs for
/// longer.
const ADMIN_PATIENCE: Duration = Duration::from_secs(10);

/// A filter that blocks its worker: each run blocks until the next gate opens.
#[derive(Clone)]
struct Hang {
    gates: [Gate; 2],
    runs: Arc<AtomicUsize>,
}

impl Filter for Hang {
    fn changes(&self) -> &[FieldName] {
        &[]
    }

    fn run(&self, _: &mut FilterMessage<'_, '_>) -> Result<(), EditError> {
        self.gates[self.runs.fetch_add(1, Relaxed)].wait();
        Ok(())
    }
}

/// A server in this process, with a page that makes a worker hang.
struct HangingServer {
    origin: Origin,
    folder: Folder,
    hang: Hang,
    worker_count: usize,
    address: SocketAddr,
    admin: SocketAddr,
    counters: CounterFile,
    stopper: Stopper,
    /// How often the configuration has been loaded again.
    loads: Arc<AtomicUsize>,
    thread: JoinHandle<bool>,
    /// Held for the whole test: signals reach every server of the process, so these tests must not
    /// run at the same time.
    _only: MutexGuard<'static, ()>,
}

impl HangingServer {
    /// Starts a server that writes its access log to `0.log`, and to `1.log` after the first
    /// reload.
    fn start(worker_count: usize) -> HangingServer {
        static ONLY: OnceLock<Mutex<()>> = OnceLock::new();
        let only = ONLY.get_or_init(|| Mutex::new(LockClass::Test, ())).lock();
        record_events();
        let hang = Hang { gates: [Gate::new(), Gate::new()], runs: Arc::default() };
        let field = "Cache-Control: max-age=600";
        let origin = Origin::start(move |_| Script::answer("200 OK", &[field], b"page"));
        let folder = Folder::new();
        std::fs::write(folder.path("hang.rules"), RULE).expect("the folder is ours");
        let config = |log: usize, listen: SocketAddr| {
            config(&origin, &folder, &hang, (worker_count, log), listen)
        };
        let any_port = "127.0.0.1:0".parse().expect("an address");
        let (first, second) = (config(0, any_port), config(1, any_port));
        let loads = Arc::new(AtomicUsize::new(0));
        let own_loads = Arc::clone(&loads);
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let load = Box::new(move || {
                own_loads.fetch_add(1, Relaxed);
                Ok(second.clone())
            });
            let hooks = Hooks { load, applied: Box::new(|_| ()) };
            let running = start(first, hooks).expect("it starts");
            let AdminEndpoint::Tcp(admin) = running.admin else { panic!("no TCP") };
            let facts = (running.address, admin, running.counters(), running.stopper());
            tell.send(facts).expect("the test waits");
            running.run().expect("it runs")
        });
        let (address, admin, counters, stopper) = told.recv().expect("it starts");
        HangingServer {
            origin,
            folder,
            hang,
            worker_count,
            address,
            admin,
            counters,
            stopper,
            loads,
            thread,
            _only: only,
        }
    }

    /// Makes the worker of a new connection hang.
    fn hang(&self) -> Client {
        let mut client = Client::connect(self.address);
        let runs = self.hang.runs.load(Relaxed);
        client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("a worker hangs", || self.hang.runs.load(Relaxed) > runs);
        client
    }

    fn admin(&self, request: &str) -> (u16, String) {
        let mut client = Client::connect(self.admin).with_patience(ADMIN_PATIENCE);
        client.send(format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
        let response = client.response("GET");
        let response = response.unwrap_or_else(|broken| panic!("{request}: {broken:?}"));
        (response.status, response.text())
    }

    fn healthz(&self) -> (u16, String) {
        self.admin("GET /healthz")
    }

    /// Tries to take over from this server, which must fail, and returns the reason.
    fn upgrade_error(&self) -> String {
        let setup = (self.worker_count, 0);
        let config = config(&self.origin, &self.folder, &self.hang, setup, self.address);
        let hooks = Hooks { load: Box::new(|| unreachable!()), applied: Box::new(|_| ()) };
        match upgrade(config, hooks) {
            Ok(_) => panic!("it took over"),
            Err(error) => error.to_string(),
        }
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.path(&format!("{number}.log"))
    }
}

fn config(
    origin: &Origin,
    folder: &Folder,
    hang: &Hang,
    (worker_count, log): (usize, usize),
    listen: SocketAddr,
) -> Config {
    let path = |name: &str| folder.path(name).display().to_string();
    let (listen, workers) = (listen.to_string(), worker_count.to_string());
    let (runtime_dir, rules) = (path("run"), path("hang.rules"));
    let log = path(&format!("{log}.log"));
    let flags = [
        ("listen", listen.as_str()),
        ("admin", "127.0.0.1:0"),
        ("workers", &workers),
        ("runtime-dir", &runtime_dir),
        ("shutdown-ms-max", "100ms"),
        ("access-log", &log),
        ("rules", &rules),
    ];
    let flags = flags.map(|(name, value)| FlagValue { name, value });
    let hang = hang.clone();
    let hang = move |_: &[&str]| Ok(hang.clone());
    let filters = Filters::default().with("hang", hang);
    let url = format!("http://{}", origin.address());
    let config = Config::load_with(ConfigSource::Origin(&url), &flags, &filters);
    config.expect("a valid configuration")
}

/// The events of this process, as text.
static EVENTS: OnceLock<Mutex<String>> = OnceLock::new();

fn events() -> &'static Mutex<String> {
    EVENTS.get_or_init(|| Mutex::new(LockClass::Test, String::new()))
}

/// Starts recording events, for all servers of the process.
fn record_events() {
    // If a recorder is already set, it stays.
    let _ = tracing::subscriber::set_global_default(EventRecorder);
}

struct EventRecorder;

impl tracing::Subscriber for EventRecorder {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("forebay") && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = events().lock();
        let mut write = |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text.push_str(&format!("{field}={value:?} "));
        };
        event.record(&mut write);
        text.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Returns the number of recorded lines that contain all of these texts.
fn event_count(texts: &[&str]) -> usize {
    let lines = events().lock().clone();
    lines.lines().filter(|line| texts.iter().all(|text| line.contains(text))).count()
}

fn kill_this_process(signal: Signal) {
    rustix::process::kill_process(rustix::process::getpid(), signal).expect("it runs");
}

#[test]
fn a_worker_that_hangs_is_named_by_healthz_and_does_not_prevent_the_stop() {
    let server = HangingServer::start(1);
    assert_eq!(server.healthz(), (200, "ok\n".to_owned()));
    let counts = |event: &str| event_count(&[event, "worker 0"]);
    let (stuck, recovered) = (counts("worker_stuck"), counts("worker_recovered"));

    let mut client = server.hang();
    eventually("the worker is stuck", || server.healthz().0 == 503);
    assert!(server.healthz().1.contains("worker 0"), "{:?}", server.healthz());
    assert_eq!(server.counters.sum(Counter::WorkersStuck.index()), 1);
    assert!(server.admin("GET /metrics").1.contains("forebay_workers_stuck_total 1\n"));
    server.hang.gates[0].open();
    eventually("the worker has recovered", || server.healthz().0 == 200);
    assert_eq!(client.response("GET").expect("served").status, 200);
    assert_eq!(counts("worker_stuck"), stuck + 1);
    assert_eq!(counts("worker_recovered"), recovered + 1);

    let _client = server.hang();
    eventually("the worker is stuck again", || server.healthz().0 == 503);
    // The reload waits for the worker, but the end of the server does not wait for the reload.
    kill_this_process(Signal::HUP);
    eventually("the configuration is read", || server.loads.load(Relaxed) == 1);
    server.stopper.stop();
    assert!(!server.thread.join().expect("no panic"), "a request that hangs has not finished");
    server.hang.gates[1].open();
}

#[test]
fn a_worker_that_hangs_delays_no_scrape_no_reload_and_no_answer_of_the_others() {
    let server = HangingServer::start(2);
    let mut clients: Vec<_> = (0..32).map(|_| Client::connect(server.address)).collect();
    for client in &mut clients {
        assert_eq!(client.ask("GET", "/page", &[]).expect("served").status, 200);
    }
    let mut hanging = server.hang();
    // The watchdog does not know yet that the worker is stuck.
    assert!(server.admin("GET /metrics").1.contains("forebay_requests_total"));
    let refused = server.upgrade_error();
    assert!(refused.contains("is stuck"), "{refused}");
    assert_hits(clients);

    eventually("the watchdog knows it", || server.healthz().0 == 503);
    let number = if server.healthz().1.contains("worker 0") { 0 } else { 1 };
    let metrics = server.admin("GET /metrics").1;
    assert!(!metrics.contains("forebay_rule_runs_total"), "the sum of some workers: {metrics}");
    let stuck = format!("\"stuck_workers\":[{number}]");
    let rules = server.admin("GET /rules").1;
    assert!(rules.contains(&stuck) && rules.contains("\"runs\":"), "{rules}");
    let (status, text) = server.admin("POST /reload");
    assert!(status == 200 && text.contains(&stuck), "{status} {text}");
    let refused = server.upgrade_error();
    assert!(refused.contains(&format!("worker {number} is stuck")), "{refused}");

    server.hang.gates[0].open();
    eventually("the worker has recovered", || server.healthz().0 == 200);
    assert_eq!(hanging.response("GET").expect("served").status, 200);
    assert_hits(vec![hanging]);
    let (status, text) = server.admin("POST /reload");
    assert!(status == 200 && text.contains("\"stuck_workers\":[]"), "{status} {text}");
    assert!(server.admin("GET /metrics").1.contains("forebay_rule_runs_total"));
    server.stopper.stop();
    server.thread.join().expect("no panic");
}

/// Asserts that at least one of the clients gets a stored page. The other clients may wait for the
/// worker that hangs.
fn assert_hits(clients: Vec<Client>) {
    let (tell, told) = mpsc::channel();
    for mut client in clients {
        let tell = tell.clone();
        thread::spawn(move || {
            let response = client.ask("GET", "/page", &[]);
            // The test may have ended.
            let _ =
                tell.send(response.ok().and_then(|it| it.field("cache-status").map(str::to_owned)));
        });
    }
    let first = told.recv_timeout(ADMIN_PATIENCE).expect("one worker answers");
    assert!(first.as_ref().is_some_and(|status| status.contains("hit")), "{first:?}");
}

#[test]
fn a_log_that_is_opened_again_during_a_reload_is_the_new_one() {
    let server = HangingServer::start(1);
    let mut client = server.hang();
    thread::scope(|scope| {
        let reload = scope.spawn(|| server.admin("POST /reload"));
        eventually("the configuration is read", || server.loads.load(Relaxed) == 1);
        let reopened = event_count(&["log_reopened"]);
        kill_this_process(Signal::USR1);
        eventually("the log is opened", || event_count(&["log_reopened"]) > reopened);
        let (status, text) = reload.join().expect("no panic");
        assert!(status == 200 && text.contains("\"stuck_workers\":[0]"), "{status} {text}");
    });
    server.hang.gates[0].open();
    assert_eq!(client.response("GET").expect("served").status, 200);
    assert_eq!(client.ask("GET", "/page", &[]).expect("served").status, 200);
    server.stopper.stop();
    let (old, new) = (server.log(0), server.log(1));
    server.thread.join().expect("no panic");
    let lines = |path| std::fs::read_to_string(path).expect("a log");
    assert!(!lines(old).contains("/page"), "the old log is in use");
    assert_eq!(lines(new).matches("/page").count(), 1);
}
