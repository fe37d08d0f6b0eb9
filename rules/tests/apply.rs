//! Messages after their rules have run: Host follows the URL, a status that describes the body
//! stays, and a response that Forebay makes itself has fields and a body that fit.

#[path = "common/world.rs"]
mod world;

use forebay_http::{
    authority::Authority,
    fields::FieldBlock,
    request::{HeadLimits, RequestParts, parse_request},
    target::request_target,
    write,
};
use forebay_rules::{
    apply::{
        AnswerHead, ApplyError, MessageLimits, OwnAnswer, RequestText, RequestView, RuleScratch,
        RuledMessage, RuledRequest, body_of, rule_answer, rule_incoming, rule_outgoing,
        rule_request,
    },
    ast::{Hook, RuleScope},
    plan::Program,
    read,
    run::{Effects, RuleVariables, RunBuffers, TransactionState, Url},
};
use world::World;

const RECEIVED: HeadLimits =
    HeadLimits { head_bytes_max: 4096, field_count_max: 20, target_bytes_max: 1024 };

const HOOKS: [(Hook, &str); 4] = [
    (Hook::ReadRequest, "READ_REQUEST_HDR_HOOK"),
    (Hook::SendRequest, "SEND_REQUEST_HDR_HOOK"),
    (Hook::ReadResponse, "READ_RESPONSE_HDR_HOOK"),
    (Hook::SendResponse, "SEND_RESPONSE_HDR_HOOK"),
];

/// Rules for one hook; ` ; ` separates lines.
struct Rules(Program, Hook);

impl Rules {
    fn new(hook: Hook, lines: &str) -> Rules {
        let (_, name) = HOOKS.into_iter().find(|(known, _)| *known == hook).expect("a hook");
        let text = format!("cond %{{{name}}}\n{}\n", lines.replace(" ; ", "\n"));
        let found = read("apply", &text, RuleScope::Server);
        assert!(found.is_usable(), "{:?}", found.diagnostics);
        Rules(Program::plan(&[&found.rules]), hook)
    }

    fn run(
        &self,
        view: &RequestView<'_>,
        mut message: RuledMessage<'_, '_>,
        at: &mut RunBuffers,
    ) -> Effects {
        let world = World::default();
        let (mut transaction, mut session) =
            (TransactionState::default(), RuleVariables::default());
        let mut context = message.run_context(view, (&mut transaction, &mut session), &world);
        self.0.run(self.1, &mut context, at, &mut ())
    }
}

fn head(lines: &str) -> Vec<u8> {
    format!("{lines} | | ").replace(" | ", "\r\n").into_bytes()
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end().replace("\r\n", " | ")
}

/// The result of early rules: the head of the request, or status, fields and body of the response.
fn early(lines: &str, request: &str) -> Result<String, ApplyError> {
    let (text, mut parts) = (head(request), RequestParts::default());
    parse_request(&text, &RECEIVED, &mut parts).expect("a request");
    let head = parts.head(&text);
    let target = request_target(head).expect("a target");
    let url = Url::new(target.authority, target.path_query);
    let method = head.method().as_bytes();
    let view = RequestView { method, url, original: url, fields: head.fields() };
    let (mut scratch, mut into) = (RuleScratch::default(), RequestText::default());
    let (rules, limits) = (Rules::new(Hook::ReadRequest, lines), MessageLimits::beyond(RECEIVED));
    let sees = (&view, head.version());
    let ruled = rule_request(sees, &limits, &mut scratch, &mut into, |message, texts| {
        rules.run(&view, message, texts)
    });
    let answer = match ruled? {
        RuledRequest::Same => return Ok("same".to_owned()),
        RuledRequest::Changed(_) => None,
        RuledRequest::Answer(answer) => Some(answer),
    };
    Ok(answer.map_or_else(|| shown(into.bytes()), |answer| answer_text(&answer)))
}

fn answer_text(answer: &OwnAnswer) -> String {
    let mut text = Vec::new();
    write::status_line_with(&mut text, answer.status(), None);
    answer.write_fields(&mut text);
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(&answer.body());
    shown(&text)
}

