//! Error pages of sites and routes in place of the text of the server's own errors, and of the
//! bodies of the origin's.

use std::fs;

use forebay_testkit::{Client, Origin, Response, Script, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

#[test]
fn an_error_of_the_server_has_the_page_of_its_route() {
    let dir = std::env::temp_dir().join(format!("fb-pages-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let page = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).expect("it is written");
        path.display().to_string()
    };
    let (site, route) = (page("site.html", "<p>later</p>"), page("route.json", "{}"));
    let origin = Origin::start(|request| match request.head.start.contains("/origin") {
        true => Script::answer("502 Bad Gateway", &[], b"of the origin"),
        false => Script::new().reset(),
    });
    let text = format!(
        "[[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"http://{}\"\n\
         error_pages = [\"502={site}\"]\n\
         [[site.route]]\npath_prefix = \"/api\"\nerror_pages = [\"502={route}\"]\n\
         [[site.route]]\npath_prefix = \"/plain\"\nerror_pages = []\n",
        origin.address()
    );
    let server = ServerBuilder::new(PROGRAM).config(&text).start();
    let ask = |method: &str, target: &str| -> Response {
        let mut client = Client::connect(server.address());
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        client.response(method).expect("it is answered")
    };
    let cases = [
        ("/x", "<p>later</p>", "text/html; charset=utf-8"),
        ("/api/x", "{}", "application/json"),
        ("/plain", "closed the connection", "text/plain; charset=utf-8"),
    ];
    for (target, body, kind) in cases {
        let response = ask("GET", target);
        assert_eq!(response.status, 502, "{target}");
        assert!(response.text().contains(body), "{target}: {}", response.text());
        assert_eq!(response.field("content-type"), Some(kind), "{target}");
        assert_eq!(response.field("cache-control"), Some("no-store"), "{target}");
    }
    let head = ask("HEAD", "/x");
    assert_eq!((head.status, head.field("content-length")), (502, Some("12")));
    assert!(head.body.is_empty());
    assert_eq!(ask("GET", "/origin").text(), "of the origin");
    assert_eq!(server.stat("error_pages_sent_total"), 3.0);
    fs::remove_dir_all(&dir).expect("it is removed");
}

#[test]
fn an_error_of_the_origin_has_the_page_of_its_route_and_is_stored_without_it() {
    let dir = std::env::temp_dir().join(format!("fb-origin-pages-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("404.html");
    fs::write(&path, "<p>not here</p>").expect("it is written");
    let origin = Origin::start(|request| {
        let start = &request.head.start;
        match start {
            _ if start.contains("/found") => {
                Script::answer("200 OK", &["Cache-Control: max-age=60"], b"found")
            }
            _ if start.contains("/gone") => {
                let fields = ["Cache-Control: max-age=60", "Content-Type: text/csv"];
                Script::answer("404 Not Found", &fields, b"of the origin")
            }
            _ if start.contains("/busy") => {
                let fields = ["Cache-Control: no-store", "Retry-After: 7"];
                Script::answer("503 Service Unavailable", &fields, b"of the origin")
            }
            _ => Script::answer("404 Not Found", &["Cache-Control: no-store"], b"of the origin"),
        }
    });
    let page = path.display();
    let text = format!(
        "[[site]]\nname = \"a\"\nnames = [\"a.test\"]\norigin = \"http://{}\"\n\
         origin_error_pages = [\"404={page}\", \"503={page}\"]\n\
         [[site.route]]\npath_prefix = \"/api\"\norigin_error_pages = []\n",
        origin.address()
    );
    let server = ServerBuilder::new(PROGRAM).config(&text).start();
    let mut client = Client::connect(server.address());
    let mut ask = |method: &str, target: &str, fields: &str| -> Response {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
        client.response(method).expect("it is answered")
    };
    // A response that is not stored, one that is being stored, and one that is stored.
    for (target, detail) in [("/x", "fwd="), ("/gone", "; stored"), ("/gone", "; hit")] {
        if detail == "; hit" {
            eventually("the response is stored", || server.stat("stored_total") == 1.0);
        }
        let response = ask("GET", target, "");
        let name = format!("{target} {detail}");
        assert_eq!((response.status, &*response.text()), (404, "<p>not here</p>"), "{name}");
        assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"), "{name}");
        assert_eq!(response.field("cache-control"), Some("no-store"), "{name}");
        let status = response.field("cache-status").unwrap_or_default();
        assert!(status.contains(detail), "{name}: {status}");
    }
    let posted = ask("POST", "/busy", "Content-Length: 0\r\n");
    assert_eq!((posted.status, posted.field("retry-after")), (503, Some("7")));
    let head = ask("HEAD", "/gone", "");
    assert_eq!((head.status, head.field("content-length")), (404, Some("15")));
    assert_eq!(ask("GET", "/found", "").text(), "found", "another status");
    assert_eq!(ask("GET", "/api/gone", "").text(), "of the origin", "another route");
    assert_eq!(server.stat("origin_error_pages_sent_total"), 5.0);
    assert_eq!(server.stat("error_pages_sent_total"), 0.0);
    server.write_config(&text.replace("404=", "410="));
    assert!(server.command(&["reload"]).status.success(), "{}", server.errors());
    let stored = ask("GET", "/gone", "");
    assert!(stored.field("cache-status").is_some_and(|status| status.contains("; hit")));
    assert_eq!(
        (stored.field("content-type"), &*stored.text()),
        (Some("text/csv"), "of the origin")
    );
    fs::remove_dir_all(&dir).expect("it is removed");
}
