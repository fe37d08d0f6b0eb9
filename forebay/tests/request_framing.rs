//! Request framing over real sockets. `vectors/requests.txt` has the input, the answers, and the
//! requests that the origin may see. Each vector runs whole and cut at several places.

use std::thread;
use std::time::Duration;

use forebay_testkit::escape::{show, unescape};
use forebay_testkit::vectors::{self, Vector};
use forebay_testkit::{Broken, Client, Origin, Request, Response, Server, ServerBuilder};

/// A time that is long enough for an answer, and shorter than every timeout of the server.
const SHORT: Duration = Duration::from_secs(5);

/// The number of servers that share the vectors. Each has its own origin, so that records do not
/// mix.
const SHARES: usize = 4;

#[test]
fn every_request_is_framed_as_its_vector_says() {
    let cases = cases();
    assert!(cases.len() >= 120, "only {} vectors", cases.len());
    let failures: Vec<String> = thread::scope(|scope| {
        let shares: Vec<_> = (0..SHARES)
            .map(|share| {
                let cases = &cases;
                scope.spawn(move || run_share(cases.iter().skip(share).step_by(SHARES)))
            })
            .collect();
        shares
            .into_iter()
            .flat_map(|share| share.join().expect("the share did not panic"))
            .collect()
    });
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

fn run_share<'a>(cases: impl Iterator<Item = &'a Case>) -> Vec<String> {
    let origin = Origin::echo();
    let server = Server::before(env!("CARGO_BIN_EXE_forebay"), &origin);
    let mut failures = Vec::new();
    // An unfinished request may be recorded late, among the requests of the next case. These cases
    // therefore run last, where that does no harm.
    let (unfinished, others): (Vec<_>, Vec<_>) = cases.partition(|case| case.is_unfinished());
    for case in others.into_iter().chain(unfinished) {
        for cuts in case.cuts() {
            let seen_before = origin.request_count();
            let verdict = case
                .run(&server, &cuts)
                .and_then(|()| case.check_origin(&origin.requests_since(seen_before)));
            if let Err(what) = verdict {
                failures.push(format!("{}, cut at {cuts:?}: {what}", case.title));
            }
        }
    }
    // A late refusal would arrive before this answer.
    let last = Client::connect(server.address()).ask("GET", "/last-of-all", &[]);
    assert!(last.is_ok(), "the server no longer answers: {last:?}");
    failures.extend(origin.faults());
    let smuggled = origin.requests().into_iter().filter(|seen| seen.target.contains("smuggled"));
    failures.extend(smuggled.map(|seen| format!("smuggled: {seen:?}")));
    failures
}

// RFC: 9110-15.5-1, 9110-15.6.6-1
#[test]
fn an_error_response_says_what_is_wrong() {
    let server = Server::before(env!("CARGO_BIN_EXE_forebay"), &Origin::echo());
    for (request, status, reason) in [
        ("GET / HTTP/1.1\r\n\r\n", 400, "the Host field is missing"),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417, "expectation is not 100-continue"),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "the HTTP version is not supported"),
    ] {
        let mut client = Client::connect(server.address());
        client.send(request);
        let response = client.response("GET").expect("whole");
        let text = response.text();
        assert!(response.status == status && text.contains(reason), "{status}: {response:?}");
    }
}

#[test]
fn an_unfinished_head_leaves_nothing_for_the_next_connection() {
    let origin = Origin::echo();
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .origin(&origin)
        .flag("--workers", "1")
        .start();
    let head = "\r\nGET /left-over HTTP/1.1\r\nHost: left.test\r\nX-Left: over\r\n\r\n";
    for size in 1..head.len() {
        let mut first = Client::connect(server.address()).with_patience(SHORT);
        first.send(&head[..size]);
        first.finish_sending();
        assert!(first.rest().1.is_some(), "the server did not notice the end after {size} bytes");
        let mut next = Client::connect(server.address()).with_patience(SHORT);
        let answer = next.ask("GET", "/next", &[]);
        let text = answer.as_ref().map(Response::text).unwrap_or_default();
        assert_eq!(text, "GET /next", "after {size} bytes of another's head: {answer:?}");
        let seen = origin.requests_since(size - 1);
        let is_own = seen.iter().all(|seen| !seen.head.has("x-left"));
        assert!(is_own && seen.len() == 1, "after {size} bytes of another's head: {seen:?}");
    }
}

struct Case {
    title: String,
    bytes: Vec<u8>,
    is_finished: bool,
    /// The method of the request and the allowed statuses, for each answer.
    answers: Vec<(String, Vec<u16>)>,
    end: Ending,
    origin: Vec<Seen>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Keep,
    Close,
    /// The connection is closed, with or without a 4xx answer.
    Any,
}

/// The requests that the origin must have received.
enum Seen {
    Unfinished,
    Whole { method: String, target: String, checks: Vec<Check> },
}

enum Check {
    Body(Vec<u8>),
    Has(String, String),
    Not(String),
}

impl Case {
    fn parse(vector: &Vector) -> Result<Case, String> {
        let mut case = Case {
            title: vector.title(),
            bytes: Vec::new(),
            is_finished: false,
            answers: Vec::new(),
            end: Ending::Keep,
            origin: Vec::new(),
        };
        for (mark, text) in &vector.items {
            match (mark, text.as_str()) {
                ('>', text) => case.bytes.extend(unescape(text)?),
                ('!', "fin") => case.is_finished = true,
                ('=', text) => case.parse_answers(text)?,
                ('@', text) => case.origin.push(Seen::parse(text)?),
                _ => return Err(format!("{mark} {text}")),
            }
        }
        Ok(case)
    }

