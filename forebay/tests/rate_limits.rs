//! Rate limits of sites and routes.

use std::net::IpAddr;

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

/// Starts a server with these lines for its site, and the origin of the site. The server has two
/// workers, and trusts the proxy 127.0.0.9.
fn serve(lines: &str) -> (Origin, Server) {
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"));
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let log = builder.path("access.log").display().to_string();
    let text = config(&origin, &log, lines);
    (origin, builder.config(&text).start())
}

fn config(origin: &Origin, log: &str, lines: &str) -> String {
    format!(
        "workers = 2\ntrusted_proxies = [\"127.0.0.9\"]\naccess_log = {log:?}\n\
         [[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n{lines}",
        origin.address()
    )
}

/// Sends a request on a connection of its own, so that each worker gets some of them.
fn ask(server: &Server, from: u8, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect_from(IpAddr::from([127, 0, 0, from]), server.address());
    client.ask("GET", target, fields).expect("an answer")
}

fn count_admitted(server: &Server, from: u8, target: &str, requests: usize) -> usize {
    let statuses = (0..requests).map(|_| ask(server, from, target, &[]).status);
    let statuses: Vec<_> = statuses.collect();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

#[test]
fn the_workers_together_admit_the_burst_and_other_clients_are_not_affected() {
    let (origin, server) = serve(
        "rate_limit = [\"10/1h burst=7\"]\n\
         [[site.route]]\npath_prefix = \"/open\"\nrate_limit = []\n\
         [[site.route]]\npath_prefix = \"/inherits\"\ncache = false\n\
         [[site.route]]\npath_prefix = \"/own\"\nrate_limit = [\"10/1h burst=7\"]\n",
    );
    // All but the first request of each path are answered from the store.
    assert_eq!(count_admitted(&server, 1, "/", 40), 7);
    assert_eq!(count_admitted(&server, 2, "/", 40), 7);
    assert_eq!(origin.request_count(), 1);
    assert_eq!(count_admitted(&server, 1, "/open", 40), 40);
    // Routes that inherit the list of their site share its counts; a list of their own has others.
    assert_eq!(count_admitted(&server, 1, "/inherits", 5), 0);
    assert_eq!(count_admitted(&server, 1, "/own", 40), 7);
    assert_eq!(server.stat("rate_limited_total"), (33 + 33 + 5 + 33) as f64);
    assert_eq!(server.stat("rate_limit_entries_replaced_total"), 0.0);
}

#[test]
fn a_refused_request_is_told_its_limit_and_when_to_come_back() {
    let (_origin, mut server) =
        serve("rate_limit = [\"1000/1s\", \"2/1h by=field:X-Api-Key burst=1\"]\n");
    let key = "X-API-Key: secret";
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("GET", "/", &[key]).expect("an answer").status, 200);
    // A refusal does not end the connection.
    for method in ["GET", "HEAD", "GET"] {
        let response = client.ask(method, "/", &[key]).expect("an answer");
        assert_eq!(response.status, 429);
        let wait_s = response.field("retry-after").expect("a time").to_owned();
        assert!((1700..=1800).contains(&wait_s.parse().expect("seconds")), "{wait_s}");
        for (name, value) in [
            ("ratelimit-policy", "\"x-api-key\";q=2;w=3600"),
            ("ratelimit", &format!("\"x-api-key\";r=0;t={wait_s}")),
            ("cache-control", "no-store"),
            ("content-type", "text/plain; charset=utf-8"),
        ] {
            assert_eq!(response.field(name), Some(value), "{method}: {name}");
        }
        assert_eq!(response.field("cache-status"), None, "the cache was not used");
        if method == "GET" {
            assert_eq!(response.text(), "too many requests; try again later\n");
        }
    }
    eventually("the event is logged", || server.errors().contains("rate limit is reached"));
    assert_eq!(server.stat("rate_limited_total"), 3.0);
    drop(client);
    assert!(server.stop().is_some_and(|status| status.success()));
    let log = std::fs::read_to_string(server.path("access.log")).expect("the log");
    let refused: Vec<_> = log.lines().filter(|line| line.contains("\"status\":429")).collect();
    assert_eq!(refused.len(), 3, "{log}");
    assert!(refused.iter().all(|line| line.contains("too many requests")), "{log}");
}