#[test]
fn a_changed_request_is_valid_as_a_client_request() {
    let long = format!("set-destination QUERY {}", "q".repeat(1100));
    for (lines, request, expected) in [
        ("no-op", "GET /a HTTP/1.1 | Host: A.example", "same"),
        (
            "set-header X y",
            "GET /a?b HTTP/1.0 | Host: A.example",
            "GET /a?b HTTP/1.0 | Host: A.example | X: y",
        ),
        // The Host field follows the URL, and is unchanged if the URL is unchanged.
        (
            "set-destination HOST b.example",
            "GET /a HTTP/1.1 | Host: a.example:81",
            "GET /a HTTP/1.1 | Host: b.example:81",
        ),
        (
            "rm-destination PORT",
            "GET /a HTTP/1.1 | Host: a.example:81",
            "GET /a HTTP/1.1 | Host: a.example",
        ),
        (
            "set-destination PATH c",
            "GET /a?b HTTP/1.1 | Host: A.example",
            "GET /c?b HTTP/1.1 | Host: A.example",
        ),
        (
            "set-destination PATH c",
            "GET http://A.EXAMPLE/a HTTP/1.1 | Host: a.example",
            "GET /c HTTP/1.1 | Host: a.example",
        ),
        // The target is the only place that names the host.
        (
            "set-header X y",
            "GET http://a.example/a HTTP/1.0",
            "GET /a HTTP/1.0 | X: y | Host: a.example",
        ),
        // The target `*` has no parts that could be changed.
        ("set-destination PATH c", "OPTIONS * HTTP/1.1 | Host: a.example", "same"),
        (
            "set-destination PATH c ; set-header X y",
            "OPTIONS * HTTP/1.1 | Host: a.example",
            "OPTIONS * HTTP/1.1 | Host: a.example | X: y",
        ),
    ] {
        assert_eq!(early(lines, request).as_deref(), Ok(expected), "{lines}: {request}");
    }
    let too_long = early(&long, "GET /a HTTP/1.1 | Host: a.example");
    assert!(matches!(too_long, Err(ApplyError::Request(Some(_)))), "{too_long:?}");
}

#[test]
fn a_response_made_by_rules_fits_its_status() {
    let plain = "content-type: text/plain; charset=utf-8 | cache-control: no-store";
    let html = "content-type: text/html; charset=utf-8 | cache-control: no-store";
    for (lines, expected) in [
        ("set-status 403", format!("HTTP/1.1 403 Forbidden | {plain} | Forbidden")),
        ("set-status 204", "HTTP/1.1 204 No Content | cache-control: no-store".to_owned()),
        (
            "set-status 204 ; set-body no",
            "HTTP/1.1 204 No Content | cache-control: no-store".to_owned(),
        ),
        ("set-status 403 ; set-body <b>", format!("HTTP/1.1 403 Forbidden | {html} | <b>")),
        (
            "set-status 403 ; set-body %{HEADER:A}",
            format!("HTTP/1.1 403 Forbidden | {plain} | <i>"),
        ),
        (
            "set-redirect 302 http://b.example/",
            format!("HTTP/1.1 302 Found | {plain} | location: http://b.example/ | Found"),
        ),
    ] {
        let seen = early(lines, "GET /a HTTP/1.1 | Host: a.example | A: <i>");
        // An empty line precedes the body.
        let seen = seen.map(|text| text.replace(" |  | ", " | "));
        assert_eq!(seen, Ok(expected), "{lines}");
    }
    assert_eq!(body_of(403, b"first", Some(b"last")), b"last");
    assert_eq!(body_of(403, b"first", None), b"first");
    assert_eq!(body_of(204, b"", Some(b"last")), b"");
}

