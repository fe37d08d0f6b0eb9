//! The metrics of each site, and the site and the origin in the access log.

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder};

/// The value of a metric of one site.
fn metric(server: &Server, name: &str, site: &str) -> Option<f64> {
    let start = format!("forebay_site_{name}{{site=\"{site}\"}} ");
    let metrics = server.metrics();
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(&start));
    let value = lines.next()?.parse().ok();
    assert_eq!(lines.next(), None, "{name} is there twice");
    value
}

fn ask(server: &Server, host: &str, method: &str, target: &str) -> u16 {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut client = Client::connect(server.address());
    assert!(client.send(head));
    client.response(method).expect("whole").status
}

#[test]
fn each_site_has_its_own_counts() {
    let origin = Origin::start(|request| match request.target.as_str() {
        "/missing" => Script::answer("404 Not Found", &[], b""),
        "/broken" => Script::answer("503 Service Unavailable", &[], b""),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"body"),
    });
    let url = format!("http://{}", origin.address());
    let config = format!(
        "[[site]]\nname = \"one\"\nnames = [\"one.test\"]\norigin = \"{url}\"\n\
         [[site]]\nname = \"other\"\nnames = [\"other.test\"]\norigin = \"{url}\"\n"
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let server = server.config(&config).flag("--workers", "2").start();
    assert_eq!(ask(&server, "one.test", "GET", "/a"), 200);
    forebay_testkit::eventually("it is stored", || server.stat("stored_total") == 1.0);
    for _ in 0..3 {
        assert_eq!(ask(&server, "one.test", "GET", "/a"), 200);
    }
    assert_eq!(ask(&server, "one.test", "GET", "/missing"), 404);
    assert_eq!(ask(&server, "one.test", "GET", "/broken"), 503);
    assert_eq!(ask(&server, "one.test", "POST", "/a"), 200);
    assert_eq!(ask(&server, "other.test", "GET", "/a"), 200);
    assert_eq!(ask(&server, "unknown.test", "GET", "/a"), 421);
    for (name, [one, other, none]) in [
        ("requests_total", [7.0, 1.0, 1.0]),
        ("hits_total", [3.0, 0.0, 0.0]),
        ("forwarded_total", [4.0, 1.0, 0.0]),
        ("bypasses_total", [1.0, 0.0, 0.0]),
        ("answers_2xx_total", [5.0, 1.0, 0.0]),
        ("answers_4xx_total", [1.0, 0.0, 1.0]),
        ("answers_5xx_total", [1.0, 0.0, 0.0]),
        ("broken_total", [0.0, 0.0, 0.0]),
        ("wait_ms_count", [4.0, 1.0, 0.0]),
    ] {
        assert_eq!(metric(&server, name, "one"), Some(one), "{name}");
        assert_eq!(metric(&server, name, "other"), Some(other), "{name}");
        assert_eq!(metric(&server, name, "no site"), Some(none), "{name}");
    }
    assert_eq!(metric(&server, "body_bytes_total", "one"), Some(20.0));
    let buckets = "forebay_site_wait_ms_bucket{site=\"one\",le=\"+Inf\"} 4\n";
    assert!(server.metrics().contains(buckets));

    let shown = server.command(&["stats", "--site", "one", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&shown["site"], &shown["site_hits_total"]), (&"one".into(), &3.into()));
    let table = server.command(&["stats", "--site", "one"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let has = |name: &str, value: &str| {
        table.lines().any(|line| line.starts_with(name) && line.ends_with(value))
    };
    assert!(has("site_requests_total", " 7") && has("hit ratio", " 42.9%"), "{table}");
    let unknown = server.command(&["stats", "--site", "shop"]);
    assert!(!unknown.status.success());
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(error.contains("no site has the name \"shop\"; there are: one, other"), "{error}");

    // A reload keeps the counts of the sites that stay, and removes those of the others.
    server.write_config(&config[config.find("[[site]]\nname = \"other\"").expect("it is there")..]);
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(metric(&server, "requests_total", "one"), None);
    assert_eq!(ask(&server, "other.test", "GET", "/a"), 200);
    assert_eq!(metric(&server, "requests_total", "other"), Some(2.0));
    assert_eq!(ask(&server, "one.test", "GET", "/a"), 421);
    assert_eq!(metric(&server, "requests_total", "no site"), Some(2.0));
}

#[test]
fn the_access_log_has_the_site_and_the_origin_that_answered() {
    let fields: &[&str] = &["Cache-Control: max-age=60"];
    let origin = Origin::start(move |_| Script::answer("200 OK", fields, b"body"));
    let address = origin.address().to_string();
    let config = format!(
        "access_log = \"-\"\n[[site]]\nname = \"one\"\nnames = [\"one.test\"]\n\
         origin = \"http://{address}\"\n"
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let server = server.config(&config).flag("--workers", "1").start();
    assert_eq!(ask(&server, "one.test", "GET", "/a"), 200);
    forebay_testkit::eventually("it is stored", || server.stat("stored_total") == 1.0);
    assert_eq!(ask(&server, "one.test", "GET", "/a"), 200);
    assert_eq!(ask(&server, "one.test", "POST", "/a"), 200);
    assert_eq!(ask(&server, "unknown.test", "GET", "/a"), 421);
    let lines = || -> Vec<serde_json::Value> {
        let output = server.output();
        output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    forebay_testkit::eventually("four lines are written", || lines().len() == 4);
    let (site, origin) = (Some("one"), Some(address.as_str()));
    let expected = [(site, origin), (site, None), (site, origin), (None, None)];
    for (line, expected) in lines().iter().zip(expected) {
        assert_eq!((line["site"].as_str(), line["origin"].as_str()), expected, "{line}");
        assert_eq!(line["origin_us"].is_u64(), expected.1.is_some(), "{line}");
    }
}
