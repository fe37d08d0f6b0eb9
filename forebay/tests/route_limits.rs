//! Limits of requests to origins that differ between the routes of a site. The value of a route
//! takes precedence over the value of its site, and that over the value of the server.

use std::net::TcpListener;

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server with one worker whose site has the routes `/own` and `/`. `settings` are the lines at
/// the top, in the section of the site and in the section of the route `/own`.
fn serve(origins: &[String], settings: [&str; 3]) -> Server {
    let [top, site, route] = settings;
    let config = format!(
        "{top}\n[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {origins:?}\ncache = false\n\
         {site}\n[[site.route]]\npath_prefix = \"/own\"\n{route}\n"
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

fn url(origin: &Origin) -> String {
    format!("http://{}", origin.address())
}

fn ask(server: &Server, target: &str) -> Response {
    Client::connect(server.address()).ask("GET", target, &[]).expect("whole")
}

/// Returns three configurations, each as the lines of the top, the site and the route. The line
/// `own` is at the top in the first, in the site in the second, and in the route in the third. In
/// the last two, `outer`, a line with another value, is at a level outside of `own`.
fn levels<'a>(own: &'a str, outer: &'a str) -> [[&'a str; 3]; 3] {
    [[own, "", ""], [outer, own, ""], [outer, "", own]]
}

#[test]
fn the_time_for_the_first_byte_is_that_of_the_route() {
    let origin = Origin::start(|_| Script::new().stall());
    let lines = ("origin_first_byte_ms_max = 200", "origin_first_byte_ms_max = \"10m\"");
    for case in levels(lines.0, lines.1) {
        let server = serve(&[url(&origin)], case);
        // With the other value, the client gives up first.
        assert_eq!(ask(&server, "/own").status, 504, "{case:?}");
        assert_eq!(server.stat("origin_timeouts_total"), 1.0, "{case:?}");
    }
}

#[test]
fn the_time_for_connecting_is_that_of_the_route() {
    // The listener accepts connections, but never answers a TLS handshake.
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let origin = format!("https://{}", listener.local_addr().expect("it is bound"));
    let lines = ("origin_connect_ms_max = 200", "origin_connect_ms_max = \"10m\"");
    for case in levels(lines.0, lines.1) {
        let server = serve(std::slice::from_ref(&origin), case);
        // With the other value, the client gives up first.
        assert_eq!(ask(&server, "/own").status, 504, "{case:?}");
        eventually("the event has the time", || server.errors().contains("no answer in 200 ms"));
    }
}

#[test]
fn the_pause_within_a_body_is_that_of_the_route() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegun";
    let origin = Origin::start(move |_| Script::new().send(head).stall());
    let lines = ("origin_idle_ms_max = 200", "origin_idle_ms_max = \"10m\"");
    for case in levels(lines.0, lines.1) {
        let server = serve(&[url(&origin)], case);
        let answer = Client::connect(server.address()).ask("GET", "/own", &[]);
        // The head may have been sent before the pause became too long.
        assert!(answer.map_or(true, |answer| answer.status == 504), "{case:?}");
        assert_eq!(server.stat("origin_timeouts_total"), 1.0, "{case:?}");
    }
}

#[test]
fn the_size_of_a_request_body_is_that_of_the_route() {
    let origin = Origin::echo();
    let post = |server: &Server, target: &str| {
        let mut client = Client::connect(server.address());
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert!(client.send(head));
        client.response("POST").expect("whole").status
    };
    for case in levels("body_bytes_max = 3", "body_bytes_max = 100") {
        let server = serve(&[url(&origin)], case);
        assert_eq!(post(&server, "/own"), 413, "{case:?}");
        assert_eq!(server.stat("bodies_too_large_total"), 1.0, "{case:?}");
    }
    let server = serve(&[url(&origin)], ["body_bytes_max = 3", "", "body_bytes_max = 4"]);
    assert_eq!(post(&server, "/own"), 200);
    assert_eq!(post(&server, "/other"), 413);
}

#[test]
fn the_number_of_tries_is_that_of_the_route() {
    let origins: Vec<_> = (0..3).map(|_| Origin::start(|_| Script::new().reset())).collect();
    let urls: Vec<_> = origins.iter().map(url).collect();
    let count = |origins: &[Origin]| origins.iter().map(Origin::request_count).sum::<usize>();
    for (tries, asked) in [(1, 1), (2, 2), (3, 3), (16, 3)] {
        for case in levels(&format!("origin_tries_max = {tries}"), "origin_tries_max = 16") {
            let server = serve(&urls, case);
            let before = count(&origins);
            assert_eq!(ask(&server, "/own").status, 502, "{case:?}");
            assert_eq!(count(&origins) - before, asked, "{case:?}");
        }
    }
    for (tries, asked) in [(1, 1), (2, 2), (16, 2)] {
        let server = serve(&urls[..1], ["", "", &format!("origin_tries_max = {tries}")]);
        let before = count(&origins);
        assert_eq!(ask(&server, "/own").status, 502, "{tries} of one origin");
        assert_eq!(count(&origins) - before, asked, "{tries} of one origin");
    }
}

#[test]
fn extra_bytes_of_an_origin_are_refused_by_the_route_alone() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz";
    let origin = Origin::start(move |_| Script::new().send(text).close());
    let server = serve(&[url(&origin)], ["", "", "origin_excess = \"refuse\""]);
    assert_eq!(ask(&server, "/other").status, 200);
    assert_eq!(ask(&server, "/own").status, 502);
}