/// Returns the response after the rules of this hook have run.
fn answered(hook: Hook, lines: &str, answer: &str, limits: MessageLimits) -> String {
    let view_fields = FieldBlock::parse(b"Host: a.example\r\n").expect("fields");
    let authority = Authority::parse(b"a.example");
    let url = Url::new(authority, b"/a");
    let view = RequestView { method: b"GET", url, original: url, fields: view_fields.fields() };
    let rules = Rules::new(hook, lines);
    let (line, fields) = answer.split_once(" | ").expect("a status and fields");
    let status: u16 = line[..3].parse().expect("a status");
    let fields = format!("{fields} | ").replace(" | ", "\r\n");
    let mut scratch = RuleScratch::default();
    if hook == Hook::ReadResponse {
        let received = (status, FieldBlock::parse(fields.as_bytes()).expect("fields"));
        let ruled = rule_incoming(received, limits.edit, &mut scratch, |message, texts| {
            rules.run(&view, message, texts)
        });
        let (status, fields) = ruled.expect("fields");
        return format!("{status} | {}", shown(fields.bytes()));
    }
    let mut text = format!("before\r\nHTTP/1.1 {line}\r\n").into_bytes();
    let at = AnswerHead { status, head_start: 8, fields_start: text.len(), is_own: true };
    text.extend_from_slice(fields.as_bytes());
    let (status, _) = rule_answer(&mut text, at, limits.edit, &mut scratch, |message, texts| {
        rules.run(&view, message, texts)
    });
    let text = shown(&text);
    let text = text.strip_prefix("before | HTTP/1.1 ").expect("what stood before it");
    assert!(text.starts_with(&status.to_string()), "{status}: {text}");
    text.to_owned()
}

#[test]
fn a_response_keeps_a_status_that_describes_its_body() {
    let (read, send) = (Hook::ReadResponse, Hook::SendResponse);
    let away = "set-redirect 302 http://b.example/";
    let page = "403 Forbidden | content-type: text/html; charset=utf-8";
    for (hook, lines, answer, expected) in [
        // A body with text from the client is plain text, unless the author sets the type.
        (send, "set-body new", page, page),
        (
            send,
            "set-body \"new %{CLIENT-HEADER:Host}\"",
            page,
            "403 Forbidden | content-type: text/plain; charset=utf-8",
        ),
        (
            send,
            "set-body %{CLIENT-HEADER:Host}\nset-header Content-Type application/json",
            page,
            "403 Forbidden | content-type: application/json",
        ),
        (read, "set-status 502", "500 | A: 1", "502 | A: 1"),
        (read, "set-status 502", "206 | A: 1", "206 | A: 1"),
        (read, away, "200 | A: 1", "302 | A: 1 | location: http://b.example/"),
        (read, away, "304 | A: 1", "304 | A: 1"),
        (send, "set-status 502", "500 Odd | A: 1", "502 Bad Gateway | A: 1"),
        (send, "set-status 502", "204 Odd | A: 1", "204 Odd | A: 1"),
        (send, "set-status-reason New", "204 Odd | A: 1", "204 New | A: 1"),
        (send, away, "200 OK | Location: /x", "302 Found | Location: http://b.example/"),
        (send, away, "206 OK | A: 1", "206 OK | A: 1"),
    ] {
        let seen = answered(hook, lines, answer, MessageLimits::beyond(RECEIVED));
        assert_eq!(seen, expected, "{hook:?} {lines}: {answer}");
    }
    // If the Location exceeds the limits, only the status changes.
    let mut tight = MessageLimits::beyond(RECEIVED);
    tight.edit.line_count_max = 1;
    assert_eq!(answered(send, away, "200 OK | A: 1", tight), "302 Found | A: 1");
}

#[test]
fn rules_read_the_client_request_besides_the_outgoing_one() {
    let client = FieldBlock::parse(b"Host: a.example\r\nA: of-client\r\n").expect("fields");
    let url = Url::new(None, b"/");
    let view = RequestView { method: b"GET", url, original: url, fields: client.fields() };
    let rules = Rules::new(Hook::SendRequest, "set-header B %{CLIENT-HEADER:A}%{HEADER:A}");
    let fields = FieldBlock::parse(b"A: of-ours\r\n").expect("fields");
    let limits = MessageLimits::beyond(RECEIVED).edit;
    let out = rule_outgoing(fields, limits, &mut RuleScratch::default(), |message, texts| {
        rules.run(&view, message, texts)
    });
    assert_eq!(shown(out.expect("fields").bytes()), "A: of-ours | B: of-clientof-ours");
}
