//! Origins by name, as the system resolves them: `localhost`, and a name that does not exist.

use std::net::{SocketAddr, ToSocketAddrs};

use forebay_testkit::{Client, Origin, Server, ServerBuilder, eventually};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// A name for which no resolver is asked, since a label has at most 63 letters (RFC 1035 §2.3.4).
const UNKNOWN: &str =
    "a-name-of-more-letters-than-a-label-can-have-in-the-domain-name-system.invalid";

/// A flag that disables the pool, so that each request needs a new connection to the origin.
const UNPOOLED: (&str, &str) = ("--origin-pool-idle-count-max", "0");

fn start(origin: &str, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).flag("--origin", origin);
    let builder = builder.flag("--workers", "2");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

fn status(server: &Server) -> u16 {
    Client::connect(server.address()).ask("GET", "/", &[]).expect("an answer").status
}

/// The number of addresses of `localhost` before the address on which the origin listens.
fn addresses_before(origin: &Origin) -> usize {
    let found = ("localhost", origin.address().port()).to_socket_addrs();
    let found: Vec<SocketAddr> = found.expect("every system has localhost").collect();
    let own = found.iter().position(|address| *address == origin.address());
    own.unwrap_or_else(|| panic!("localhost is not 127.0.0.1 but {found:?}"))
}

#[test]
fn localhost_is_resolved_once_and_its_address_that_fails_is_tried_once() {
    let origin = Origin::echo();
    let failing = addresses_before(&origin);
    let url = format!("http://localhost:{}", origin.address().port());
    // The setting, how often eight requests resolve the name, and how often each earlier address
    // fails.
    for (fresh, resolved_count, failed_count) in [("1h", 1, 1), ("0", 8, 8)] {
        let server = start(&url, &[UNPOOLED, ("--origin-address-ms-max", fresh)]);
        for turn in 0..8 {
            assert_eq!(status(&server), 200, "{fresh}, turn {turn}");
        }
        assert_eq!(server.stat("origin_resolutions_total"), f64::from(resolved_count), "{fresh}");
        let failures = server.stat("origin_address_errors_total");
        assert_eq!(failures as usize, failing * failed_count, "{fresh}");
        let told = server.errors().matches("origin_address_failed").count();
        assert_eq!(told, if fresh == "0" { 0 } else { failing }, "{fresh}");
    }
}

#[test]
fn an_address_instead_of_a_name_needs_no_resolver() {
    let origin = Origin::echo();
    let server = start(&format!("http://{}", origin.address()), &[UNPOOLED]);
    assert_eq!((status(&server), status(&server)), (200, 200));
    assert_eq!(server.stat("origin_resolutions_total"), 0.0);
    let server = start("http://[::1]:1", &[]);
    assert_eq!(status(&server), 502);
    assert_eq!(server.stat("origin_resolutions_total"), 0.0);
}

#[test]
fn an_unknown_name_is_reported_and_remembered() {
    let server = start(&format!("http://{UNKNOWN}"), &[]);
    let started_ms = server.stat("uptime_ms");
    for turn in 0..20 {
        assert_eq!(status(&server), 502, "turn {turn}");
    }
    let seconds = ((server.stat("uptime_ms") - started_ms) / 1000.0).floor();
    let resolved = server.stat("origin_resolutions_total");
    assert!(
        (1.0..=1.0 + seconds).contains(&resolved),
        "the name was resolved {resolved} times in {seconds} s"
    );
    eventually("each failure is counted", || {
        server.stat("origin_resolution_errors_total") == server.stat("origin_resolutions_total")
    });
    let line = |name: &str| server.errors().lines().any(|line| line.contains(name));
    eventually("the log has the failure", || {
        line("origin_unresolved") && line("no addresses are known")
    });
    assert_eq!(server.stat("origin_stale_addresses_total"), 0.0);
}

#[test]
fn a_name_that_a_reload_removes_is_forgotten() {
    let origin = Origin::echo();
    let port = origin.address().port();
    let config = |host: &str| {
        format!(
            "origin_address_ms_max = \"1h\"\norigin_pool_idle_count_max = 0\n\
             [[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{host}:{port}\"\n"
        )
    };
    let server =
        ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config("localhost")).start();
    // The new origin, and the number of resolutions after a request.
    for (host, resolved_count) in
        [("localhost", 1), ("localhost", 1), ("127.0.0.1", 1), ("localhost", 2)]
    {
        server.write_config(&config(host));
        assert!(server.command(&["reload"]).status.success());
        assert_eq!(status(&server), 200, "{host}");
        let resolved = server.stat("origin_resolutions_total");
        assert_eq!(resolved, f64::from(resolved_count), "{host}");
    }
}

#[test]
fn a_thread_that_cannot_be_started_fails_one_request_and_not_the_worker() {
    let origin = Origin::echo();
    let url = format!("http://localhost:{}", origin.address().port());
    let server = start(&url, &[]);
    let status_file = std::fs::read_to_string(format!("/proc/{}/status", server.id()));
    let status_file = status_file.expect("it runs");
    let line = status_file.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.expect("/proc has the line").trim().trim_end_matches(" kB");
    let bytes = kib.parse::<u64>().expect("a number") << 10;
    // Room for some allocations, but not for the stack of a thread.
    let before = set_address_space(&server, Some(bytes + (1 << 20)));
    assert_eq!(status(&server), 502);
    assert_eq!(server.stat("panics_total"), 0.0);
    assert!(server.errors().contains("cannot start a thread"), "{}", server.errors());
    set_address_space(&server, before);
    eventually("the name is resolved", || status(&server) == 200);
}

/// Limits the address space of the server; returns the previous limit.
fn set_address_space(server: &Server, bytes: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(i32::try_from(server.id()).expect("it is positive"));
    let limit = Rlimit { current: bytes, maximum: getrlimit(Resource::As).maximum };
    prlimit(pid, Resource::As, limit).expect("the process is ours").current
}
