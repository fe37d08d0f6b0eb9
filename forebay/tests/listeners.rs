//! Several addresses for clients, over real sockets: IPv4 and IPv6, and an upgrade that adds one.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn origin() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=600"], b"page"))
}

/// The addresses that the server printed.
fn printed(server: &Server) -> Vec<SocketAddr> {
    let output = server.output();
    let lines = output.lines().filter_map(|line| line.strip_prefix("listening on http://"));
    lines.map(|address| address.parse().expect("an address")).collect()
}

fn body(address: SocketAddr) -> Vec<u8> {
    let mut client = Client::connect(address);
    client.ask("GET", "/", &[]).expect("an answer").body
}

/// A port that is free for IPv4 and IPv6.
fn free_port() -> u16 {
    let socket = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("IPv6 is enabled");
    socket.local_addr().expect("it is bound").port()
}

#[test]
fn clients_of_each_address_share_the_cache() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin);
    let server = builder.flag("--listen", "127.0.0.1:0,[::1]:0,127.0.0.1:0").start();
    let addresses = printed(&server);
    assert_eq!(addresses.len(), 3, "{}", server.output());
    assert!(addresses[0].is_ipv4() && addresses[1].is_ipv6(), "{addresses:?}");
    for address in &addresses {
        assert_eq!(body(*address), b"page", "{address}");
    }
    assert_eq!(origin.count("/"), 1);
}

#[test]
fn one_port_serves_ipv4_and_ipv6_by_a_socket_for_each() {
    let origin = origin();
    let port = free_port();
    let listen = format!("0.0.0.0:{port},[::]:{port}");
    let server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--listen", &listen).start();
    assert_eq!(body((Ipv4Addr::LOCALHOST, port).into()), b"page");
    assert_eq!(body((Ipv6Addr::LOCALHOST, port).into()), b"page");
    drop(server);

    // Without the other address, the socket takes clients of both kinds.
    let listen = format!("[::]:{port}");
    let _server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--listen", &listen).start();
    assert_eq!(body((Ipv4Addr::LOCALHOST, port).into()), b"page");
    assert_eq!(body((Ipv6Addr::LOCALHOST, port).into()), b"page");
}

#[test]
fn an_upgrade_keeps_adds_and_removes_addresses() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin);
    let mut old = builder.flag("--listen", "127.0.0.1:0,127.0.0.1:0").start();
    let [first, kept] = printed(&old)[..] else { panic!("{}", old.output()) };
    let added = SocketAddr::from((Ipv6Addr::LOCALHOST, free_port()));
    let listen = format!("{first},{kept},{added}");
    let mut new = old.successor().flag("--listen", &listen).start();
    assert!(old.wait().is_some(), "the old server ends");
    for address in [first, kept, added] {
        assert_eq!(body(address), b"page", "{address}");
    }

    let last = new.successor().flag("--listen", &format!("{first},{added}")).start();
    assert!(new.wait().is_some(), "the server that was upgraded ends");
    assert_eq!(printed(&last), [first, added]);
    assert_eq!(body(added), b"page");
    assert!(TcpStream::connect(kept).is_err(), "nothing listens at an address that was removed");
}