/// A request without exactly one value of the field counts for its address.
#[test]
fn a_limit_by_field_counts_each_value_and_else_the_address() {
    let (_origin, server) = serve("rate_limit = [\"1/1h by=field:x-api-key\"]\n");
    for (from, fields, status) in [
        (1, &["x-api-key: a"][..], 200),
        (2, &["x-api-key: a"], 429),
        (1, &["x-api-key: b"], 200),
        (1, &[], 200),
        (1, &[], 429),
        (1, &["x-api-key: c", "x-api-key: d"], 429),
        (1, &["x-api-key:"], 429),
        (1, &["x_api_key: e"], 429),
        (2, &["x-api-key: c", "x-api-key: d"], 200),
        (2, &["x-api-key: e", "x-api-key: f"], 429),
        (2, &[], 429),
    ] {
        assert_eq!(ask(&server, from, "/", fields).status, status, "{from} {fields:?}");
    }
}

#[test]
fn each_request_has_to_keep_to_all_limits_and_counts_only_if_it_does() {
    let (_origin, server) =
        serve("rate_limit = [\"5/1h by=route\", \"3/1h by=address\"]\nerror_pages = []\n");
    assert_eq!(count_admitted(&server, 1, "/", 20), 3);
    // The 17 refused requests did not count against the limit of the route.
    assert_eq!(count_admitted(&server, 2, "/", 20), 2);
    assert_eq!(count_admitted(&server, 3, "/", 20), 0);
    let policy = |from| {
        let response = ask(&server, from, "/", &[]);
        response.field("ratelimit-policy").map(str::to_owned)
    };
    assert_eq!(policy(3).as_deref(), Some("\"route\";q=5;w=3600"));
}

#[test]
fn a_client_learns_the_longest_of_the_times_to_wait() {
    let (_origin, server) =
        serve("rate_limit = [\"1/1m\", \"2/10h burst=1\", \"1/1m by=route\"]\n");
    assert_eq!(ask(&server, 1, "/", &[]).status, 200);
    let refused = ask(&server, 1, "/", &[]);
    let wait_s: u64 = refused.field("retry-after").expect("a time").parse().expect("a number");
    assert!((17_000..=18_000).contains(&wait_s), "{wait_s}");
    assert_eq!(refused.field("ratelimit-policy"), Some("\"address-2\";q=2;w=36000"));
}

#[test]
fn the_address_is_the_one_that_a_trusted_proxy_states() {
    let (_origin, server) = serve(
        "rate_limit = [\"1/1h\"]\n\
         [[site.route]]\npath_prefix = \"/shut\"\ndeny_from = [\"127.0.0.4\"]\n",
    );
    for (from, forwarded, status) in [
        (9, "192.0.2.1", 200),
        (9, "192.0.2.1", 429),
        (9, "192.0.2.2", 200),
        (9, "2001:db8::1", 200),
        (9, "2001:db8::2", 429),
        (9, "2001:db8:0:1::2", 200),
        (9, "", 200),
        // Clients that the proxy does not state legibly share the limit of the proxy.
        (9, "unknown", 429),
        // An address that is not trusted states nothing.
        (1, "192.0.2.3", 200),
        (1, "192.0.2.4", 429),
    ] {
        let field = format!("X-Forwarded-For: {forwarded}");
        assert_eq!(ask(&server, from, "/", &[&field]).status, status, "{from} {forwarded}");
    }
    // A request that a list refuses does not count.
    assert_eq!(ask(&server, 4, "/shut", &[]).status, 403);
    assert_eq!(ask(&server, 4, "/", &[]).status, 200);
}

#[test]
fn purges_of_clients_that_may_purge_do_not_count() {
    let (_origin, server) = serve("rate_limit = [\"1/1h\"]\npurge_from = [\"127.0.0.1\"]\n");
    let mut client = Client::connect(server.address());
    let mut status = |method: &str| client.ask(method, "/", &[]).expect("an answer").status;
    for (method, expected) in
        [("PURGE", 200), ("GET", 200), ("PURGE", 200), ("GET", 429), ("PURGE", 200)]
    {
        assert_eq!(status(method), expected, "{method}");
    }
    let mut stranger = Client::connect_from(IpAddr::from([127, 0, 0, 2]), server.address());
    for expected in [403, 429] {
        assert_eq!(stranger.ask("PURGE", "/", &[]).expect("an answer").status, expected);
    }
}

