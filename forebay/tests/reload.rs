//! Reloads under load: good and bad files alternately, without a failed request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use forebay_testkit::{
    Client, Origin, Script, Server, ServerBuilder, Signal, StopFlag, eventually,
};

/// The number of clients that send requests all the time.
const CLIENTS: usize = 4;

/// A limit that fails the test instead of letting a client run forever.
const REQUESTS_MAX: u64 = 1_000_000_000;

#[test]
fn a_hundred_reloads_under_load_fail_no_request() {
    let origin = origin();
    let server = start(&good(&origin, 0));
    let (stop, served) = (StopFlag::default(), AtomicUsize::new(0));
    let failures: Vec<String> = thread::scope(|scope| {
        let guard = stop.guard();
        let loads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (server, stop, served) = (&server, &stop, &served);
                scope.spawn(move || load(server, number, stop, served))
            })
            .collect();
        eventually("the load runs", || served.load(Relaxed) > 0);
        let mut failures: Vec<_> =
            (1..=100).filter_map(|turn| reload_once(&server, &origin, turn).err()).collect();
        drop(guard);
        failures.extend(loads.into_iter().filter_map(|load| load.join().expect("no panic").err()));
        failures
    });
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!(server.stat("reloads_total"), 50.0);
    assert_eq!(server.stat("reloads_refused_total"), 50.0);
    assert!(served.load(Relaxed) > 100, "the clients made hardly any requests");
}

#[test]
fn a_reload_applies_to_connections_that_are_open() {
    let origin = origin();
    let server = start(&good(&origin, 0));
    let mut client = Client::connect(server.address());
    let long = format!("/plain?{}", "x".repeat(300));
    assert_eq!(client.ask("GET", &long, &[]).expect("served").status, 200);
    server.write_config(&format!("target_bytes_max = 100\n{}", good(&origin, 0)));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(client.ask("GET", &long, &[]).expect("an answer").status, 414);
}

#[test]
fn sites_and_routes_change_with_a_reload() {
    let origin = origin();
    let server = start(&good(&origin, 0));
    let mut client = Client::connect(server.address());
    let mut status = |host: &str| {
        client.send(format!("GET /cached HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.response("GET").expect("an answer").status
    };
    assert_eq!((status("example.test"), status("other.test")), (200, 421));
    server.write_config(&good(&origin, 0).replace("example.test", "other.test"));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!((status("example.test"), status("other.test")), (421, 200));
}

#[test]
fn sighup_reloads_too_and_a_bad_file_leaves_the_old_one_running() {
    let origin = origin();
    let server = start(&good(&origin, 0));
    server.write_config(&good(&origin, 1));
    server.signal(Signal::HUP);
    eventually("the reload is applied", || server.stat("reloads_total") == 1.0);
    server.write_config("listen = \n");
    server.signal(Signal::HUP);
    eventually("the reload is refused", || server.stat("reloads_refused_total") == 1.0);
    eventually("the log has the line of the error", || server.errors().contains(":1:"));
    let response = Client::connect(server.address()).ask("GET", "/plain", &[]);
    assert_eq!(response.expect("served").status, 200);
}

/// Reloads once. Odd turns load a good file; even turns load a bad one, which must be refused with
/// the line of its error.
fn reload_once(server: &Server, origin: &Origin, turn: usize) -> Result<(), String> {
    if turn % 2 == 1 {
        server.write_config(&good(origin, turn));
        let output = server.command(&["reload"]);
        let is_applied = output.status.success();
        return if is_applied { Ok(()) } else { Err(format!("turn {turn}: {output:?}")) };
    }
    let (text, line) = bad(origin, turn);
    server.write_config(&text);
    let output = server.command(&["reload"]);
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    let names_line = said.contains(&format!("forebay.toml:{line}:"));
    if output.status.success() || !names_line {
        return Err(format!("turn {turn}, line {line}: {output:?}"));
    }
    Ok(())
}

/// Requests a stored and a forwarded page until it is told to stop. Every answer must be right.
fn load(
    server: &Server,
    number: usize,
    stop: &StopFlag,
    served: &AtomicUsize,
) -> Result<(), String> {
    let mut client = Client::connect(server.address());
    for _ in stop.steps(REQUESTS_MAX) {
        for target in ["/cached", "/plain"] {
            match client.ask("GET", target, &[]) {
                Ok(response) if response.status == 200 && response.text() == target => {
                    served.fetch_add(1, Relaxed);
                }
                other => return Err(format!("client {number}: {other:?}")),
            }
        }
        if served.load(Relaxed) % 64 < 2 {
            client = Client::connect(server.address());
        }
    }
    Ok(())
}

fn origin() -> Origin {
    Origin::start(|request| {
        let field = match request.target.as_str() {
            "/cached" => "Cache-Control: max-age=600",
            _ => "Cache-Control: no-store",
        };
        Script::answer("200 OK", &[field], request.target.as_bytes())
    })
}

fn start(config: &str) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(config);
    builder.flag("--workers", "2").start()
}

/// Returns a good configuration, different for each `turn`.
fn good(origin: &Origin, turn: usize) -> String {
    let address = origin.address();
    let idle_s = 60 + turn;
    format!(
        "idle_ms_max = \"{idle_s}s\"\n\
         \n\
         [[site]]\n\
         name = \"example\"\n\
         names = [\"example.test\"]\n\
         origin = \"http://{address}\"\n\
         \n\
         [[site.route]]\n\
         path_prefix = \"/plain\"\n\
         cache = false\n"
    )
}

/// Returns a bad configuration, and the line with the error.
fn bad(origin: &Origin, turn: usize) -> (String, usize) {
    let good = good(origin, turn);
    let replaced = |from: &str, to: &str| {
        let line = good.lines().position(|line| line.contains(from)).expect("the line exists") + 1;
        (good.replace(from, to), line)
    };
    match turn / 2 % 6 {
        0 => replaced("idle_ms_max", "idle_ms_maxx"),
        1 => replaced("\"http://", "\"gopher://"),
        2 => replaced("cache = false", "cache = 7"),
        3 => replaced("path_prefix = \"/plain\"", "path_prefix = \"plain\""),
        4 => replaced("[\"example.test\"]", "[\"exa mple.test\"]"),
        _ => replaced("name = \"example\"", "name = \"example"),
    }
}
