//! Caching over real sockets. `vectors/caching.txt` and the files of `vectors/caching/` list small
//! conversations between a client, the server and an origin.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use forebay_testkit::clock::http_date;
use forebay_testkit::escape::unescape;
use forebay_testkit::message::Head;
use forebay_testkit::vectors::{self, Vector};
use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};

/// The levels of a scenario.
const LEVELS: [&str; 4] = ["MUST", "SHOULD", "MAY", "OWN"];

/// The number of scenarios that run at the same time.
const SHARES: usize = 4;

/// The files of scenarios. `vectors/caching.txt` describes their form.
const FILES: &[(&str, &str)] = &[
    ("caching.txt", include_str!("vectors/caching.txt")),
    ("storing.txt", include_str!("vectors/caching/storing.txt")),
    ("freshness.txt", include_str!("vectors/caching/freshness.txt")),
    ("request-directives.txt", include_str!("vectors/caching/request-directives.txt")),
    ("response-directives.txt", include_str!("vectors/caching/response-directives.txt")),
    ("validation.txt", include_str!("vectors/caching/validation.txt")),
    ("conditions.txt", include_str!("vectors/caching/conditions.txt")),
    ("invalidation.txt", include_str!("vectors/caching/invalidation.txt")),
    ("ranges.txt", include_str!("vectors/caching/ranges.txt")),
    ("stale.txt", include_str!("vectors/caching/stale.txt")),
    ("vary.txt", include_str!("vectors/caching/vary.txt")),
];

#[test]
fn every_conversation_goes_as_its_scenario_says() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 400, "only {} scenarios", scenarios.len());
    let origin = origin_of(&scenarios);
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(&origin);
    let targets = "Own-Cache-Control,CDN-Cache-Control,Surrogate-Control";
    let builder = builder.flag("--workers", "2").flag("--content-of-get", "true");
    let server = builder.flag("--targeted-cache-control", targets).start();
    let failures: Vec<String> = thread::scope(|scope| {
        let shares: Vec<_> = (0..SHARES)
            .map(|share| {
                let mine = scenarios.iter().enumerate().skip(share).step_by(SHARES);
                let (server, origin) = (&server, &origin);
                scope.spawn(move || {
                    mine.filter_map(|(number, scenario)| {
                        let what = Conversation::new(server, origin, number).run(scenario).err()?;
                        Some(format!("{}: {what}", scenario.title()))
                    })
                    .collect::<Vec<_>>()
                })
            })
            .collect();
        shares
            .into_iter()
            .flat_map(|share| share.join().expect("the share did not panic"))
            .collect()
    });
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(origin.faults(), Vec::<String>::new());
    assert!(server.stat("targeted_invalid_total") >= 2.0);
}

/// Returns the scenarios of all files. Each has a level, and a name that no other has.
fn scenarios() -> Vec<Vector> {
    let mut scenarios = Vec::new();
    for (file, text) in FILES {
        for mut scenario in vectors::parse(text, "%<>=@!").expect(file) {
            let is_level = |text: &str| LEVELS.contains(&text.split(' ').next().unwrap_or(text));
            assert!(scenario.all('%').any(is_level), "{file}: {}: no level", scenario.title());
            scenario.name = format!("{file}: {}", scenario.name);
            scenarios.push(scenario);
        }
    }
    scenarios
}

/// A running scenario.
struct Conversation<'a> {
    server: &'a Server,
    origin: &'a Origin,
    base: String,
    client: Client,
    last: Option<Response>,
}

