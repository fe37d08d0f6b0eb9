//! Proxies in front of the server: their statements about a request are believed only if their
//! address is in `trusted_proxies`, and text of their clients never reaches the origin of a
//! response that may be stored.

use std::net::IpAddr;

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The address of the trusted proxy.
const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

const ALL_FIELDS: &str = "x-forwarded-for,x-forwarded-proto,x-forwarded-host,forwarded,\
                          x-request-id";

const STATEMENTS: &[&str] = &[
    "X-Forwarded-For: evil, 198.51.100.7, 127.0.0.3",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: shop.test",
    "Forwarded: for=198.51.100.7",
    "X-Request-Id: abc-1",
    "X-Real-IP: 198.51.100.7",
    "X_Forwarded_For: 6.6.6.6",
    "X_Forwarded-Proto: https",
    "x_request_id: evil",
    "X_Real_IP: 6.6.6.6",
];

fn origin() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"))
}

fn start(origin: &Origin, flags: &[(&str, &str)]) -> Server {
    let builder = ServerBuilder::new(PROGRAM).origin(origin);
    let builder = builder.flag("--trusted-proxies", "127.0.0.2,127.0.0.3");
    flags.iter().fold(builder, |builder, (name, value)| builder.flag(name, value)).start()
}

fn ask_from(address: IpAddr, server: &Server, request: (&str, &str), fields: &[&str]) -> Response {
    let mut client = Client::connect_from(address, server.address());
    client.ask(request.0, request.1, fields).expect("an answer")
}

/// The fields of the last request of the origin, without the one that differs in each run.
fn received(origin: &Origin) -> Vec<(&'static str, Option<String>)> {
    let request = origin.requests().pop().expect("a request");
    ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded", "x-request-id"]
        .map(|name| {
            let lines: Vec<_> = request.head.all(name).collect();
            (name, (!lines.is_empty()).then(|| lines.join(" | ")))
        })
        .into()
}

fn value<'a>(fields: &'a [(&str, Option<String>)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(of, _)| *of == name).and_then(|(_, value)| value.as_deref())
}

