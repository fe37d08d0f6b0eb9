//! A panic in the middle of a request, which only a test inside the crate can cause.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use forebay_testkit::{Origin, Script, eventually};

use crate::config::{Config, ConfigSource, FlagValue};
use crate::counters::Counter;
use crate::engine::{Hooks, start};

/// A request for this path causes a panic.
const PANIC_PATH: &[u8] = b"/panic";

/// Panics if the request is for [`PANIC_PATH`].
pub(crate) fn panic_if_asked(path_query: &[u8]) {
    assert!(path_query != PANIC_PATH, "a bug that this test put here");
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut client = TcpStream::connect(address).expect("the worker accepts");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    // A reset counts as an empty answer.
    let _ = client.read_to_string(&mut answer);
    answer
}

#[test]
fn a_panic_ends_one_connection_and_the_worker_goes_on() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: no-store"], b"fine"));
    let runtime_dir = std::env::temp_dir().join(format!("forebay-panic-{}", std::process::id()));
    let runtime = runtime_dir.display().to_string();
    let url = format!("http://{}", origin.address());
    let flags = [
        FlagValue { name: "listen", value: "127.0.0.1:0" },
        FlagValue { name: "workers", value: "1" },
        FlagValue { name: "runtime-dir", value: &runtime },
    ];
    let config = Config::load(ConfigSource::Origin(&url), &flags).expect("a valid configuration");
    let (tell, told) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let again = config.clone();
        let hooks = Hooks { load: Box::new(move || Ok(again.clone())), applied: Box::new(|_| ()) };
        let running = start(config, hooks).expect("it starts");
        let facts = (running.address, running.stopper(), running.counters());
        tell.send(facts).expect("the test waits");
        running.run().expect("it runs")
    });
    let (address, stopper, counters) = told.recv().expect("it starts");
    for round in 0..3 {
        assert_eq!(get(address, "/panic"), "", "round {round}");
        assert!(get(address, "/").ends_with("fine"), "round {round}");
    }
    assert_eq!(counters.sum(Counter::Panics.index()), 3);
    // The client sees the end of the connection a moment before the worker has counted it.
    eventually("no connection is open", || counters.sum(Counter::ConnectionsOpen.index()) == 0);
    stopper.stop();
    assert!(server.join().expect("no panic outside of the connection"));
    // The directory contains only this test's own files.
    let _ = std::fs::remove_dir_all(runtime_dir);
}