impl<'a> Conversation<'a> {
    fn new(server: &'a Server, origin: &'a Origin, number: usize) -> Conversation<'a> {
        let client = Client::connect(server.address());
        Conversation { server, origin, base: base_of(number), client, last: None }
    }

    fn run(&mut self, scenario: &Vector) -> Result<(), String> {
        for (index, (mark, text)) in scenario.items.iter().enumerate() {
            let parts = Parts::parse(text, &self.base)?;
            let done = match mark {
                '>' => self.ask(&parts),
                '=' => self.check_answer(&parts),
                '@' => self.check_origin(&parts),
                '!' => self.command(&parts),
                _ => Ok(()),
            };
            done.map_err(|what| format!("item {}, {mark} {text}: {what}", index + 1))?;
        }
        Ok(())
    }

    fn ask(&mut self, request: &Parts) -> Result<(), String> {
        let (method, target) = request.first.split_once(' ').ok_or("no target")?;
        let target = self.with_base(target);
        let authority = target.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let mut text = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n",
            authority.unwrap_or("example.test")
        );
        for field in &request.fields {
            text.push_str(field);
            text.push_str("\r\n");
        }
        self.client.send(text + "\r\n");
        self.client.send(request.body.as_deref().unwrap_or_default());
        let answer = self.client.response(method);
        self.last = Some(answer.map_err(|broken| format!("{broken:?}"))?);
        Ok(())
    }

    fn check_answer(&self, wanted: &Parts) -> Result<(), String> {
        let answer = self.last.as_ref().ok_or("no request was sent before")?;
        let is_it = wanted.first.parse() == Ok(answer.status);
        if !is_it || wanted.body.as_ref().is_some_and(|body| body != &answer.body) {
            return Err(format!("the client got {answer:?}"));
        }
        for field in &wanted.fields {
            if !self.holds(field, answer) {
                return Err(format!(
                    "expected {field}; the origin saw {}: {answer:?}",
                    self.seen().len()
                ));
            }
        }
        Ok(())
    }

    /// Whether the answer meets one of the alternatives of an expectation.
    fn holds(&self, expectation: &str, answer: &Response) -> bool {
        let cache_status = || answer.field("cache-status").unwrap_or_default().split("; ");
        if let Some(count) = expectation.strip_prefix("seen=") {
            return count.parse() == Ok(self.seen().len());
        }
        if let Some(word) = expectation.strip_prefix("status=") {
            return cache_status().any(|part| part == word);
        }
        if let Some(word) = expectation.strip_prefix("status!=") {
            return answer.head.has("cache-status") && cache_status().all(|part| part != word);
        }
        if let Some(least) = expectation.strip_prefix("Age>=") {
            let age = answer.field("age").and_then(|age| age.parse::<u64>().ok());
            let least: u64 = least.parse().expect("a number in the scenario");
            return age.is_some_and(|age| (least..least + 20).contains(&age));
        }
        has_field(&answer.head, expectation)
    }

    fn check_origin(&self, wanted: &Parts) -> Result<(), String> {
        let seen = self.seen();
        let last = seen.last().ok_or("the origin saw nothing")?;
        let (method, target) = wanted.first.split_once(' ').ok_or("no target")?;
        let is_it = last.method == method
            && last.target == self.with_base(target)
            && wanted.body.as_ref().is_none_or(|body| body == &last.body)
            && wanted.fields.iter().all(|field| has_field(&last.head, field));
        if is_it { Ok(()) } else { Err(format!("the origin saw {last:?}")) }
    }

    fn command(&self, command: &Parts) -> Result<(), String> {
        let target = command.first.strip_prefix("purge ").ok_or("an unknown command")?;
        let url = format!("http://example.test{}", self.with_base(target));
        let output = self.server.command(&["purge", &url]);
        if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
    }

    /// Returns the requests of this scenario that the origin received.
    fn seen(&self) -> Vec<Request> {
        let prefix = format!("{}/", self.base);
        self.origin.requests_below(&prefix)
    }

    fn with_base(&self, target: &str) -> String {
        if target.starts_with('/') && !target.starts_with(&self.base) {
            format!("{}{target}", self.base)
        } else {
            target.to_string()
        }
    }
}

/// The parts of a line of a scenario: the first part, the fields and the body.
struct Parts {
    first: String,
    fields: Vec<String>,
    body: Option<Vec<u8>>,
}

impl Parts {
    fn parse(text: &str, base: &str) -> Result<Parts, String> {
        let text = with_dates(&text.replace("{base}", base))?;
        let mut parts = text.split(" | ");
        let first = parts.next().unwrap_or_default().to_string();
        let mut parsed = Parts { first, fields: Vec::new(), body: None };
        for part in parts {
            match part.strip_prefix('=') {
                Some(body) => parsed.body = Some(unescape(body)?),
                None => parsed.fields.push(part.to_string()),
            }
        }
        Ok(parsed)
    }
}

/// Replaces `{-60}` and `{+60}` with dates that many seconds from now.
fn with_dates(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (offset, after) = after.split_once('}').ok_or("{ without }")?;
        let offset: i64 = offset.parse().map_err(|_| format!("bad offset {offset}"))?;
        out.push_str(before);
        out.push_str(&http_date(offset));
        rest = after;
    }
    Ok(out + rest)
}

/// Whether the head has the field `Name: value`, or, for `!Name`, has no such field.
fn has_field(head: &Head, expectation: &str) -> bool {
    match (expectation.strip_prefix('!'), expectation.split_once(':')) {
        (Some(name), _) => !head.has(name),
        (None, Some((name, value))) => head.all(name).any(|other| other == value.trim_start()),
        (None, None) => false,
    }
}

fn base_of(number: usize) -> String {
    format!("/scenario-{number}")
}

