//! The host and the path that the origin gets in place of those of the client.

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A server with one worker whose site has this route.
fn serve(origin: &Origin, site: &str, route: &str) -> Server {
    let config = format!(
        "[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n{site}\n\
         [[site.route]]\n{route}\n",
        origin.address()
    );
    ServerBuilder::new(PROGRAM).config(&config).flag("--workers", "1").start()
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, target, fields).expect("whole")
}

/// An origin that answers with the target that it gets, and a validator.
fn telling(fields: &'static [&'static str]) -> Origin {
    Origin::start(move |request| match request.head.field("if-none-match") {
        Some(_) => Script::answer("304 Not Modified", fields, b""),
        None => Script::answer("200 OK", fields, request.target.as_bytes()),
    })
}

#[test]
fn the_origin_gets_the_host_of_the_setting_and_the_key_has_the_clients() {
    let origin = telling(&["Cache-Control: max-age=60"]);
    let own = origin.address().to_string();
    for (setting, expected) in [
        ("client", "shop.test:81"),
        ("origin", own.as_str()),
        ("app.internal:8000", "app.internal:8000"),
    ] {
        let line = format!("origin_host = {setting:?}\nforwarded_fields = [\"x-forwarded-host\"]");
        let server = serve(&origin, &line, "path_prefix = \"/x\"");
        let before = origin.request_count();
        let ask = |host: &str| {
            let mut client = Client::connect(server.address());
            assert!(client.send(format!("GET /x/1 HTTP/1.1\r\nHost: {host}\r\n\r\n")));
            assert_eq!(client.response("GET").expect("whole").status, 200);
        };
        ask("shop.test:81");
        eventually("it is stored", || server.stat("stored_total") >= 1.0);
        ask("shop.test:81");
        ask("other.test");
        let requests = origin.requests_since(before);
        assert_eq!(requests.len(), 2, "{setting}: a hit, and a miss for another host");
        let head = &requests[0].head;
        assert_eq!(head.field("host"), Some(expected), "{setting}");
        assert_eq!(head.field("x-forwarded-host"), Some("shop.test:81"), "{setting}");
    }
}

#[test]
fn the_origin_gets_the_path_without_the_prefix_and_below_another() {
    let origin = telling(&["Cache-Control: max-age=60"]);
    let route = "path_prefix = \"/app/\"\norigin_strip_prefix = true\n\
                 purge_from = [\"127.0.0.1\"]\nupgrade_protocols = [\"websocket\"]";
    let server = serve(&origin, "origin_add_prefix = \"/v2/\"", route);
    for (number, (target, sent)) in
        [("/app/a?b=/app/", "/v2/a?b=/app/"), ("/app/", "/v2/"), ("/c", "/v2/c")].iter().enumerate()
    {
        assert_eq!(ask(&server, "GET", target, &[]).body, sent.as_bytes(), "{target}");
        eventually("it is stored", || server.stat("stored_total") >= (number + 1) as f64);
        assert_eq!(ask(&server, "GET", target, &[]).body, sent.as_bytes(), "{target}");
    }
    assert_eq!(origin.request_count(), 3);
    // Purges and explanations have the client's URL.
    let explained = server.command(&["explain", "http://x/app/a?b"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("the origin gets /v2/a?b"), "{explained}");
    assert_eq!(ask(&server, "PURGE", "/app/a?b=/app/", &[]).status, 200);
    assert_eq!(ask(&server, "GET", "/app/a?b=/app/", &[]).body, b"/v2/a?b=/app/");
    assert_eq!(origin.request_count(), 4);
    // A request for another protocol has the same path.
    ask(&server, "GET", "/app/ws", &["Connection: upgrade", "Upgrade: websocket"]);
    assert_eq!((origin.count("/v2/ws"), server.stat("tunnels_declined_total")), (1, 1.0));
}

#[test]
fn a_stored_response_is_validated_with_the_path_of_the_origin() {
    let origin = telling(&["Cache-Control: max-age=0", "ETag: \"1\""]);
    let server = serve(&origin, "", "path_prefix = \"/app\"\norigin_strip_prefix = true");
    assert_eq!(ask(&server, "GET", "/app/x", &[]).body, b"/x");
    eventually("it is stored", || server.stat("stored_total") >= 1.0);
    assert_eq!(ask(&server, "GET", "/app/x", &[]).body, b"/x");
    let requests = origin.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        (&*requests[1].target, requests[1].head.field("if-none-match")),
        ("/x", Some("\"1\""))
    );
}

#[test]
fn a_path_that_an_origin_may_read_as_another_is_refused_before_a_connection_is_used() {
    let origin = telling(&[]);
    let route = "path_prefix = \"/app\"\norigin_strip_prefix = true\norigin_add_prefix = \"/v2\"";
    for site in ["", "ambiguous_path = \"normal-form\""] {
        let server = serve(&origin, site, route);
        for target in
            ["/app//x", "/app/..%2fapp/x", "/app/../app/x", "/app/%2e%2e/app/x", "/%61pp/x"]
        {
            assert_eq!(ask(&server, "GET", target, &[]).status, 400, "{site}: {target}");
            assert_eq!(
                ask(&server, "POST", target, &["Content-Length: 0"]).status,
                400,
                "{target}"
            );
        }
        if !site.is_empty() {
            let explained = server.command(&["explain", "http://x/app//x"]);
            let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
            assert!(explained.contains("400, "), "{explained}");
            let refused = ask(&server, "GET", "/%61pp/x", &[]).text();
            assert!(refused.contains("not below the prefix of its route"), "{refused}");
        }
        assert_eq!(server.stat("origin_connections_total"), 0.0);
        assert_eq!(ask(&server, "GET", "/app/a%2Fb//c", &[]).body, b"/v2/a%2Fb//c");
    }
}

#[test]
fn a_location_that_names_a_path_of_the_origin_names_that_of_the_client() {
    let own = "http://app.internal/v2/new?x";
    let origin = Origin::start(move |request| {
        let location = match request.target.as_str() {
            "/v2/own" => own,
            "/v2/path" => "/v2/new",
            "/v2/above" => "/login",
            _ => "http://other.test/v2/new",
        };
        Script::answer("302 Found", &[&format!("Location: {location}")], b"")
    });
    let route = "path_prefix = \"/app\"\norigin_strip_prefix = true\norigin_add_prefix = \"/v2\"\n\
                 origin_host = \"app.internal\"";
    let server = serve(&origin, "", route);
    for (target, expected) in [
        ("/app/own", "/app/new?x"),
        ("/app/path", "/app/new"),
        ("/app/above", "/login"),
        ("/app/other", "http://other.test/v2/new"),
    ] {
        let answer = ask(&server, "GET", target, &[]);
        assert_eq!((answer.status, answer.head.field("location")), (302, Some(expected)));
    }
}
