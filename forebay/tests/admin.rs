//! The admin interface on both kinds of address, over real sockets.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use forebay_testkit::{Client, Origin, PATIENCE, Response, Script, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A Host field that a browser on this machine may send.
const HERE: &str = "localhost";

#[test]
fn every_page_answers_on_both_kinds_of_address() {
    let origin = Origin::echo();
    let long = format!("http://example.test/{}", "x".repeat(70_000));
    let cases = [
        ("GET /", "", 200, "POST /purge"),
        ("GET /healthz", "", 200, "ok\n"),
        ("GET /metrics", "", 200, "# TYPE forebay_hits_total counter\n"),
        ("GET /stats", "", 200, "\"hits_total\":"),
        ("GET /stats?x=1", "", 200, "\"uptime_ms\":"),
        ("POST /purge", "http://example.test/a", 200, "\"purged\":0"),
        ("POST /purge", " HTTP://example.test\n", 200, "\"purged\":0"),
        ("POST /purge", "", 400, "begins with http://"),
        ("POST /purge", "ftp://example.test/", 400, "begins with http://"),
        ("POST /purge", "http://exa mple.test/", 400, "malformed"),
        ("POST /purge", "http://example.test:99999/", 400, "malformed"),
        ("POST /purge", "http://example.test/a b", 400, "path"),
        ("POST /purge", "http://example.test/#a", 400, "path"),
        ("POST /purge", "http://other.test/", 400, "no site serves this host"),
        ("POST /purge", &long, 400, "did not arrive completely"),
        ("POST /purge?host=example.test", "", 200, "\"purged\":0"),
        ("POST /purge?host=example.test", "http://example.test/a", 400, "body"),
        ("POST /purge?prefix=http://example.test/a&tag=b&soft", "", 200, "\"purged\":0"),
        ("POST /purge?tag=a%20or%20b&site=a&dry-run=1", "", 200, "\"would_purge\":0"),
        ("POST /purge?soft", " HTTP://example.test\n", 200, "\"purged\":0"),
        ("POST /purge?dry-run", "http://example.test/", 200, "\"would_purge\":0"),
        ("POST /purge?site=a", "http://example.test/", 200, "\"purged\":0"),
        ("POST /purge?site=b", "http://example.test/", 400, "no site with this name"),
        ("POST /purge?sofd", "http://example.test/", 400, "no such parameter"),
        ("POST /purge?soft=maybe", "http://example.test/", 400, "true or false"),
        ("POST /purge?tag=(", "", 400, "\"argument\":\"tag\",\"at\":"),
        ("POST /purge?host=other.test", "", 400, "no site serves this host"),
        ("GET /ls", "", 200, "{\"after\":null,\"listed\":0}\n"),
        ("GET /ls?host=example.test&tag=a&limit=3", "", 200, "\"listed\":0"),
        ("GET /ls?limit=-1", "", 400, "whole number"),
        ("GET /ls?after=x", "", 400, "\"argument\":\"after\""),
        ("GET /ls?soft", "", 400, "no such parameter"),
        ("POST /ls", "", 405, "use "),
        ("GET /locks", "", 200, "{\"generation\":1,\"is_on\":false,\"sample\":1,\"stacks\":0}"),
        ("POST /locks?on&sample=50&stacks=9", "", 200, "\"sample\":50,\"stacks\":9}"),
        ("POST /locks?reset", "", 200, "{\"generation\":2,\"is_on\":true,\"sample\":50,\"sta"),
        ("POST /locks?off&reset", "", 200, "{\"generation\":3,\"is_on\":false,\"sample\":50,"),
        ("POST /locks?on", "", 200, "\"is_on\":true,\"sample\":1,\"stacks\":9}"),
        ("POST /locks?off&stacks=2", "", 400, "\"argument\":\"stacks\""),
        ("POST /locks?on&stacks=1000000001", "", 400, "\"argument\":\"stacks\""),
        ("POST /locks", "", 400, "one of on, off and reset"),
        ("POST /locks?on&off", "", 400, "one of on, off and reset"),
        ("POST /locks?sample=2", "", 400, "one of on, off and reset"),
        ("POST /locks?on&sample=0", "", 400, "\"argument\":\"sample\""),
        ("POST /locks?onn", "", 400, "no such parameter"),
        ("DELETE /locks", "", 405, "use "),
        ("POST /reload", "", 200, "\"reloaded\":true"),
        ("GET /nothing", "", 404, "GET / lists all"),
        ("POST /healthz/", "", 404, "GET / lists all"),
        ("POST /", "", 405, "use "),
        ("POST /healthz", "", 405, "use "),
        ("DELETE /metrics", "", 405, "use "),
        ("PUT /stats", "", 405, "use "),
        ("GET /purge", "", 405, "use "),
        ("GET /reload", "", 200, "\"trial\":null"),
    ];
    for server in [over_unix(&origin), over_tcp(&origin)] {
        for (line, body, status, fragment) in cases {
            let response = ask(&server, line, &[&format!("Host: {HERE}")], body);
            let what = format!("{line} {:.60} at {:?}: {response:?}", body, server.admin());
            assert_eq!(response.status, status, "{what}");
            assert!(response.text().contains(fragment), "{what}");
            // RFC 9110 §15.5.6: Allow names the methods.
            assert_eq!(response.head.has("allow"), status == 405, "{what}");
        }
    }
}

