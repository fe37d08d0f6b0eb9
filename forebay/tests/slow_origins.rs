//! Several origins, some of which answer later than others.

use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin whose answers begin after `ms` milliseconds.
fn slow(ms: u64) -> Origin {
    Origin::start(move |request| {
        holds_within(Duration::from_millis(ms), || false);
        Script::answer("200 OK", &["Cache-Control: no-store"], request.target.as_bytes())
    })
}

/// A server with one worker in front of these origins; `site` has lines of the site.
fn serve(origins: &[&Origin], site: &str) -> Server {
    let urls: Vec<_> = origins.iter().map(|one| format!("http://{}", one.address())).collect();
    let config = format!("[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {urls:?}\n{site}\n");
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

/// Asks for `count` resources, all of which are answered.
fn ask_for(server: &Server, count: usize) {
    let mut client = Client::connect(server.address());
    for number in 0..count {
        let target = format!("/{number}");
        assert_eq!(client.ask("GET", &target, &[]).expect("whole").status, 200);
    }
}

const OUTLIERS: &str = "origin_outlier_factor = 4\norigin_outlier_ms_min = \"40ms\"";

#[test]
fn an_origin_that_is_much_slower_than_the_others_is_left_out() {
    let (one, other) = (slow(100), Origin::echo());
    let server = serve(&[&one, &other], OUTLIERS);
    ask_for(&server, 80);
    assert_eq!((one.request_count(), other.request_count()), (16, 64));
    assert_eq!(server.stat("origin_outliers_total"), 1.0);
    assert_eq!(server.stat("origin_ejections_total"), 1.0);
    let down = format!("site \"a\", origin {}: its answers begin after 1", one.address());
    eventually("the event has the reason", || server.errors().contains(&down));
    assert!(server.errors().contains("gets no requests for 10000 ms"), "{}", server.errors());
}

#[test]
fn a_slow_origin_keeps_its_requests_unless_the_others_are_faster_and_enough() {
    let (one, other, fast) = (slow(50), slow(50), Origin::echo());
    let cases: &[(&[&Origin], &str, usize, usize)] = &[
        (&[&one, &fast], "", 50, 0),
        (&[&one, &fast], "origin_outlier_factor = 2", 50, 0),
        (&[&one, &other], OUTLIERS, 50, 0),
        // One of them is left out; the other and the fast one are half of the group and more.
        (&[&one, &other, &fast], OUTLIERS, 120, 1),
    ];
    for (origins, settings, count, ejected) in cases {
        let server = serve(origins, settings);
        let before = one.request_count() + other.request_count();
        ask_for(&server, *count);
        assert_eq!(server.stat("origin_outliers_total"), *ejected as f64, "{settings}");
        let slow = one.request_count() + other.request_count() - before;
        assert!(slow > count / 3, "{slow} of {count} requests: {settings}");
    }
}
