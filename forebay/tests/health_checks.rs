//! Active health checks: an origin that fails them gets no requests, until it passes one.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use forebay_testkit::{Client, Origin, Request, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server with one worker whose origins are checked every second.
fn serve(origins: &[&Origin], settings: &str) -> Server {
    let urls: Vec<_> =
        origins.iter().map(|origin| format!("http://{}", origin.address())).collect();
    let config = format!(
        "health_path = \"/health?deep=1\"\nhealth_interval_ms = \"1s\"\n{settings}\n\
         [[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {urls:?}\ncache = false\n"
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

/// An origin that answers checks with a status that the test sets, and all other requests with 200.
fn checked(status: &Arc<AtomicU16>) -> Origin {
    let status = Arc::clone(status);
    Origin::start(move |request| match is_check(request) {
        true => Script::answer(&format!("{} X", status.load(Relaxed)), &[], b""),
        false => Script::answer("200 OK", &[], b"page"),
    })
}

fn is_check(request: &Request) -> bool {
    request.target.starts_with("/health")
}

fn pages(origin: &Origin) -> usize {
    origin.requests().iter().filter(|request| !is_check(request)).count()
}

fn ask_pages(server: &Server, count: usize) {
    let mut client = Client::connect(server.address());
    for _ in 0..count {
        assert_eq!(client.ask("GET", "/page", &[]).expect("whole").status, 200);
    }
}

#[test]
fn an_origin_that_fails_checks_gets_no_requests_until_it_passes_one() {
    let status = Arc::new(AtomicU16::new(200));
    let (sick, well) = (checked(&status), checked(&Arc::new(AtomicU16::new(200))));
    let server = serve(&[&sick, &well], "");
    eventually("both are checked", || server.stat("origin_checks_total") >= 4.0);
    ask_pages(&server, 10);
    assert_eq!((pages(&sick), pages(&well)), (5, 5));
    assert_eq!(server.stat("origin_checks_failed_total"), 0.0);
    let check = sick.requests_below("/health").remove(0);
    assert_eq!(check.target, "/health?deep=1");
    assert_eq!(check.head.field("host"), Some(sick.address().to_string().as_str()));

    status.store(503, Relaxed);
    let address = sick.address();
    let down = format!("{address}: the health check got status 503 instead of 200");
    eventually("the event names origin and reason", || server.errors().contains(&down));
    let before = pages(&sick);
    ask_pages(&server, 20);
    assert_eq!(pages(&sick), before, "an origin that fails its checks gets requests");
    let failed = server.stat("origin_checks_failed_total");
    assert!(failed >= 3.0 && server.stat("origin_ejections_total") == 1.0, "{failed}");
    // Later failures extend the pause, so that no request checks the origin.
    eventually("it is checked again", || server.stat("origin_checks_failed_total") >= failed + 4.0);
    ask_pages(&server, 20);
    assert_eq!(pages(&sick), before, "the pause has ended although checks fail");

    status.store(200, Relaxed);
    eventually("the origin is back", || server.errors().contains("origin_back"));
    eventually("the origin gets requests again", || {
        ask_pages(&server, 10);
        pages(&sick) > before
    });
}

#[test]
fn an_origin_that_cannot_be_reached_costs_no_request() {
    let (gone, well) = (Origin::echo(), checked(&Arc::new(AtomicU16::new(200))));
    let (address, server) = (gone.address(), serve(&[&gone, &well], "health_status = 200"));
    gone.stop();
    let down = format!("{address}: no address of the origin accepted a connection");
    eventually("the check reports it", || server.errors().contains(&down));
    ask_pages(&server, 20);
    assert_eq!(server.stat("origin_failovers_total"), 0.0);
    assert_eq!(server.stat("origin_connect_errors_total"), 0.0, "a request found it out");
}

#[test]
fn a_check_without_an_answer_fails_in_time() {
    let hanging = Origin::start(|request| match is_check(request) {
        true => Script::new().stall(),
        false => Script::answer("200 OK", &[], b"page"),
    });
    let well = checked(&Arc::new(AtomicU16::new(200)));
    let server = serve(&[&hanging, &well], "health_ms_max = \"100ms\"");
    eventually("it is left out", || {
        server.errors().contains("the health check got no answer in 100 ms")
    });
    let before = pages(&hanging);
    ask_pages(&server, 10);
    assert_eq!(pages(&hanging), before);
}

#[test]
fn the_only_origin_gets_requests_whatever_its_checks_say() {
    let origin = checked(&Arc::new(AtomicU16::new(500)));
    let server = serve(&[&origin], "");
    eventually("checks fail", || server.stat("origin_checks_failed_total") >= 4.0);
    ask_pages(&server, 5);
    assert_eq!(server.stat("origin_ejections_total"), 0.0);
}

#[test]
fn the_checks_of_one_site_do_not_decide_for_another() {
    let sick = checked(&Arc::new(AtomicU16::new(500)));
    let well = checked(&Arc::new(AtomicU16::new(200)));
    let origins = [&sick, &well].map(|origin| format!("http://{}", origin.address()));
    let config = format!(
        "health_interval_ms = \"1s\"\n\
         [[site]]\nname = \"a\"\nnames = [\"a.org\"]\norigin = {origins:?}\n\
         health_path = \"/health\"\ncache = false\n\
         [[site]]\nname = \"b\"\nnames = [\"*\"]\norigin = {origins:?}\ncache = false\n"
    );
    let server = ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start();
    eventually("it is left out", || server.stat("origin_ejections_total") == 1.0);
    ask_pages(&server, 10);
    assert_eq!((pages(&sick), pages(&well)), (5, 5), "site b has no checks");
    let mut client = Client::connect(server.address());
    for _ in 0..4 {
        let request = "GET /page HTTP/1.1\r\nHost: a.org\r\n\r\n";
        client.send(request);
        assert_eq!(client.response("GET").expect("whole").status, 200);
    }
    assert_eq!((pages(&sick), pages(&well)), (5, 9), "site a has");
}

#[test]
fn without_the_setting_nothing_is_checked() {
    let origin = Origin::echo();
    let server = Server::before(PROGRAM, &origin);
    ask_pages(&server, 1);
    assert_eq!((origin.request_count(), server.stat("origin_checks_total")), (1, 0.0));
}

#[test]
fn origins_that_never_answer_do_not_keep_others_from_being_checked() {
    // The system accepts connections to it, and none is read. All checks of its addresses
    // together are more than a worker runs at the same time.
    let silent = TcpListener::bind("0.0.0.0:0").expect("a free port");
    let port = silent.local_addr().expect("it is bound").port();
    let well = checked(&Arc::new(AtomicU16::new(200)));
    let mut config = "health_path = \"/health\"\nhealth_interval_ms = \"1s\"\n".to_owned();
    for site in 0..6 {
        let urls: Vec<_> =
            (1..=16).map(|host| format!("http://127.1.{site}.{host}:{port}")).collect();
        config += &format!(
            "[[site]]\nname = \"s{site}\"\nnames = [\"s{site}.test\"]\norigin = {urls:?}\n"
        );
    }
    let url = format!("http://{}", well.address());
    config += &format!("[[site]]\nname = \"well\"\nnames = [\"*\"]\norigin = {url:?}\n");
    let server = ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start();
    eventually("the last site is checked more than once", || {
        well.requests_below("/health").len() >= 2
    });
    assert!(server.stat("origin_checks_failed_total") > 0.0, "the others do not answer");
}
