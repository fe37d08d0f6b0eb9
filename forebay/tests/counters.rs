//! Every counter of requests, cache and origins, after each of a sequence of requests.

use std::collections::BTreeMap;

use forebay_testkit::client::request_text;
use forebay_testkit::script::answer_head;
use forebay_testkit::{
    Broken, Client, Gate, Origin, Request, Script, Server, ServerBuilder, eventually,
};

/// Counters whose growth this test does not predict. It predicts all other counters whose names end
/// in `_total`.
const NOT_FORESEEN: &[&str] = &[
    // These depend on the length of heads that Forebay itself writes.
    "bytes_in_total",
    "bytes_out_total",
    // These vary by one with the time at which the kernel closes a connection. limits.rs checks
    // them.
    "connections_accepted_total",
];

/// An address without a listener. The server cannot get this port when it lets the system choose a
/// free one.
const NOBODY: &str = "127.0.0.1:1";

/// The counters that a step increases, with the amounts.
type Grown = &'static [(&'static str, u32)];

#[test]
fn each_request_moves_its_counters_and_no_other() {
    let origin = origin();
    let server = start(&origin);
    let mut tally = Tally { server: &server, before: watched(&server) };
    let mut client = Client::connect(server.address());
    for (what, request, status, grown) in REQUESTS {
        client.send(request.replace('\n', "\r\n") + "\r\n");
        let method = request.split(' ').next().unwrap_or_default();
        match client.response(method) {
            Ok(response) => assert_eq!(response.status, *status, "{what}: {response:?}"),
            Err(Broken::Cut(..)) => {
                assert_eq!(*status, 0, "{what}: the response is cut");
                client = Client::connect(server.address());
            }
            broken => panic!("{what}: {broken:?}"),
        }
        tally.grows(what, &[*grown, &[("requests_total", 1)]].concat());
    }
    for (what, arguments, grown) in COMMANDS {
        server.command(arguments);
        tally.grows(what, grown);
    }
    // This is one of the counters that stayed at zero.
    assert_eq!(server.stat("panics_total"), 0.0);
}

/// A request to the site that has an origin. Each line feed is sent as CRLF.
macro_rules! ask {
    ($line:literal $(, $field:literal)*) => {
        concat!($line, " HTTP/1.1\nHost: a.test\n" $(, $field, "\n")*)
    };
}

const STORED: Grown =
    &[("misses_total", 1), ("stored_total", 1), ("origin_requests_total", 1), REUSED, FIVE];
const FIVE: (&str, u32) = ("origin_bytes_in_total", 5);
const REUSED: (&str, u32) = ("origin_reused_total", 1);
const HIT: Grown = &[("hits_total", 1)];
const CONFIRMED: Grown =
    &[("stale_total", 1), ("validated_total", 1), ("origin_requests_total", 1), REUSED];