#[test]
fn a_web_page_of_another_site_is_refused_at_a_port() {
    let origin = Origin::echo();
    let (unix, tcp) = (over_unix(&origin), over_tcp(&origin));
    let port = tcp.admin().display().to_string();
    // Fields of the request, and the status at the TCP port. A web page cannot make a browser use a
    // Unix socket.
    let cases: &[(&[&str], u16)] = &[
        (&["Host: localhost"], 200),
        (&["Host: LOCALHOST:8080"], 200),
        (&["Host: 127.0.0.1"], 200),
        (&["Host: 127.9.9.9:1"], 200),
        (&["Host: [::1]:80"], 200),
        (&[&format!("Host: {port}")], 200),
        (&[], 403),
        (&["Host:"], 403),
        (&["Host: evil.test"], 403),
        (&["Host: localhost.evil.test"], 403),
        (&["Host: 127.0.0.1.evil.test"], 403),
        (&["Host: 127.evil.test:80"], 403),
        (&["Host: 10.0.0.1"], 403),
        (&["Host: localhost", "Host: evil.test"], 403),
        (&["Host: localhost", "Origin: http://evil.test"], 403),
        (&["Host: localhost", "Origin: null"], 403),
    ];
    for line in ["GET /healthz", "GET /stats", "POST /reload", "POST /purge"] {
        for (fields, status) in cases {
            let response = ask(&tcp, line, fields, "http://example.test/");
            assert_eq!(response.status, *status, "{line} with {fields:?} at a port");
        }
    }
    let foreign = ["Host: evil.test", "Origin: http://evil.test"];
    assert_eq!(ask(&unix, "GET /healthz", &foreign, "").status, 200);
    assert_eq!(tcp.stat("reloads_total"), 6.0, "a refused request had an effect");
}

#[test]
fn every_metric_has_help_type_and_number_and_is_in_the_statistics() {
    let origin = Origin::echo();
    let server = over_unix(&origin);
    Client::connect(server.address()).ask("GET", "/", &[]).expect("served");
    let text = ask(&server, "GET /metrics", &["Host: a"], "").text();
    let mut names = BTreeSet::new();
    for group in text.split("# HELP forebay_").skip(1) {
        let lines: Vec<&str> = group.lines().collect();
        let (name, help) = lines[0].split_once(' ').expect("name and help");
        assert!(help.len() > 8, "{group}");
        let kind = lines[1].strip_prefix(&format!("# TYPE forebay_{name} "));
        let samples = lines[2..].iter().map(|line| {
            let (sample, value) = line.rsplit_once(' ').expect("name and value");
            let sample = sample.strip_prefix("forebay_").expect("our prefix");
            (sample, value.parse::<u64>().expect("a number"))
        });
        let samples: Vec<(&str, u64)> = samples.collect();
        if name.starts_with("site_") && !name.starts_with("site_origin_") {
            // The statistics have the sites apart, in `GET /sites`.
            let labels = ["a", "no site", "further sites"].map(|site| format!("site=\"{site}\""));
            let has = |label: &String| samples.iter().any(|(sample, _)| sample.contains(label));
            assert!(labels.iter().all(has), "{group}");
            continue;
        }
        if kind == Some("histogram") {
            is_histogram(name, &samples);
            names.extend([format!("{name}_count"), format!("{name}_sum")]);
            continue;
        }
        if name == "reasons_total" {
            let reasons = samples.iter().map(|(sample, _)| reason_counter(sample));
            names.extend(reasons);
            continue;
        }
        let wanted = if name.ends_with("_total") { "counter" } else { "gauge" };
        if name.starts_with("site_origin_") {
            // The statistics have no numbers with labels.
            let labels = format!("{{site=\"a\",origin=\"{}\"}}", origin.address());
            assert_eq!((kind, samples.len()), (Some(wanted), 1), "{group}");
            assert_eq!(samples[0].0, format!("{name}{labels}"));
            continue;
        }
        assert_eq!((kind, samples.len(), samples[0].0), (Some(wanted), 1, name), "{group}");
        assert!(names.insert(name.to_string()), "{name} twice");
    }
    assert!(text.contains("\nforebay_requests_total 1\n"), "{text}");
    assert!(text.contains("\nforebay_reasons_total{reason=\"declined\"} 0\n"), "{text}");
    let mut shown: BTreeSet<_> = server.stats().into_keys().collect();
    shown.retain(|name| !["workers", "uptime_ms"].contains(&name.as_str()));
    assert_eq!(names, shown);
}