    fn parse_answers(&mut self, text: &str) -> Result<(), String> {
        for word in text.split(' ') {
            match word {
                "keep" => self.end = Ending::Keep,
                "close" if self.end == Ending::Keep => self.end = Ending::Close,
                "close" => {}
                "any" => self.end = Ending::Any,
                _ => {
                    let (method, codes) = word.split_once(':').unwrap_or(("GET", word));
                    let codes: Result<_, _> = codes.split('|').map(str::parse).collect();
                    let codes = codes.map_err(|_| format!("bad status {word}"))?;
                    self.answers.push((method.to_string(), codes));
                }
            }
        }
        Ok(())
    }

    fn is_unfinished(&self) -> bool {
        matches!(self.origin[..], [Seen::Unfinished])
    }

    /// The cuts of a vector: none, one at each of four places, and all four
    /// together.
    fn cuts(&self) -> Vec<Vec<usize>> {
        let size = self.bytes.len();
        let places = [1, size / 3, size * 2 / 3, size - 1];
        let single = places.iter().map(|&place| vec![place]);
        [vec![], places.to_vec()].into_iter().chain(single).collect()
    }

    fn run(&self, server: &Server, cuts: &[usize]) -> Result<(), String> {
        let mut client = Client::connect(server.address());
        // The server may refuse and close before it has read all the bytes.
        client.send_cut(&self.bytes, cuts);
        if self.is_finished {
            client.finish_sending();
        }
        for (method, allowed) in &self.answers {
            let response = client.response(method).map_err(|broken| format!("{broken:?}"))?;
            if !allowed.contains(&response.status) {
                return Err(format!("answered {}, not {allowed:?}", response.status));
            }
        }
        match self.end {
            Ending::Keep => still_in_step(&mut client),
            Ending::Close => match client.rest() {
                (rest, Some(_)) if rest.is_empty() => Ok(()),
                (rest, end) => {
                    Err(format!("the connection is not closed: {} {end:?}", show(&rest)))
                }
            },
            Ending::Any => match client.response("GET") {
                Err(Broken::Cut(_, None)) => Ok(()),
                Ok(response) if (400..500).contains(&response.status) => Ok(()),
                other => Err(format!("the connection is neither closed nor refused: {other:?}")),
            },
        }
    }

    fn check_origin(&self, seen: &[Request]) -> Result<(), String> {
        let seen: Vec<_> = seen.iter().filter(|request| request.target != STEP).collect();
        if self.is_unfinished() {
            return match seen.iter().find(|request| request.is_whole) {
                Some(request) => Err(format!("the origin saw a whole request: {request:?}")),
                None => Ok(()),
            };
        }
        if seen.len() != self.origin.len() {
            return Err(format!("the origin saw {} requests: {seen:?}", seen.len()));
        }
        let mut pairs = self.origin.iter().zip(seen);
        pairs.try_for_each(|(wanted, request)| wanted.check(request))
    }
}

const STEP: &str = "/step";

/// Sends one more request, which must get its own answer. This shows that client and server agree
/// on where messages end.
fn still_in_step(client: &mut Client) -> Result<(), String> {
    match client.ask("GET", STEP, &[]) {
        Ok(response) if response.text() == format!("GET {STEP}") => Ok(()),
        other => Err(format!("the connection was not kept: {other:?}")),
    }
}

impl Seen {
    fn parse(text: &str) -> Result<Seen, String> {
        if text == "unfinished" {
            return Ok(Seen::Unfinished);
        }
        let mut words = text.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(format!("@ {text}"));
        };
        let checks: Result<_, _> = words.map(Check::parse).collect();
        Ok(Seen::Whole { method: method.into(), target: target.into(), checks: checks? })
    }

    fn check(&self, request: &Request) -> Result<(), String> {
        let Seen::Whole { method, target, checks } = self else {
            return Err("`unfinished` stands alone".into());
        };
        let is_it = &request.method == method && &request.target == target && request.is_whole;
        if is_it && checks.iter().all(|check| check.holds(request)) {
            return Ok(());
        }
        Err(format!("the origin saw {request:?}"))
    }
}

impl Check {
    fn parse(word: &str) -> Result<Check, String> {
        let (kind, text) = word.split_once('=').ok_or_else(|| format!("@ … {word}"))?;
        let bytes = unescape(text)?;
        let text = forebay_testkit::escape::latin1(&bytes);
        match (kind, text.split_once(':')) {
            ("body", _) => Ok(Check::Body(bytes)),
            ("not", _) => Ok(Check::Not(text)),
            ("has", Some((name, value))) => Ok(Check::Has(name.into(), value.into())),
            _ => Err(format!("@ … {word}")),
        }
    }

    fn holds(&self, request: &Request) -> bool {
        match self {
            Check::Body(body) => &request.body == body,
            Check::Has(name, value) => request.head.all(name).any(|other| other == value),
            Check::Not(name) => !request.head.has(name),
        }
    }
}

fn cases() -> Vec<Case> {
    let text = include_str!("vectors/requests.txt");
    let vectors = vectors::parse(text, ">!=@").expect("the file is well-formed");
    let parse = |vector| Case::parse(vector).unwrap_or_else(|what| panic!("{vector:?}: {what}"));
    vectors.iter().map(parse).collect()
}