/// Case, request, status (0: the response is cut), and counters that grow in addition to
/// `requests_total`.
const REQUESTS: &[(&str, &str, u16, Grown)] = &[
    (
        "the first",
        ask!("GET /a"),
        200,
        &[
            ("misses_total", 1),
            ("stored_total", 1),
            ("origin_requests_total", 1),
            ("origin_connections_total", 1),
            FIVE,
        ],
    ),
    ("a hit", ask!("GET /a"), 200, HIT),
    ("a hit for HEAD", ask!("HEAD /a"), 200, HIT),
    (
        "a validation of a fresh copy",
        ask!("GET /a", "If-None-Match: \"e\""),
        304,
        &[("hits_total", 1), ("hits_not_modified_total", 1)],
    ),
    (
        "a range",
        ask!("GET /a", "Range: bytes=1-2"),
        206,
        &[("hits_total", 1), ("hits_range_total", 1)],
    ),
    ("another page", ask!("GET /b"), 200, STORED),
    ("a forced validation of that page", ask!("GET /b", "Cache-Control: no-cache"), 200, CONFIRMED),
    ("a page that is stale at once", ask!("GET /stale"), 200, STORED),
    ("its validation", ask!("GET /stale"), 200, CONFIRMED),
    (
        "a page that must not be stored",
        ask!("GET /never"),
        200,
        &[
            ("misses_total", 1),
            ("not_stored_total", 1),
            ("reason_no_store_total", 1),
            ("origin_requests_total", 1),
            REUSED,
            FIVE,
        ],
    ),
    (
        "an unsafe request to a stored page",
        ask!("DELETE /a"),
        200,
        &[
            ("bypasses_total", 1),
            ("reason_method_total", 1),
            ("invalidated_total", 1),
            ("origin_requests_total", 1),
            REUSED,
            FIVE,
        ],
    ),
    ("the page again", ask!("GET /a"), 200, STORED),
    (
        "a route without cache",
        ask!("GET /off"),
        200,
        &[
            ("bypasses_total", 1),
            ("reason_cache_off_total", 1),
            ("origin_requests_total", 1),
            REUSED,
            FIVE,
        ],
    ),
    (
        "a request for stored responses only",
        ask!("GET /c", "Cache-Control: only-if-cached"),
        504,
        &[("misses_total", 1), ("reason_only_if_cached_total", 1), ("faults_sent_total", 1)],
    ),
    (
        "a host of no site",
        "GET / HTTP/1.1\nHost: other.test\n",
        421,
        &[("requests_refused_total", 1), ("faults_sent_total", 1)],
    ),
    (
        "a dead pooled connection",
        ask!("GET /dead"),
        200,
        &[
            ("misses_total", 1),
            ("stored_total", 1),
            ("origin_requests_total", 2),
            REUSED,
            ("origin_retries_total", 1),
            ("origin_connections_total", 1),
            FIVE,
        ],
    ),
    (
        "an origin that breaks off",
        ask!("GET /half"),
        0,
        &[
            ("misses_total", 1),
            ("fills_aborted_total", 1),
            ("origin_requests_total", 1),
            REUSED,
            ("origin_bad_answers_total", 1),
            ("origin_bytes_in_total", 3),
            ("responses_cut_total", 1),
            ("server_errors_total", 1),
        ],
    ),
    (
        "an invalid answer",
        ask!("GET /garbage"),
        502,
        &[
            ("misses_total", 1),
            ("origin_requests_total", 1),
            ("origin_connections_total", 1),
            ("origin_bad_answers_total", 1),
            ("reason_origin_bad_answer_total", 1),
            ("faults_sent_total", 1),
            ("server_errors_total", 1),
        ],
    ),
    (
        "an origin that is silent",
        ask!("GET /silent"),
        504,
        &[
            ("misses_total", 1),
            ("origin_requests_total", 1),
            ("origin_connections_total", 1),
            ("origin_timeouts_total", 1),
            ("reason_origin_timed_out_total", 1),
            ("faults_sent_total", 1),
            ("server_errors_total", 1),
        ],
    ),
    (
        "an origin without a listener",
        "GET / HTTP/1.1\nHost: nobody.test\n",
        502,
        &[
            ("misses_total", 1),
            ("origin_address_errors_total", 1),
            ("origin_connect_errors_total", 1),
            ("reason_origin_unreachable_total", 1),
            ("faults_sent_total", 1),
            ("server_errors_total", 1),
        ],
    ),
    (
        "an origin with an unknown name",
        "GET / HTTP/1.1\nHost: nameless.test\n",
        502,
        &[
            ("misses_total", 1),
            ("origin_resolutions_total", 1),
            ("origin_resolution_errors_total", 1),
            ("origin_connect_errors_total", 1),
            ("reason_origin_unreachable_total", 1),
            ("faults_sent_total", 1),
            ("server_errors_total", 1),
        ],
    ),
    (
        "an expectation that cannot be met",
        ask!("GET /", "Expect: the-impossible"),
        417,
        &[("requests_refused_total", 1), ("faults_sent_total", 1)],
    ),
];

/// Case, command, and counters that grow.
const COMMANDS: &[(&str, &[&str], Grown)] = &[
    ("a purge", &["purge", "http://a.test/a"], &[("purged_total", 1)]),
    ("a purge of nothing", &["purge", "http://a.test/a"], &[]),
    ("a reload", &["reload"], &[("reloads_total", 1)]),
];

#[test]
fn followers_are_counted_once_each_and_their_fetch_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let script = Script::new().wait(&held);
        script.send(answer_head("200 OK", &["Cache-Control: max-age=60"], 5)).send("hello")
    });
    let server = start(&origin);
    let mut tally = Tally { server: &server, before: watched(&server) };
    let mut clients = waiting(&server, 11);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response("GET").expect("whole").text(), "hello");
    }
    tally.grows(
        "a fetch with ten followers",
        &[
            ("requests_total", 11),
            ("misses_total", 11),
            ("collapsed_total", 10),
            ("stored_total", 1),
            ("origin_requests_total", 1),
            ("origin_connections_total", 1),
            FIVE,
        ],
    );
}

#[test]
fn a_broken_answer_is_one_bad_answer_however_many_follow_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        let head = answer_head("200 OK", &["Cache-Control: max-age=60"], 100);
        Script::new().send(head).send("hel").wait(&held).close()
    });
    let server = start(&origin);
    let mut tally = Tally { server: &server, before: watched(&server) };
    let mut clients = waiting(&server, 11);
    for client in &mut clients {
        client.peek("GET", |response| response.body == b"hel").expect("the first bytes");
    }
    gate.open();
    for client in &mut clients {
        let answer = client.response("GET");
        assert!(matches!(answer, Err(Broken::Cut(..))), "the cut response looks whole: {answer:?}");
    }
    tally.grows(
        "an answer that breaks off",
        &[
            ("requests_total", 11),
            ("misses_total", 11),
            ("collapsed_total", 10),
            ("fills_aborted_total", 1),
            ("origin_requests_total", 1),
            ("origin_connections_total", 1),
            ("origin_bytes_in_total", 3),
            ("origin_bad_answers_total", 1),
            ("responses_cut_total", 11),
            ("server_errors_total", 11),
        ],
    );
}