/// Returns the name that the statistics give to a counter with the label `reason`.
fn reason_counter(sample: &str) -> String {
    let reason = sample.strip_prefix("reasons_total{reason=\"");
    let reason = reason.and_then(|rest| rest.strip_suffix("\"}")).expect("a label");
    format!("reason_{}_total", reason.replace('-', "_"))
}

/// Checks that the bounds of the buckets grow, that the values of the buckets are cumulative up to
/// the count, and that the samples of sum and count come after the buckets.
fn is_histogram(name: &str, samples: &[(&str, u64)]) {
    let [buckets @ .., sum, count] = samples else {
        panic!("{name} has no sum or count: {samples:?}")
    };
    assert_eq!((sum.0, count.0), (&*format!("{name}_sum"), &*format!("{name}_count")));
    let bounds: Vec<f64> = buckets
        .iter()
        .map(|(sample, _)| {
            let bound = sample.strip_prefix(&format!("{name}_bucket{{le=\""));
            let bound = bound.and_then(|bound| bound.strip_suffix("\"}"));
            bound.and_then(|bound| bound.parse().ok()).unwrap_or_else(|| panic!("{sample}"))
        })
        .collect();
    assert!(bounds.len() > 10 && bounds.is_sorted_by(|a, b| a < b), "{name}: {bounds:?}");
    assert_eq!(bounds.last(), Some(&f64::INFINITY), "{name}");
    assert!(buckets.is_sorted_by_key(|(_, value)| value), "{samples:?}");
    assert_eq!(buckets.last().map(|(_, value)| *value), Some(count.1), "{samples:?}");
    assert!(count.1 > 0, "the request was not counted: {samples:?}");
}

#[test]
fn a_purge_and_a_refused_reload_have_their_effect_and_no_other() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let server = over_tcp(&origin);
    let mut client = Client::connect(server.address());
    for target in ["/a", "/b"] {
        client.ask("GET", target, &[]).expect("served");
    }
    let response = ask(&server, "POST /purge", &["Host: [::1]"], "http://example.test/a");
    assert!(response.text().contains("\"purged\":1"), "{response:?}");
    for target in ["/a", "/b"] {
        client.ask("GET", target, &[]).expect("served");
    }
    assert_eq!((origin.count("/a"), origin.count("/b")), (2, 1));

    server.write_config("workers = \n");
    let response = ask(&server, "POST /reload", &["Host: localhost"], "");
    assert_eq!(response.status, 422);
    assert!(response.text().contains("forebay.toml:1:"), "{response:?}");
    assert_eq!(client.ask("GET", "/b", &[]).expect("served").status, 200);
}

#[test]
fn the_socket_is_private_and_a_public_address_is_refused() {
    let origin = Origin::echo();
    let server = over_unix(&origin);
    let mode = std::fs::metadata(server.admin()).expect("the path exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9000"] {
        let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--admin", address);
        let output = builder.run();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{address}: {said}");
        assert!(output.stdout.is_empty(), "the server listens on {address}");
        assert!(said.contains("--admin") && said.contains(address), "{said}");
        assert!(said.contains("loopback or a Unix socket"), "{said}");
    }
}

/// The number of admin connections that a server keeps open.
const ADMIN_CONNECTIONS_MAX: usize = 64;