#[test]
fn the_origin_gets_the_fields_of_a_client_only_from_a_trusted_proxy() {
    let origin = origin();
    let server = start(&origin, &[("--forwarded-fields", ALL_FIELDS)]);
    let client = IpAddr::from([127, 0, 0, 9]);
    let host = "example.test";
    for (number, (from, method, expected)) in [
        (
            client,
            "DELETE",
            ["127.0.0.9", "http", host, "for=127.0.0.9;host=\"example.test\";proto=http"],
        ),
        (client, "GET", ["127.0.0.9", "http", host, "host=\"example.test\";proto=http"]),
        (
            PROXY,
            "DELETE",
            [
                "evil, 198.51.100.7, 127.0.0.3, 127.0.0.2",
                "https",
                "shop.test",
                "for=198.51.100.7 | for=127.0.0.2;host=\"example.test\";proto=https",
            ],
        ),
        (
            PROXY,
            "GET",
            [
                "198.51.100.7, 127.0.0.3, 127.0.0.2",
                "https",
                host,
                "host=\"example.test\";proto=https",
            ],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        ask_from(from, &server, (method, &format!("/{number}")), STATEMENTS);
        let fields = received(&origin);
        let names = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
        for (name, expected) in names.into_iter().zip(expected) {
            assert_eq!(value(&fields, name), Some(expected), "{name} of {method} from {from}");
        }
        let id = value(&fields, "x-request-id").expect("an ID");
        let is_kept = from == PROXY && method == "DELETE";
        assert_eq!(id == "abc-1", is_kept, "{method} from {from}: {id}");
        let head = &origin.requests().pop().expect("a request").head;
        assert_eq!(head.field("x-real-ip").is_some(), is_kept, "{method} from {from}");
        // An origin with CGI variables reads these names as those with hyphens.
        for name in ["x_forwarded_for", "x_forwarded-proto", "x_request_id", "x_real_ip"] {
            assert_eq!(head.field(name), None, "{name} of {method} from {from}");
        }
    }
    assert_eq!(server.stat("forwarded_fields_replaced_total"), 2.0);
}

#[test]
fn fields_that_are_not_wanted_are_not_sent() {
    let origin = origin();
    let server = start(&origin, &[("--forwarded-fields", "none")]);
    ask_from([127, 0, 0, 9].into(), &server, ("DELETE", "/"), STATEMENTS);
    assert!(received(&origin).iter().all(|(_, value)| value.is_none()), "{:?}", received(&origin));
    let server = start(&origin, &[]);
    ask_from([127, 0, 0, 9].into(), &server, ("DELETE", "/"), STATEMENTS);
    let fields = received(&origin);
    assert_eq!(value(&fields, "x-forwarded-host"), None);
    assert_eq!(value(&fields, "forwarded"), None);
    assert_eq!(value(&fields, "x-forwarded-for"), Some("127.0.0.9"));
}

/// A proxy that ends TLS makes `https` URLs of the requests that it forwards. Their responses are
/// stored separately, and a client cannot ask for them without the proxy.
#[test]
fn the_scheme_of_a_trusted_proxy_is_in_the_key() {
    let origin = Origin::start(|request| {
        let scheme = request.head.field("x-forwarded-proto").unwrap_or_default().to_owned();
        Script::answer("200 OK", &["Cache-Control: max-age=60"], scheme.as_bytes())
    });
    let server = start(&origin, &[("--https-redirect-port", "0"), ("--hsts", "max-age=5")]);
    let client = IpAddr::from([127, 0, 0, 9]);
    let https = &["X-Forwarded-Proto: https"][..];
    for (from, fields, expected, requests) in [
        (client, https, "http", 1),
        (PROXY, https, "https", 2),
        (client, https, "http", 2),
        (PROXY, &[][..], "http", 2),
        (PROXY, https, "https", 2),
    ] {
        let response = ask_from(from, &server, ("GET", "/"), fields);
        assert_eq!(response.text(), expected, "{from} {fields:?}");
        let hsts = response.field("strict-transport-security").is_some();
        assert_eq!(hsts, expected == "https", "{from} {fields:?}");
        assert_eq!(origin.request_count(), requests, "{from} {fields:?}");
    }
}

#[test]
fn a_redirect_to_https_does_not_loop_behind_a_proxy_that_ends_tls() {
    let origin = origin();
    let server = start(&origin, &[("--https-redirect-port", "443")]);
    let https = &["X-Forwarded-Proto: https"][..];
    assert_eq!(ask_from(PROXY, &server, ("GET", "/"), https).status, 200);
    assert_eq!(ask_from(PROXY, &server, ("GET", "/"), &[]).status, 308);
    assert_eq!(ask_from([127, 0, 0, 9].into(), &server, ("GET", "/"), https).status, 308);
}

#[test]
fn the_log_names_the_client_and_the_id_of_a_request() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM).origin(&origin).flag("--workers", "1");
    let log = builder.path("access.log").display().to_string();
    let builder =
        builder.flag("--trusted-proxies", "127.0.0.2,127.0.0.3").flag("--access-log", &log);
    let mut server = builder.start();
    // One connection carries the requests of several clients.
    let mut proxy = Client::connect_from(PROXY, server.address());
    let mut direct = Client::connect_from([127, 0, 0, 9].into(), server.address());
    let cases: &[(bool, &[&str], &str, &str)] = &[
        (true, STATEMENTS, "198.51.100.7", "abc-1"),
        (true, &["X-Forwarded-For: 2001:db8::1"], "2001:db8::1", ""),
        (true, &[], "127.0.0.2", ""),
        (true, &["X-Forwarded-For: 198.51.100.7, who"], "127.0.0.2", ""),
        (true, &["X-Request-Id: a b"], "127.0.0.2", ""),
        (false, STATEMENTS, "127.0.0.9", "none"),
    ];
    for (is_proxied, fields, ..) in cases {
        let client = if *is_proxied { &mut proxy } else { &mut direct };
        client.ask("DELETE", "/", fields).expect("an answer");
    }
    assert_eq!(server.stat("forwarded_for_malformed_total"), 1.0);
    let sent: Vec<_> = origin
        .requests()
        .iter()
        .map(|request| request.head.field("x-request-id").expect("an ID").to_owned())
        .collect();
    drop((proxy, direct));
    assert!(server.stop().is_some_and(|status| status.success()));
    assert!(server.errors().contains("forwarded_for_malformed"), "{}", server.errors());
    let log = std::fs::read_to_string(server.path("access.log")).expect("the log");
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    assert_eq!(lines.len(), cases.len(), "{log}");
    for ((line, sent), (is_proxied, _, client, id)) in lines.iter().zip(&sent).zip(cases) {
        assert_eq!(line["client"], *client, "{line}");
        let given = line["proxy_request_id"].as_str().unwrap_or("none");
        assert_eq!(given, *id, "{line}");
        assert_eq!(line["proxy"] == "127.0.0.2", *is_proxied, "{line}");
        let own = line["request_id"].as_str().expect("an ID");
        assert_eq!(sent, if given == "abc-1" { "abc-1" } else { own }, "{line}");
    }
    let mut ids: Vec<_> = lines.iter().map(|line| line["request_id"].to_string()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), cases.len(), "each request has its own ID: {log}");
}