#[test]
fn an_invalid_answer_is_one_bad_answer_and_its_followers_ask_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| match request.nth {
        0 => Script::new().wait(&held).send("garbage\r\n\r\n").close(),
        _ => Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"),
    });
    let server = start(&origin);
    let before = watched(&server);
    let mut clients = waiting(&server, 11);
    gate.open();
    let answers = clients.iter_mut().map(|client| client.response("GET").expect("an answer"));
    let failed = answers.filter(|answer| answer.status == 502).count();
    assert_eq!(failed, 1, "only the leader's request fails");
    eventually("the failure is counted", || server.stat("faults_sent_total") == 1.0);
    let after = watched(&server);
    for (name, count) in [("origin_bad_answers_total", 1), ("misses_total", 11)] {
        assert_eq!(after[name] - before[name], count, "{name}");
    }
}

/// Clients that request a page while its fetch is in progress.
fn waiting(server: &Server, count: usize) -> Vec<Client> {
    let before = server.stat("requests_total");
    let mut clients = Vec::new();
    for asked in 1..=count {
        let mut client = Client::connect(server.address());
        client.send(request_text("GET", "/held", &[]).replace("example.test", "a.test"));
        clients.push(client);
        // The first client leads. The others send their requests once the leader's request is at
        // the origin.
        if asked == 1 || asked == count {
            let wanted = before + f64::from(u32::try_from(asked).unwrap_or(u32::MAX));
            eventually("the server has read the request", || {
                server.stat("requests_total") == wanted
            });
        }
    }
    clients
}

/// The previous values of the counters, from which their growth is computed.
struct Tally<'a> {
    server: &'a Server,
    before: BTreeMap<String, i64>,
}

impl Tally<'_> {
    /// Checks the growth since the last step. Waits for the growth, because some counters grow just
    /// after the answer.
    fn grows(&mut self, what: &str, grown: &[(&str, u32)]) {
        let mut wanted = self.before.clone();
        for (name, count) in grown {
            *wanted.get_mut(*name).unwrap_or_else(|| panic!("{what}: no {name}")) +=
                i64::from(*count);
        }
        let mut now = watched(self.server);
        let is_there = forebay_testkit::clock::holds_within(forebay_testkit::PATIENCE / 10, || {
            now = watched(self.server);
            now == wanted
        });
        let differ: Vec<_> = now.iter().filter(|(name, value)| wanted[*name] != **value).collect();
        let expected: Vec<_> = differ.iter().map(|(name, _)| wanted[*name]).collect();
        assert!(is_there, "{what}: {differ:?}, expected {expected:?}");
        self.before = wanted;
    }
}

fn watched(server: &Server) -> BTreeMap<String, i64> {
    let foreseen = |name: &str| {
        name.ends_with("_total") && !name.starts_with("cache_") && !NOT_FORESEEN.contains(&name)
    };
    let stats = server.stats().into_iter().filter(|(name, _)| foreseen(name));
    #[allow(clippy::cast_possible_truncation)]
    stats.map(|(name, value)| (name, value as i64)).collect()
}

fn origin() -> Origin {
    Origin::start(|request| {
        let is_stale = request.target == "/stale";
        let age = if is_stale { "Cache-Control: max-age=0" } else { "Cache-Control: max-age=60" };
        match request.target.as_str() {
            "/never" => Script::answer("200 OK", &["Cache-Control: no-store"], b"hello"),
            "/dead" if request.nth == 0 => Script::new().close(),
            "/half" => Script::new().send(answer_head("200 OK", &[age], 5)).send("hel").close(),
            "/garbage" => Script::new().send("garbage\r\n\r\n").close(),
            "/silent" => Script::new().stall(),
            _ if is_current(request) => Script::new().send("HTTP/1.1 304 Not Modified\r\n\r\n"),
            _ => Script::answer("200 OK", &[age, "ETag: \"e\""], b"hello"),
        }
    })
}

fn is_current(request: &Request) -> bool {
    request.head.field("if-none-match") == Some("\"e\"")
}

fn start(origin: &Origin) -> Server {
    let config = format!(
        "workers = 1\norigin_first_byte_ms_max = \"300ms\"\n\
         [[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"http://{}\"\n\
         [[site.route]]\npath_prefix = \"/off\"\ncache = false\n\
         [[site]]\nname = \"n\"\nnames = [\"nobody.test\"]\norigin = \"http://{NOBODY}\"\n\
         [[site]]\nname = \"u\"\nnames = [\"nameless.test\"]\norigin = \"http://{}.invalid\"\n",
        origin.address(),
        // No resolver is asked for this name, since a label has at most 63 letters (RFC 1035
        // §2.3.4).
        "a".repeat(64),
    );
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config).start()
}
