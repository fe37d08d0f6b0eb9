//! The metrics of each origin of each site.

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder};

/// The value of a metric of one origin of the site.
fn metric(server: &Server, name: &str, site: &str, origin: &str) -> Option<f64> {
    let start = format!("forebay_site_origin_{name}{{site=\"{site}\",origin=\"{origin}\"}} ");
    let metrics = server.metrics();
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(&start));
    let value = lines.next()?.parse().ok();
    assert_eq!(lines.next(), None, "{name} is there twice");
    value
}

#[test]
fn each_origin_of_each_site_has_its_own_counts() {
    let good = Origin::start(|request| match request.target.as_str() {
        "/missing" => Script::answer("404 Not Found", &[], b""),
        "/broken" => Script::answer("503 Service Unavailable", &[], b""),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"),
    });
    let bad = Origin::start(|_| Script::new().send("HTTP/2.5 what\r\n\r\n").close());
    let (gone, kept) = (Origin::echo(), good.address().to_string());
    let (refusing, bad_address) = (gone.address().to_string(), bad.address().to_string());
    gone.stop();
    let config = format!(
        "[[site]]\nname = \"one\"\nnames = [\"one.test\"]\n\
         origin = [\"http://{kept}\", {{ url = \"http://{refusing}\", weight = 1 }}]\n\
         [[site]]\nname = \"other\"\nnames = [\"other.test\"]\norigin = \"http://{kept}\"\n\
         [[site]]\nname = \"bad\"\nnames = [\"bad.test\"]\norigin = \"http://{bad_address}\"\n"
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let server = server.config(&config).flag("--workers", "2").start();
    let ask = |host: &str, target: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut client = Client::connect(server.address());
        assert!(client.send(head));
        client.response("GET").expect("whole").status
    };
    for number in 0..6 {
        assert_eq!(ask("one.test", &format!("/{number}")), 200);
    }
    assert_eq!((ask("one.test", "/missing"), ask("one.test", "/broken")), (404, 503));
    // Two requests of another site, of which the second is a hit.
    assert_eq!((ask("other.test", "/a"), ask("other.test", "/a")), (200, 200));
    assert_eq!(ask("bad.test", "/a"), 502);

    let of = |name: &str, site: &str, origin: &str| metric(&server, name, site, origin);
    for (name, expected) in [
        ("requests_total", 8.0),
        ("answers_total", 8.0),
        ("answers_4xx_total", 1.0),
        ("answers_5xx_total", 1.0),
        ("unreachable_total", 0.0),
        ("ejections_total", 0.0),
        ("exchanges", 0.0),
        ("ejected_workers", 0.0),
    ] {
        assert_eq!(of(name, "one", &kept), Some(expected), "{name}");
    }
    assert!(of("first_byte_us_total", "one", &kept).is_some_and(|sum| sum >= 8.0));
    let failed = of("unreachable_total", "one", &refusing).expect("a line");
    assert!(failed >= 1.0);
    assert_eq!(of("requests_total", "one", &refusing), Some(failed));
    assert_eq!(
        of("ejections_total", "one", &refusing),
        Some(server.stat("origin_ejections_total"))
    );
    assert_eq!(of("requests_total", "other", &kept), Some(1.0));
    assert_eq!(of("bad_answers_total", "bad", &bad_address), Some(1.0));
    assert_eq!(of("answers_total", "bad", &bad_address), Some(0.0));

    // A reload without the site removes its lines, and the others go on counting.
    server.write_config(&config[config.find("[[site]]\nname = \"other\"").expect("it is there")..]);
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(of("requests_total", "one", &kept), None);
    assert_eq!(ask("other.test", "/b"), 200);
    assert_eq!(of("requests_total", "other", &kept), Some(2.0));
}
