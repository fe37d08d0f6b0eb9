//! Error pages of sites and routes in place of the text of the server's own errors.

use std::fs;

use forebay_testkit::{Client, Origin, Response, Script, ServerBuilder};

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
