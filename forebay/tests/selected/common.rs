//! A server with two sites, an origin that answers with fields that the client asks for, and
//! helpers to inspect the cache.

use std::collections::BTreeSet;
use std::process::Output;

use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// An origin that answers with the lines of the request's `X-Answer` fields, and with 304 to
/// conditional requests.
pub(crate) fn origin() -> Origin {
    Origin::start(|request: &Request| {
        let mut fields = vec!["ETag: \"v\""];
        fields.extend(request.head.all("x-answer"));
        if !fields.iter().any(|field| field.starts_with("Cache-Control:")) {
            fields.push("Cache-Control: max-age=600");
        }
        let status = request.head.field("x-status").unwrap_or("200 OK");
        match request.head.has("if-none-match") {
            true => Script::answer("304 Not Modified", &fields, b""),
            false => Script::answer(status, &fields, b"body"),
        }
    })
}

/// A server with the sites `shop` and `other`. `top` is the text before the sites.
pub(crate) fn builder(origin: &Origin, top: &str) -> ServerBuilder {
    let site = |name: &str, names: &str| {
        let origin = origin.address();
        format!("[[site]]\nname = \"{name}\"\nnames = {names}\norigin = \"http://{origin}\"\n")
    };
    let sites = site("shop", "[\"shop.test\", \"*.shop.test\"]") + &site("other", "[\"*\"]");
    ServerBuilder::new(PROGRAM).config(&format!("{top}\n{sites}")).flag("--workers", "1")
}

pub(crate) fn start() -> (Origin, Server) {
    let origin = origin();
    let server = builder(&origin, "").start();
    (origin, server)
}

/// Sends one request for a URL on a new connection.
pub(crate) fn ask(server: &Server, method: &str, url: &str, fields: &[&str]) -> Response {
    let rest = url.strip_prefix("http://").expect("a URL");
    let (host, path) = rest.split_at(rest.find('/').expect("a path"));
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut client = Client::connect(server.address());
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
    client.response(method).unwrap_or_else(|broken| panic!("{method} {url}: {broken:?}"))
}

/// Stores a response for the URL, with these fields of the origin's answer.
pub(crate) fn store(server: &Server, url: &str, answer: &[&str]) {
    let fields: Vec<_> = answer.iter().map(|field| format!("X-Answer: {field}")).collect();
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    let response = ask(server, "GET", url, &fields);
    assert_eq!(response.status, 200, "{url}");
}

/// Whether the URL is answered from the cache.
pub(crate) fn is_stored(server: &Server, url: &str) -> bool {
    let status = ask(server, "GET", url, &["Cache-Control: only-if-cached"]).status;
    assert!(matches!(status, 200 | 504), "{url}: {status}");
    status == 200
}

/// Returns the URLs of the list, in its order.
pub(crate) fn listed(server: &Server, flags: &[&str]) -> Vec<String> {
    let lines = list(server, flags);
    lines.iter().map(|line| line["url"].as_str().expect("a URL").to_owned()).collect()
}

pub(crate) fn list(server: &Server, flags: &[&str]) -> Vec<Value> {
    let output = server.command(&[&["ls", "--json"], flags].concat());
    assert!(output.status.success(), "{flags:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Runs `forebay purge --json`, which must succeed, and returns its output.
pub(crate) fn purge(server: &Server, flags: &[&str]) -> Value {
    let output = server.command(&[&["purge", "--json"], flags].concat());
    assert!(output.status.success(), "{flags:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the stored URLs, and checks that the list and the requests of clients agree.
pub(crate) fn stored<'u>(server: &Server, urls: &[&'u str]) -> BTreeSet<&'u str> {
    let found: BTreeSet<_> = urls.iter().copied().filter(|url| is_stored(server, url)).collect();
    let listed = listed(server, &[]);
    let listed: BTreeSet<_> = listed.iter().map(String::as_str).collect();
    assert_eq!(found, listed, "the list differs from the responses that clients find");
    found
}
