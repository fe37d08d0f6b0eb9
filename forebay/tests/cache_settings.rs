//! Settings of routes that decide about storing, freshness and reuse, and the settings of
//! Cache-Status, over real sockets.

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder};

const MINUTE: &[&str] = &["Cache-Control: max-age=60", "ETag: \"a\""];

#[test]
fn cache_status_has_the_name_of_the_cache_and_the_key_if_they_are_set() {
    let origin = Origin::start(|_| Script::answer("200 OK", MINUTE, b"x"));
    let server = start(&format!(
        "cache_name = \"Edge 1\"\n\
         [[site]]\nname = \"shop\"\nnames = [\"*\"]\norigin = \"http://{}\"\n\
         [[site.route]]\npath_prefix = \"/key\"\ncache_status_key = true\n",
        origin.address()
    ));
    let cases = [
        ("/a", "\"Edge 1\"; fwd=uri-miss; fwd-status=200; stored"),
        ("/a", "\"Edge 1\"; hit; ttl="),
        ("/key?q=1", "stored; key=\"shop http://a.test/key?q=1\""),
        ("/key?q=1", "; key=\"shop http://a.test/key?q=1\""),
    ];
    for (target, expected) in cases {
        let response = ask(&server, target, &[]);
        let status = cache_status(&response);
        assert!(status.contains(expected), "{target}: {status}");
        assert_eq!(status.contains("key="), target.contains("key"), "{target}: {status}");
    }
}

fn start(config: &str) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(config);
    builder.flag("--workers", "1").start()
}

fn ask(server: &Server, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(server.address());
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    client.response("GET").expect("an answer")
}

fn cache_status(response: &Response) -> &str {
    response.field("cache-status").unwrap_or_default()
}
