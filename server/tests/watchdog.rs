//! A worker that hangs: `/healthz` names it, and the server still ends when it is told to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;

use forebay_http::edit::{EditError, FieldName};
use forebay_rules::filter::{Filter, FilterMessage, Filters};
use forebay_server::config::{Config, ConfigSource, FlagValue};
use forebay_server::counters::Counter;
use forebay_server::engine::{AdminEndpoint, Hooks, start};
use forebay_testkit::{Client, Gate, Origin, eventually};

const RULE: &str = "cond %{READ_REQUEST_HDR_HOOK} [AND]\n\
                    cond %{CLIENT-URL:PATH} /^hang/\n    run-plugin hang\n";

/// A filter that blocks its worker: in each run, until the next gate opens.
struct Hang {
    gates: [Gate; 2],
    runs: AtomicUsize,
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

#[test]
fn a_worker_that_hangs_is_named_by_healthz_and_does_not_prevent_the_stop() {
    let gates = [Gate::new(), Gate::new()];
    let origin = Origin::echo();
    let dir = std::env::temp_dir().join(format!("forebay-watchdog-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("the folder is writable");
    let rules = dir.join("hang.rules");
    std::fs::write(&rules, RULE).expect("the folder is writable");
    let url = format!("http://{}", origin.address());
    let (runtime_dir, rules) = (dir.join("run").display().to_string(), rules.display().to_string());
    let flags = [
        ("listen", "127.0.0.1:0"),
        ("admin", "127.0.0.1:0"),
        ("workers", "1"),
        ("runtime-dir", &runtime_dir),
        ("shutdown-ms-max", "100ms"),
        ("rules", &rules),
    ];
    let flags = flags.map(|(name, value)| FlagValue { name, value });
    let own = gates.clone();
    let hang = move |_: &[&str]| Ok(Hang { gates: own.clone(), runs: AtomicUsize::new(0) });
    let filters = Filters::default().with("hang", hang);
    let config = Config::load_with(ConfigSource::Origin(&url), &flags, &filters);
    let config = config.expect("a valid configuration");
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let again = config.clone();
        let load = Box::new(move || Ok(again.clone()));
        let hooks = Hooks { load, applied: Box::new(|_| ()) };
        let running = start(config, hooks).expect("it starts");
        let AdminEndpoint::Tcp(admin) = running.admin else { panic!("no TCP") };
        let facts = (running.address, admin, running.counters(), running.stopper());
        tell.send(facts).expect("the test waits");
        running.run().expect("it runs")
    });
    let (address, admin, counters, stopper) = told.recv().expect("it starts");
    assert_eq!(healthz(admin), (200, "ok\n".to_owned()));

    let mut client = Client::connect(address);
    client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the worker is stuck", || healthz(admin).0 == 503);
    assert!(healthz(admin).1.contains("worker 0"), "{:?}", healthz(admin));
    assert_eq!(counters.sum(Counter::WorkersStuck.index()), 1);
    gates[0].open();
    eventually("the worker has recovered", || healthz(admin).0 == 200);
    assert_eq!(client.response("GET").expect("served").status, 200);

    client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the worker is stuck again", || healthz(admin).0 == 503);
    stopper.stop();
    assert!(!server.join().expect("no panic"), "a request that hangs has not finished");
    gates[1].open();
    let _ = std::fs::remove_dir_all(&dir);
}

fn healthz(admin: SocketAddr) -> (u16, String) {
    let mut client = Client::connect(admin);
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.response("GET").expect("an answer");
    (response.status, response.text())
}