/// Behind a proxy on the same machine, the proxy's own address would let every client purge.
#[test]
fn only_the_clients_own_address_may_purge_behind_a_proxy() {
    let origin = origin();
    let server = start(&origin, &[("--purge-from", "127.0.0.0/8")]);
    for (fields, status) in [
        (&[][..], 200),
        (&["X-Forwarded-For: 127.0.0.1"], 200),
        (&["X-Forwarded-For: 127.0.0.1, 198.51.100.7"], 403),
    ] {
        let response = ask_from(PROXY, &server, ("PURGE", "/"), fields);
        assert_eq!(response.status, status, "{fields:?}");
    }
}

/// An origin that joins the lines would take everything after the open quote for its text.
#[test]
fn a_line_with_an_open_quote_does_not_swallow_the_element_that_follows() {
    let origin = origin();
    let server = start(&origin, &[("--forwarded-fields", "forwarded")]);
    let own = "for=127.0.0.2;host=\"example.test\";proto=http";
    let closed = "for=\"[2001:db8::1]\"";
    let fields = &["Forwarded: for=\"evil", &format!("Forwarded: {closed}")];
    ask_from(PROXY, &server, ("DELETE", "/"), fields);
    let expected = format!("{closed} | {own}");
    assert_eq!(value(&received(&origin), "forwarded"), Some(expected.as_str()));
}

/// The origin gets an ID that is different in each request, not the one of the client.
#[test]
fn a_response_that_varies_by_the_id_is_stored_only_if_the_id_is_in_the_key() {
    let origin = Origin::start(|request| {
        let id = request.head.field("x-request-id").unwrap_or("none").to_owned();
        let fields = ["Cache-Control: max-age=60", "Vary: X-Request-Id"];
        Script::answer("200 OK", &fields, id.as_bytes())
    });
    let client = IpAddr::from([127, 0, 0, 9]);
    let server = start(&origin, &[]);
    for _ in 0..2 {
        let response = ask_from(client, &server, ("GET", "/"), &["X-Request-Id: abc-1"]);
        assert_ne!(response.text(), "abc-1");
        let status = response.field("cache-status").unwrap_or_default();
        assert!(!status.contains("hit") && !status.contains("stored"), "{status}");
    }
    assert_eq!(origin.request_count(), 2);
    assert_eq!(server.stat("stored_total"), 0.0);

    let server = start(&origin, &[("--key-fields", "x-request-id")]);
    for (fields, expected, requests) in [
        (&["X-Request-Id: abc-1"][..], "abc-1", 3),
        (&["X-Request-Id: abc-1"], "abc-1", 3),
        (&["X-Request-Id: abc-2"], "abc-2", 4),
        (&[], "none", 5),
        (&[], "none", 5),
    ] {
        let response = ask_from(client, &server, ("GET", "/"), fields);
        assert_eq!(response.text(), expected, "{fields:?}");
        assert_eq!(origin.request_count(), requests, "{fields:?}");
    }
}