/// Guesses of a password count too.
#[test]
fn a_limit_counts_requests_before_their_passwords_are_checked() {
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"));
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let users = builder.path("users");
    let user = "ann:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    std::fs::write(&users, user).expect("it is written");
    let lines = format!("basic_auth = {users:?}\nrate_limit = [\"3/1h\"]\n");
    let server = builder.config(&config(&origin, "off", &lines)).start();
    // `ann:wrong` and `ann:secret`
    let (wrong, right) =
        ("Authorization: Basic YW5uOndyb25n", "Authorization: Basic YW5uOnNlY3JldA==");
    for (field, status) in
        [("X: none", 401), (right, 200), (wrong, 401), (wrong, 429), (right, 429)]
    {
        assert_eq!(ask(&server, 1, "/", &[field]).status, status, "{field}");
    }
    assert_eq!(ask(&server, 2, "/", &[right]).status, 200);
}

#[test]
fn an_error_page_comes_with_the_fields_of_the_limit() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"hello"));
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let page = builder.path("429.html");
    std::fs::write(&page, "<p>slow down").expect("it is written");
    let lines = format!("error_pages = [\"429={}\"]\nrate_limit = [\"1/1h\"]\n", page.display());
    let server = builder.config(&config(&origin, "off", &lines)).start();
    assert_eq!(ask(&server, 1, "/", &[]).status, 200);
    let response = ask(&server, 1, "/", &[]);
    assert_eq!((response.status, &*response.text()), (429, "<p>slow down"));
    assert!(response.field("retry-after").is_some() && response.field("ratelimit").is_some());
}

#[test]
fn a_limit_admits_again_as_time_passes() {
    let (_origin, server) = serve("rate_limit = [\"4/1s burst=1\"]\n");
    let status = || ask(&server, 1, "/", &[]).status;
    for round in 0..3 {
        eventually("a request is refused", || status() == 429);
        eventually("a request is admitted", || status() == 200);
        assert!(server.stat("rate_limited_total") > f64::from(round));
    }
}

#[test]
fn a_reload_keeps_the_counts_of_limits_that_it_does_not_change() {
    let (origin, server) = serve("rate_limit = [\"3/1h\"]\n");
    let log = server.path("access.log").display().to_string();
    let reload = |lines: &str| {
        server.write_config(&config(&origin, &log, lines));
        let reload = server.command(&["reload"]);
        assert!(reload.status.success(), "{reload:?}");
    };
    assert_eq!(count_admitted(&server, 1, "/", 2), 2);
    reload("rate_limit = [\"3/60m by=address\"]\ncache = false\n");
    assert_eq!(count_admitted(&server, 1, "/", 5), 1, "the same limit in other words");
    reload("rate_limit = [\"4/1h\"]\n");
    assert_eq!(count_admitted(&server, 1, "/", 9), 4, "another limit starts from zero");
    reload("");
    assert_eq!(count_admitted(&server, 1, "/", 9), 9, "no limit");
    reload("rate_limit = [\"3/1h\"]\n");
    assert_eq!(count_admitted(&server, 1, "/", 9), 0, "the first limit again");
    // The number of entries is fixed at the start.
    let text = config(&origin, &log, "rate_limit = [\"3/1h\"]\n");
    server.write_config(&format!("rate_limit_entries = 2048\n{text}"));
    assert!(!server.command(&["reload"]).status.success());
}

/// The table is created by a reload if the server starts without a limit.
#[test]
fn a_reload_can_bring_the_first_limit() {
    let (origin, server) = serve("");
    assert_eq!(count_admitted(&server, 1, "/", 5), 5);
    let log = server.path("access.log").display().to_string();
    server.write_config(&config(&origin, &log, "rate_limit = [\"3/1h\"]\n"));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(count_admitted(&server, 1, "/", 9), 3);
}

/// More values than the table has room for: no client is refused because of others, and a counter
/// says that the table is too small. The client that has used up its limit stays refused.
#[test]
fn a_flood_of_values_refuses_no_other_client_and_frees_no_exhausted_one() {
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"));
    let text = config(&origin, "off", "rate_limit = [\"100/24h by=field:x-key\"]\n");
    let text = format!("rate_limit_entries = 1024\n{text}");
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&text).start();
    let mut client = Client::connect(server.address());
    let mut status =
        |key: &str| client.ask("GET", "/", &[&format!("x-key: {key}")]).expect("an answer").status;
    assert!((0..100).all(|_| status("greedy") == 200));
    assert_eq!(status("greedy"), 429);
    for number in 0..3000 {
        assert_eq!(status(&number.to_string()), 200, "{number}");
    }
    assert_eq!(status("greedy"), 429);
    // The table keeps 17 bits of a key, so about one in five runs has two keys that share an entry.
    const SHARED_MAX: u32 = 10;
    let replaced = server.stat("rate_limit_entries_replaced_total");
    assert!(replaced >= f64::from(3000 - 1023 - SHARED_MAX), "{replaced}");
}
