//! Routes and sites that redirect requests or give a fixed answer.

use std::fs;

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

fn origin() -> Origin {
    Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"))
}

/// Sends a request with this line and `Host` on a connection of its own.
fn ask(server: &Server, line: &str, host: &str) -> Response {
    let mut client = Client::connect(server.address());
    client.send(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.response(line.split(' ').next().expect("a method")).expect("an answer")
}

#[test]
fn a_redirect_leads_to_its_url_with_the_parts_of_the_request() {
    let origin = origin();
    let text = format!(
        "[[site]]\nname = 'shop'\nnames = ['a.org']\norigin = 'http://{}'\n\
         [[site.route]]\npath_prefix = '/old'\nredirect = '301 https://b.org/new$path$query'\n\
         [[site.route]]\npath_prefix = '/old/here'\nredirect = 'off'\n\
         [[site.route]]\npath_prefix = '/tmp'\nredirect = '302 /elsewhere'\n\
         [[site]]\nname = 'bare'\nnames = ['bare.org', '*.bare.org']\n\
         redirect = '308 https://www.$host$uri'\n",
        origin.address()
    );
    let server = ServerBuilder::new(PROGRAM).config(&text).start();
    let cases = [
        ("GET /old/a%20b?x=1", "a.org", 301, Some("https://b.org/new/old/a%20b?x=1")),
        ("HEAD /old", "a.org", 301, Some("https://b.org/new/old")),
        ("POST /tmp/x?y", "a.org", 302, Some("/elsewhere")),
        ("GET //evil.org/..", "Bare.org:81", 308, Some("https://www.bare.org//evil.org/..")),
        ("GET http://x.bare.org/p?q", "x.bare.org", 308, Some("https://www.x.bare.org/p?q")),
        ("OPTIONS *", "bare.org", 308, Some("https://www.bare.org/")),
        ("GET /old/here", "a.org", 200, None),
        ("GET /older", "a.org", 200, None),
    ];
    // In the second round, the responses of the origin are stored.
    for round in 1..=2 {
        for (line, host, status, location) in cases {
            let answer = ask(&server, line, host);
            assert_eq!((answer.status, answer.field("location")), (status, location), "{line}");
            assert_eq!(answer.field("cache-control").is_some(), status == 200, "{round} {line}");
        }
    }
    assert_eq!(origin.request_count(), 2);
    assert_eq!(server.stat("redirects_total"), 12.0);
    for (url, words) in [
        ("http://a.org/old/x", "the request is redirected (`redirect`)"),
        ("http://bare.org/x", "origin none"),
    ] {
        let explained = server.command(&["explain", url]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.contains(words), "{explained}");
    }
}

#[test]
fn a_redirect_keeps_the_connection_and_needs_a_host_only_if_its_url_does() {
    let text = "[[site]]\nname = 'a'\nnames = ['*']\nredirect = '301 https://$host$uri'\n\
                [[site.route]]\npath_prefix = '/fixed'\nredirect = '301 https://b.org/'\n";
    let server = ServerBuilder::new(PROGRAM).config(text).start();
    let mut client = Client::connect(server.address());
    for _ in 0..2 {
        assert_eq!(client.ask("GET", "/a", &[]).expect("an answer").status, 301);
    }
    // The body of a request is not read, so the connection ends.
    let fields = ["Content-Length: 5"];
    let answer = client.ask("POST", "/a", &fields).expect("an answer");
    assert_eq!((answer.status, answer.field("connection")), (301, Some("close")));
    for (target, status) in [("/a", 421), ("/fixed", 301)] {
        let mut client = Client::connect(server.address());
        client.send(format!("GET {target} HTTP/1.0\r\n\r\n"));
        assert_eq!(client.response("GET").expect("an answer").status, status, "{target}");
    }
}

#[test]
fn a_fixed_answer_takes_the_place_of_the_origin_and_of_stored_responses() {
    let page = std::env::temp_dir().join(format!("fb-fixed-{}.html", std::process::id()));
    fs::write(&page, "<p>at noon</p>").expect("it is written");
    let origin = origin();
    let config = |lines: &str| {
        format!(
            "[[site]]\nname = 'a'\nnames = ['a.org']\norigin = 'http://{}'\n\
             purge_from = ['127.0.0.1']\n{lines}\
             [[site.route]]\npath_prefix = '/gone'\nrespond = '410 it is gone\n'\n\
             [[site.route]]\npath_prefix = '/robots.txt'\n\
             respond = \"\"\"200 User-agent: *\nAllow: /\n\"\"\"\n\
             [[site.route]]\npath_prefix = '/empty'\nrespond = '204'\n\
             [[site.route]]\npath_prefix = '/json'\nrespond = '404 {{}}'\n\
             respond_type = 'application/json'\n\
             [[site.route]]\npath_prefix = '/moved'\nredirect = '303 /gone'\n\
             [[site.route]]\npath_prefix = '/open'\nrespond = 'off'\n\
             [[site]]\nname = 'b'\nnames = ['b.org']\nrespond = '503 no origin'\n",
            origin.address()
        )
        .replace("it is gone\n'", "it is gone'")
    };
    let server = ServerBuilder::new(PROGRAM).config(&config("")).start();
    let plain = Some("text/plain; charset=utf-8");
    for (line, host, status, body, kind) in [
        ("GET /gone/x", "a.org", 410, "it is gone", plain),
        ("DELETE /gone", "a.org", 410, "it is gone", plain),
        ("GET /robots.txt", "a.org", 200, "User-agent: *\nAllow: /\n", plain),
        ("GET /json?x", "a.org", 404, "{}", Some("application/json")),
        ("GET /empty", "a.org", 204, "", None),
        ("GET /", "b.org", 503, "no origin", plain),
        ("GET /moved", "a.org", 303, "the page is at the URL in the field location\n", plain),
        ("GET /page", "a.org", 200, "hello", None),
        ("GET /open", "a.org", 200, "hello", None),
    ] {
        let answer = ask(&server, line, host);
        assert_eq!((answer.status, &*answer.text()), (status, body), "{line}");
        assert_eq!(answer.field("content-type"), kind, "{line}");
        assert_eq!(answer.field("retry-after"), None, "{line}");
    }
    let head = ask(&server, "HEAD /gone", "a.org");
    assert_eq!((head.status, head.field("content-length")), (410, Some("10")));
    assert_eq!((head.body.len(), head.field("content-type")), (0, plain));
    assert_eq!(server.stat("fixed_answers_total"), 7.0);

    // Maintenance: only the routes with an answer of their own differ, and PURGE still works.
    let lines = format!(
        "respond = '503'\nrespond_type = 'a/b'\nrespond_retry_after_s = '10m'\n\
         error_pages = ['503={}']\n",
        page.display()
    );
    server.write_config(&config(&lines));
    assert!(server.command(&["reload"]).status.success());
    let answer = ask(&server, "GET /page", "a.org");
    assert_eq!((answer.status, &*answer.text()), (503, "<p>at noon</p>"));
    assert_eq!(answer.field("retry-after"), Some("600"));
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let gone = ask(&server, "GET /gone", "a.org");
    assert_eq!((gone.status, gone.field("content-type")), (410, plain));
    assert_eq!(gone.field("retry-after"), None);
    assert_eq!(ask(&server, "GET /moved", "a.org").status, 303);
    assert_eq!(ask(&server, "GET /open", "a.org").status, 200);
    let purged = ask(&server, "PURGE /page", "a.org");
    assert_eq!((purged.status, purged.text().contains("\"purged\":1")), (200, true));
    let explained = server.command(&["explain", "http://a.org/page"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("the route gives a fixed answer (`respond`)"), "{explained}");
    fs::remove_file(&page).expect("it is removed");
}
