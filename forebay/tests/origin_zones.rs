//! Zones of origins: those in the zone of the server get all requests while one of them can take
//! them.

use std::time::Duration;

use forebay_testkit::clock::holds_within;
use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn origin() -> Origin {
    Origin::start(page)
}

fn page(_: &forebay_testkit::Request) -> Script {
    Script::answer("200 OK", &["Cache-Control: no-store"], b"page")
}

/// A configuration in which each origin has these settings.
fn config(zone: &str, origins: &[(&Origin, &str)]) -> String {
    let mut text = format!("{zone}\n[[site]]\nname = 'a'\nnames = ['*']\n");
    for (origin, settings) in origins {
        let url = format!("http://{}", origin.address());
        text += &format!("[[site.origin]]\nurl = '{url}'\n{settings}\n");
    }
    text
}

fn start(config: &str) -> Server {
    ServerBuilder::new(PROGRAM).flag("--workers", "1").config(config).start()
}

fn ask(server: &Server, count: usize) {
    let mut client = Client::connect(server.address());
    for _ in 0..count {
        assert_eq!(client.ask("GET", "/", &[]).expect("whole").status, 200);
    }
}

fn counts<const N: usize>(origins: [&Origin; N]) -> [usize; N] {
    origins.map(Origin::request_count)
}

#[test]
fn origins_of_the_zone_take_all_requests_and_others_only_while_they_fail() {
    let (far, near, other) = (origin(), origin(), origin());
    let origins = [(&far, "zone = 'b'"), (&near, "zone = 'a'"), (&other, "")];
    let server = start(&config("zone = 'a'", &origins));
    ask(&server, 10);
    assert_eq!(counts([&far, &near, &other]), [0, 10, 0]);
    assert_eq!(server.stat("origin_out_of_zone_total"), 0.0);

    let address = near.address();
    near.stop();
    ask(&server, 10);
    // An origin without a zone is outside of it, too.
    assert_eq!(counts([&far, &other]), [5, 5]);
    assert_eq!(server.stat("origin_out_of_zone_total"), 10.0);

    let near = Origin::start_at(address, page);
    eventually("the origin of the zone is back", || {
        ask(&server, 1);
        near.request_count() > 0
    });
    let before = counts([&far, &other]);
    ask(&server, 10);
    assert_eq!(counts([&far, &other]), before);
}

#[test]
fn a_hedge_that_is_not_sent_leaves_no_zone() {
    let slow = || {
        Origin::start(|request| {
            holds_within(Duration::from_millis(500), || false);
            page(request)
        })
    };
    let (near, one, other) = (origin(), slow(), slow());
    let origins = [(&near, "zone = 'a'"), (&one, "zone = 'b'"), (&other, "zone = 'b'")];
    // Without retries there are no hedges.
    let settings = "zone = 'a'\nhedge_ms = '50ms'\norigin_retry_percent = 0";
    let server = start(&config(settings, &origins));
    near.stop();
    ask(&server, 1);
    assert_eq!(server.stat("hedges_refused_total"), 1.0);
    assert_eq!(one.request_count() + other.request_count(), 1);
    assert_eq!(server.stat("origin_out_of_zone_total"), 1.0);
}

#[test]
fn a_backup_of_the_zone_comes_after_all_origins_that_are_no_backups() {
    let (far, near, spare) = (origin(), origin(), origin());
    let spare_settings = "zone = 'a'\nbackup = true";
    let origins = [(&spare, spare_settings), (&far, "zone = 'b'"), (&near, "zone = 'a'")];
    let server = start(&config("zone = 'a'", &origins));
    near.stop();
    ask(&server, 6);
    assert_eq!(counts([&far, &spare]), [6, 0]);
    far.stop();
    ask(&server, 6);
    assert_eq!(spare.request_count(), 6);
}

#[test]
fn without_the_servers_zone_or_an_origin_in_it_zones_have_no_effect() {
    for zone in ["", "zone = 'off'", "zone = 'c'"] {
        let (one, two) = (origin(), origin());
        let origins = [(&one, "zone = 'a'"), (&two, "zone = 'b'")];
        let server = start(&config(zone, &origins));
        ask(&server, 10);
        assert_eq!(counts([&one, &two]), [5, 5], "{zone}");
        assert_eq!(server.stat("origin_out_of_zone_total"), 0.0, "{zone}");
    }
}

#[test]
fn a_reload_changes_the_zone_and_explain_shows_which_origins_come_first() {
    let (one, two) = (origin(), origin());
    let origins = [(&one, "zone = 'a'"), (&two, "zone = 'b'")];
    let server = start(&config("zone = 'a'", &origins));
    let explained = || {
        let url = format!("http://{}/", server.address());
        String::from_utf8_lossy(&server.command(&["explain", &url]).stdout).into_owned()
    };
    let line = |zone: &str, origin: &Origin| {
        format!("the origins in zone {zone}, that of the server, come first: {}", origin.address())
    };
    ask(&server, 4);
    assert!(explained().contains(&line("a", &one)), "{}", explained());
    server.write_config(&config("zone = 'b'", &origins));
    assert!(server.command(&["reload", "--wait"]).status.success());
    ask(&server, 4);
    assert_eq!(counts([&one, &two]), [4, 4]);
    assert!(explained().contains(&line("b", &two)), "{}", explained());
}
