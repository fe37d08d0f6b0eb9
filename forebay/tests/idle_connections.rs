//! Idle connections make room for new ones when a limit of connections is reached.

use std::net::IpAddr;
use std::time::Duration;

use forebay_testkit::{Client, Deadline, Origin, Script, Server, ServerBuilder, eventually};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

fn start(flags: &[(&str, &str)]) -> (Origin, Server) {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(&origin);
    let builder = builder.flag("--workers", "1");
    let server = flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value));
    (origin, server.start())
}

/// A client that has received a response and has been idle since then.
fn idle_client(server: &Server, last_byte: u8) -> Client {
    let address = IpAddr::from([127, 0, 0, last_byte]);
    let mut client = Client::connect_from(address, server.address());
    assert_is_served(&mut client, "a new client");
    client
}

fn assert_is_served(client: &mut Client, name: &str) {
    let response = client.ask("GET", "/", &[]);
    assert_eq!(response.expect(name).status, 200, "{name}");
}

#[test]
fn a_new_connection_displaces_the_longest_idle_one_of_the_largest_network() {
    let (_origin, server) = start(&[("--connections-per-worker-max", "5")]);
    let mut alone = idle_client(&server, 1);
    let mut many: Vec<_> = (0..4).map(|_| idle_client(&server, 66)).collect();
    // The first client is idle for a shorter time than the second, by more than a step of the
    // clock.
    let deadline = Deadline::after(Duration::from_millis(20));
    while deadline.remaining().is_some() {
        assert_is_served(&mut many[0], "used again");
    }
    let mut newcomer = idle_client(&server, 2);
    assert!(many.remove(1).is_closed_cleanly(), "the longest idle connection is open");
    assert_eq!(server.stat("idle_displaced_total"), 1.0);
    for client in many.iter_mut().chain([&mut alone, &mut newcomer]) {
        assert_is_served(client, "an old client");
    }
    assert_eq!(server.stat("connections_refused_total"), 0.0);
    assert_eq!(server.stat("connections_open"), 5.0);
}

/// A flood from one address cannot close the idle connections of clients that have fewer
/// connections.
#[test]
fn a_network_at_its_limit_displaces_only_its_own_connections() {
    for flag in ["--connections-per-address-max", "--connections-per-worker-max"] {
        let value = if flag.contains("address") { "2" } else { "4" };
        let (_origin, server) = start(&[(flag, value)]);
        let mut others = [idle_client(&server, 1), idle_client(&server, 2)];
        for number in 0..20 {
            let _idle = (number == 0).then(|| idle_client(&server, 66));
            drop(Client::connect_from([127, 0, 0, 66].into(), server.address()));
        }
        eventually("the flood has ended", || server.stat("connections_open") == 2.0);
        for client in &mut others {
            assert_is_served(client, flag);
        }
    }
}

#[test]
fn an_idle_connection_makes_room_when_descriptors_run_out() {
    let (_origin, server) = start(&[]);
    let mut clients: Vec<_> = (0..4).map(|_| idle_client(&server, 66)).collect();
    let pid = Pid::from_raw(server.id().cast_signed());
    let set_limit = |current| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("the process is ours");
    };
    // Every descriptor below the limit is in use.
    let mut open: Vec<u64> = std::fs::read_dir(format!("/proc/{}/fd", server.id()))
        .expect("the process is ours")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    open.sort_unstable();
    let used = (0..).zip(&open).take_while(|(number, used)| number == *used).count();
    set_limit(Some(used as u64));
    let mut newcomer = idle_client(&server, 2);
    set_limit(getrlimit(Resource::Nofile).maximum);
    // The second client that is closed makes room for the next connection: the kernel reports the
    // lack of descriptors before it knows whether a connection waits.
    for name in ["the longest idle connection", "the next one"] {
        assert!(clients.remove(0).is_closed_cleanly(), "{name} is open");
    }
    for client in clients.iter_mut().chain([&mut newcomer]) {
        assert_is_served(client, "a client");
    }
    assert_eq!(server.stat("idle_displaced_total"), 2.0);
    assert!(server.stat("accept_errors_total") >= 1.0);
}
