//! Hostile origins over real sockets. `vectors/answers.txt` lists the bytes that the origin sends,
//! and the part of them that a client may get. A broken response is never stored, and never looks
//! complete to a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use forebay_testkit::escape::unescape;
use forebay_testkit::message::Framing;
use forebay_testkit::script::{Step, answer_head};
use forebay_testkit::vectors::{self, Vector};
use forebay_testkit::{Broken, Client, Gate, Origin, Script, Server, ServerBuilder, eventually};

/// The number of vectors that run at the same time.
const SHARES: usize = 4;

/// The body of the origin's answer to a second request.
const SOUND: &str = "sound";

#[test]
fn every_answer_is_treated_as_its_vector_says() {
    let cases = cases();
    assert!(cases.len() >= 40, "only {} vectors", cases.len());
    let origin = origin_of(&cases);
    let pooling = server_before(&origin);
    let unpooled = builder(&origin).flag("--origin-pool-idle-count-max", "0");
    let unpooled = unpooled.flag("--origin-retry-percent", "0").start();
    let failures: Vec<String> = thread::scope(|scope| {
        let shares: Vec<_> = (0..SHARES)
            .map(|share| {
                let mine = cases.iter().skip(share).step_by(SHARES);
                let (pooling, unpooled, origin) = (&pooling, &unpooled, &origin);
                scope.spawn(move || {
                    mine.filter_map(|case| {
                        let server = if case.needs_fresh { unpooled } else { pooling };
                        let what = case.run(server, origin).err()?;
                        Some(format!("{}: {what}", case.title))
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
}

#[test]
fn unasked_bytes_on_an_idle_connection_close_it() {
    let gate = Gate::new();
    let late = gate.clone();
    let origin = Origin::start(move |request| match request.target.as_str() {
        "/first" => Script::answer("200 OK", &[], b"first")
            .wait(&late)
            .send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nwrong"),
        _ => Script::answer("200 OK", &[], b"right"),
    });
    let server = server_before(&origin);
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("GET", "/first", &[]).expect("whole").text(), "first");
    gate.open();
    eventually("the connection is closed", || origin.connections()[0].is_closed);
    for target in ["/second", "/third"] {
        assert_eq!(client.ask("GET", target, &[]).expect("whole").text(), "right");
    }
    assert!(server.stat("origin_unasked_total") >= 1.0);
    assert!(origin.requests().iter().skip(1).all(|request| request.connection > 0));
}

#[test]
fn an_answer_with_bytes_behind_it_is_refused_where_the_setting_says_so() {
    let origin = Origin::start(|_| {
        Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello").send("more")
    });
    let server = builder(&origin).flag("--origin-excess", "refuse").start();
    for count in 1..3 {
        let answer = Client::connect(server.address()).ask("GET", "/a", &[]);
        let is_refused = match &answer {
            Ok(response) => response.status == 502,
            // The end of the body had been sent before the further bytes arrived.
            Err(broken) => matches!(broken, Broken::Cut(..)),
        };
        assert!(is_refused && origin.count("/a") == count, "{answer:?}");
    }
    assert!(server.stat("origin_bad_answers_total") >= 2.0);
}

// RFC: 9110-15.2-1, 9110-15.2-3
#[test]
fn interim_answers_reach_only_clients_that_know_them() {
    let origin = Origin::start(|_| {
        Script::new()
            .send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            .send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 5\r\n\r\nhello")
    });
    let server = server_before(&origin);
    for (version, expected) in [("1.1", Some("</a>")), ("1.0", None)] {
        let mut client = Client::connect(server.address());
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n"));
        let response = client.response("GET").expect("whole");
        let hint = response.interim.first().and_then(|head| head.field("link"));
        assert_eq!((response.status, hint), (200, expected), "{version}");
    }
}

#[test]
fn an_early_final_answer_to_an_upload_ends_the_use_of_its_connection() {
    let origin = Origin::start(|request| match request.target.as_str() {
        "/upload" => Script::early().send(answer_head("403 Forbidden", &[], 2)).send("no"),
        _ => Script::answer("200 OK", &[], b"ok"),
    });
    let server = server_before(&origin);
    let mut client = Client::connect(server.address());
    client
        .send("POST /upload HTTP/1.1\r\nHost: example.test\r\nContent-Length: 100000\r\n\r\npart");
    let response = client.response("POST").expect("the early answer");
    assert_eq!((response.status, response.text().as_str()), (403, "no"));
    eventually("the origin's connection is closed", || origin.connections()[0].is_closed);
    assert!(
        !origin.requests()[0].is_whole,
        "the origin received an upload that was not sent to its end"
    );
    let response = Client::connect(server.address()).ask("GET", "/next", &[]).expect("whole");
    assert_eq!(response.text(), "ok");
    assert_eq!(origin.faults(), Vec::<String>::new());
}

#[test]
fn a_dead_pooled_connection_costs_one_retry_and_only_where_that_is_safe() {
    let origin = Origin::start(|request| match (request.target.as_str(), request.nth) {
        ("/once", 0) | ("/post", _) => Script::early().close(),
        _ => Script::answer("200 OK", &["Cache-Control: no-store"], b"ok"),
    });
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .origin(&origin)
        .flag("--workers", "1")
        .start();
    let mut client = Client::connect(server.address());
    let mut ask =
        |method: &str, target: &str| client.ask(method, target, &[]).expect("whole").status;
    assert_eq!(ask("GET", "/warm"), 200);
    assert_eq!(ask("GET", "/once"), 200, "a GET is sent again");
    assert_eq!(origin.count("/once"), 2);
    assert_eq!(ask("POST", "/post"), 502, "a POST is not");
    assert_eq!(origin.count("/post"), 1);
    assert!(server.stat("origin_retries_total") >= 1.0);
}

#[test]
fn no_origin_means_502_with_a_short_body() {
    let origin = Origin::echo();
    let server = server_before(&origin);
    drop(origin);
    let status = || Client::connect(server.address()).ask("GET", "/", &[]).expect("whole").status;
    eventually("the listener is gone", || status() == 502);
    let response = Client::connect(server.address()).ask("GET", "/", &[]).expect("whole");
    assert!((1..500).contains(&response.body.len()), "{:?}", response.text());
    assert!(server.stat("origin_connect_errors_total") >= 1.0);
}

struct Case {
    title: String,
    method: String,
    target: String,
    script: Script,
    statuses: Vec<u16>,
    body: Option<Vec<u8>>,
    may_be_cut: bool,
    is_stored: Option<bool>,
    connection: Option<Fate>,
    needs_fresh: bool,
}

#[derive(Clone, Copy)]
enum Fate {
    Closed,
    Kept,
}

impl Case {
    fn parse(number: usize, vector: &Vector) -> Result<Case, String> {
        let mut case = Case {
            title: vector.title(),
            method: "GET".into(),
            target: format!("/answer-{number}"),
            script: Script::new(),
            statuses: Vec::new(),
            body: None,
            may_be_cut: false,
            is_stored: None,
            connection: None,
            needs_fresh: false,
        };
        let mut bytes = Vec::new();
        let mut end = None;
        for (mark, text) in &vector.items {
            match (mark, text.as_str()) {
                ('?', method) => case.method = method.into(),
                ('>', text) => bytes.extend(unescape(text)?),
                ('!', "close") => end = Some(Step::Close),
                ('!', "reset") => end = Some(Step::Reset),
                ('!', "stall") => end = Some(Step::Stall),
                ('=', text) => case.parse_outcome(text)?,
                ('@', text) => case.parse_after(text)?,
                _ => return Err(format!("{mark} {text}")),
            }
        }
        case.script.steps.push(Step::Send(bytes));
        case.script.steps.extend(end);
        Ok(case)
    }

    fn parse_outcome(&mut self, text: &str) -> Result<(), String> {
        let (outcomes, body) =
            text.split_once(" body=").map_or((text, None), |(a, b)| (a, Some(b)));
        for outcome in outcomes.split('|') {
            match outcome.parse() {
                Ok(status) => self.statuses.push(status),
                Err(_) if outcome == "cut" => self.may_be_cut = true,
                Err(_) => return Err(format!("= {text}")),
            }
        }
        self.body = body.map(unescape).transpose()?;
        Ok(())
    }

    fn parse_after(&mut self, text: &str) -> Result<(), String> {
        for word in text.split(' ') {
            match word {
                "again" => self.is_stored = Some(false),
                "stored" => self.is_stored = Some(true),
                "closed" => self.connection = Some(Fate::Closed),
                "kept" => self.connection = Some(Fate::Kept),
                "fresh" => self.needs_fresh = true,
                _ => return Err(format!("@ {text}")),
            }
        }
        Ok(())
    }

    fn run(&self, server: &Server, origin: &Origin) -> Result<(), String> {
        let answer = Client::connect(server.address()).ask(&self.method, &self.target, &[]);
        match &answer {
            Ok(response) => {
                let is_allowed = self.statuses.contains(&response.status);
                if !is_allowed || self.body.as_ref().is_some_and(|body| body != &response.body) {
                    return Err(format!("the client got {answer:?}"));
                }
                // Only a length or a last chunk proves to the client that a body is whole.
                let is_bodiless = self.method == "HEAD" || matches!(response.status, 204 | 304);
                let is_framed = response.head.framing() != Ok(Framing::Unsaid);
                if !is_bodiless && !is_framed {
                    return Err(format!("a body without framing: {answer:?}"));
                }
            }
            Err(Broken::Cut(..)) if self.may_be_cut => {}
            Err(_) => return Err(format!("the client got {answer:?}")),
        }
        self.check_second(server, origin)?;
        self.check_connection(origin)
    }

    fn check_second(&self, server: &Server, origin: &Origin) -> Result<(), String> {
        let second = Client::connect(server.address()).ask(&self.method, &self.target, &[]);
        let second = second.map_err(|broken| format!("the second request got {broken:?}"))?;
        let count = origin.count(&self.target);
        match self.is_stored {
            Some(true) if count != 1 => {
                Err(format!("{count} requests to the origin, although the response is storable"))
            }
            Some(false) if count != 2 => Err(format!("{count} requests to the origin, not 2")),
            Some(false) if self.method == "GET" && second.text() != SOUND => {
                Err(format!("the second request got {second:?}"))
            }
            _ => Ok(()),
        }
    }

    fn was_last_on(&self, connection: usize, origin: &Origin) -> bool {
        let requests = origin.requests();
        let mut on_it = requests.iter().filter(|request| request.connection == connection);
        on_it.next_back().is_some_and(|last| last.target == self.target)
    }

    fn check_connection(&self, origin: &Origin) -> Result<(), String> {
        let requests = origin.requests();
        let first = requests.iter().find(|request| request.target == self.target);
        let number = first.ok_or("the origin was never asked")?.connection;
        let is_closed = || origin.connections()[number].is_closed;
        match self.connection {
            Some(Fate::Closed) => eventually(&self.title, is_closed),
            // Another vector may have closed the connection after this one used it.
            Some(Fate::Kept) if is_closed() && self.was_last_on(number, origin) => {
                return Err("the connection was not kept".into());
            }
            _ => {}
        }
        Ok(())
    }
}

fn origin_of(cases: &[Case]) -> Origin {
    let scripts = cases.iter().map(|case| (case.target.clone(), case.script.clone()));
    let scripts: Arc<HashMap<String, Script>> = Arc::new(scripts.collect());
    Origin::start(move |request| match scripts.get(&request.target) {
        Some(script) if request.nth == 0 => script.clone(),
        _ if request.method == "HEAD" => {
            Script::answer("200 OK", &["Cache-Control: no-store"], b"")
        }
        _ => Script::answer("200 OK", &["Cache-Control: no-store"], SOUND.as_bytes()),
    })
}

fn server_before(origin: &Origin) -> Server {
    builder(origin).start()
}

fn builder(origin: &Origin) -> ServerBuilder {
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .origin(origin)
        .flag("--workers", "2")
        .flag("--origin-first-byte-ms-max", "1500ms")
        .flag("--origin-idle-ms-max", "1500ms")
}

fn cases() -> Vec<Case> {
    let text = include_str!("vectors/answers.txt");
    let vectors = vectors::parse(text, "?>!=@").expect("the file is well-formed");
    let parse = |(number, vector)| {
        Case::parse(number, vector).unwrap_or_else(|what| panic!("{vector:?}: {what}"))
    };
    vectors.iter().enumerate().map(parse).collect()
}