/// Starts an origin that gives each scenario's answers in order. The first segment of the target
/// names the scenario.
fn origin_of(scenarios: &[Vector]) -> Origin {
    let answers: HashMap<String, (AtomicUsize, Vec<String>)> = scenarios
        .iter()
        .enumerate()
        .map(|(number, scenario)| {
            let answers = scenario.all('<').map(String::from).collect();
            (base_of(number), (AtomicUsize::new(0), answers))
        })
        .collect();
    Origin::start(move |request| {
        let base = request.target.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        let (turn, answers) = &answers[&base];
        let turn = turn.fetch_add(1, Relaxed);
        // The answer is parsed when it is sent, so that its dates count from this moment.
        let answer = Parts::parse(&answers[turn.min(answers.len() - 1)], &base);
        script_of(&answer.expect("the file is well-formed"), &request.method)
    })
}

fn script_of(answer: &Parts, method: &str) -> Script {
    let mut head = format!("HTTP/1.1 {}\r\n", answer.first);
    let body = answer.body.as_deref();
    let has_length = answer.fields.iter().any(|field| field.starts_with("Content-Length"));
    if let Some(body) = body.filter(|_| !has_length) {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for field in &answer.fields {
        head.push_str(field);
        head.push_str("\r\n");
    }
    let content = body.filter(|_| method != "HEAD").unwrap_or_default();
    Script::new().send(head + "\r\n").send(content)
}

/// An origin whose response varies by this field.
fn varied(name: &str) -> (Origin, Server) {
    let vary = format!("Vary: {name}");
    let origin = Origin::start(move |request| {
        let value = request.head.field("Accept-Encoding").unwrap_or("none").to_string();
        Script::answer("200 OK", &["Cache-Control: max-age=600", &vary], value.as_bytes())
    });
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(&origin);
    let server = builder.flag("--workers", "1").start();
    (origin, server)
}

#[test]
fn requests_with_equivalent_codings_share_a_variant() {
    let (origin, server) = varied("Accept-Encoding");
    let mut client = Client::connect(server.address());
    let mut ask = |fields: &[&str]| client.ask("GET", "/page", fields).expect("whole").text();
    let cases = [
        ("gzip, br", "br, gzip"),
        ("br,gzip;q=1.0", "br, gzip"),
        ("BR ; q=1, GZIP,", "br, gzip"),
        ("gzip", "gzip"),
        ("gzip;q=0.5, br", "br, gzip;q=0.500"),
        ("br, gzip;q=0.50", "br, gzip;q=0.500"),
    ];
    for (sent, answered) in cases {
        assert_eq!(ask(&[&format!("Accept-Encoding: {sent}")]), answered, "{sent}");
    }
    assert_eq!(ask(&[]), "none");
    assert_eq!(origin.count("/page"), 4);
}

// RFC: 9111-3.1-3
#[test]
fn trailers_of_a_stored_response_are_not_taken_for_fields_of_its_head() {
    let origin = Origin::start(|_| {
        Script::new()
            .send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n")
            .send("\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nCache-Control: no-store\r\n\r\n")
    });
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(&origin).start();
    for status in ["forebay; fwd=uri-miss", "forebay; hit"] {
        let mut client = Client::connect(server.address());
        let response = client.ask("GET", "/page", &[]).expect("whole");
        assert_eq!((response.text().as_str(), response.field("x-sum")), ("hello", None));
        assert_eq!(response.field("cache-control"), Some("max-age=60"));
        let told = response.field("cache-status").expect("every response has one");
        assert!(told.starts_with(status), "{told}");
    }
}

/// Asks for the page in the variant of this value.
fn ask_variant(client: &mut Client, value: &str) {
    let field = format!("X-Variant: {value}");
    assert_eq!(client.ask("GET", "/page", &[&field]).expect("whole").status, 200, "{value}");
}

/// A client that invents values of a field does not displace the variant that others use.
#[test]
fn a_variant_that_is_used_outlives_many_that_are_not() {
    let (origin, server) = varied("X-Variant");
    let mut client = Client::connect(server.address());
    let mut ask = |value: &str| ask_variant(&mut client, value);
    ask("used");
    ask("used");
    (0..200).for_each(|number| ask(&number.to_string()));
    assert_eq!(origin.count("/page"), 201);
    ask("used");
    assert_eq!(origin.count("/page"), 201, "it is not stored any more");
}

/// Each invented value is used twice, so that all variants have been used when one has to go.
#[test]
fn a_variant_that_is_used_often_outlives_many_that_are_used_once() {
    let (origin, server) = varied("X-Variant");
    let mut client = Client::connect(server.address());
    let mut ask = |value: &str| ask_variant(&mut client, value);
    (0..4).for_each(|_| ask("popular"));
    for number in 0..100 {
        ask(&number.to_string());
        ask(&number.to_string());
        if number % 40 == 0 {
            ask("popular");
        }
    }
    let fetched_count = origin.count("/page");
    ask("popular");
    assert_eq!(origin.count("/page"), fetched_count, "it is not stored any more");
}