#[test]
fn idle_admin_connections_do_not_keep_the_operator_out() {
    // Silent connections, connections with a part of a head, and connections that wait after an
    // answer.
    let answered = format!("GET / HTTP/1.1\r\nHost: {HERE}\r\n\r\n");
    crowd_out(&["", "GET /healthz HTTP/1.1\r\n", &answered]);
}

#[test]
fn requests_without_their_bodies_do_not_keep_the_operator_out() {
    let head = format!("POST /purge HTTP/1.1\r\nHost: {HERE}\r\nContent-Length: 20\r\n\r\n");
    crowd_out(&[&head]);
}

/// Opens more connections than the server keeps, which send one of the texts each, and checks that
/// an operator is served.
fn crowd_out(sent: &[&str]) {
    let origin = Origin::echo();
    let server = over_tcp(&origin);
    let address = server.admin().display().to_string();
    let address: std::net::SocketAddr = address.parse().expect("a port");
    let connect = |sent: &str| {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        stream.write_all(sent.as_bytes()).expect("the connection is open");
        stream
    };
    let mut idle: Vec<_> =
        (0..2 * ADMIN_CONNECTIONS_MAX).map(|number| connect(sent[number % sent.len()])).collect();
    for round in 0..3 {
        let health = ask(&server, "GET /healthz", &[&format!("Host: {HERE}")], "");
        assert_eq!(health.status, 200, "round {round}");
    }
    let crowded = server.stat("admin_crowded_total");
    assert!(crowded >= ADMIN_CONNECTIONS_MAX as f64, "{crowded}");
    assert!(server.errors().contains("admin_full"), "{}", server.errors());
    let mut end = Vec::new();
    // The first connection was idle for longest. A close may arrive as a reset.
    let closed = idle[0].read_to_end(&mut end);
    assert!(closed.is_ok() || closed.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn new_connections_do_not_cut_a_list_that_is_being_sent() {
    let origin = Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"x"));
    let server = over_unix(&origin);
    let mut client = Client::connect(server.address());
    // The list is longer than the buffers between the server and its client.
    let filler = "x".repeat(4_000);
    for number in 0..LISTED {
        let stored = client.ask("GET", &format!("/{number}{filler}"), &[]);
        assert_eq!(stored.expect("served").status, 200);
    }
    let connect = || {
        let stream = UnixStream::connect(server.admin()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        stream
    };
    let mut list = connect();
    list.write_all(b"GET /ls HTTP/1.1\r\nConnection: close\r\n\r\n").expect("it is open");
    let mut answer = vec![0; 1];
    list.read_exact(&mut answer).expect("the answer begins");
    let _others: Vec<_> = (0..ADMIN_CONNECTIONS_MAX).map(|_| connect()).collect();
    assert_eq!(ask(&server, "GET /healthz", &[], "").status, 200);
    list.read_to_end(&mut answer).expect("the answer ends");
    let answer = String::from_utf8_lossy(&answer);
    let end = format!("{{\"after\":null,\"listed\":{LISTED}}}");
    assert!(answer.contains(&end), "cut after {} bytes", answer.len());
}

/// Resources in the list of one test.
const LISTED: usize = 400;

fn builder(origin: &Origin) -> ServerBuilder {
    let site = format!(
        "[[site]]\nname = \"a\"\nnames = [\"example.test\"]\norigin = \"http://{}\"\n",
        origin.address()
    );
    ServerBuilder::new(PROGRAM).config(&site).flag("--workers", "1")
}

fn over_unix(origin: &Origin) -> Server {
    builder(origin).start()
}

fn over_tcp(origin: &Origin) -> Server {
    builder(origin).flag("--admin", "127.0.0.1:0").start()
}

/// Sends one request on a new connection. `line` is the method and the target.
fn ask(server: &Server, line: &str, fields: &[&str], body: &str) -> Response {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let head = format!("{line} HTTP/1.1\r\n{fields}Connection: close\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let place = server.admin();
    let answer = match place.display().to_string().parse() {
        Ok(address) => {
            let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
            exchange(stream, &request)
        }
        Err(_) => {
            let stream = UnixStream::connect(&place).expect("it listens");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
            exchange(stream, &request)
        }
    };
    let method = line.split(' ').next().unwrap_or_default();
    let parsed = Response::parse(&answer, method, true).expect("well-formed");
    parsed.unwrap_or_else(|| panic!("no answer to {line} with {fields:?}")).0
}

fn exchange(mut stream: impl Read + Write, request: &str) -> Vec<u8> {
    // The server may refuse the request before it has read the whole body.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..count]);
    }
    answer
}
