//! Early hints (RFC 8297) that the server itself makes, and sends while a page is validated.

use forebay_testkit::{Client, Gate, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
const NAVIGATE: &str = "Sec-Fetch-Mode: navigate";

fn links(response: &Response) -> Vec<String> {
    let fields = response.interim.iter().flat_map(|head| &head.fields);
    fields.map(|(name, value)| format!("{name}: {value}")).collect()
}

fn ask(server: &Server, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask("GET", "/page", fields).expect("it is answered")
}

#[test]
fn a_browser_gets_the_links_of_a_stored_page_while_it_is_validated() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |request| {
        let fields = [
            "Cache-Control: max-age=60",
            "Age: 100",
            "ETag: \"a\"",
            "Link: </a.css>; rel=preload; as=style, </next>; rel=next",
        ];
        match request.head.field("if-none-match") {
            Some(_) => {
                let fields = "ETag: \"a\"\r\nAge: 100\r\nCache-Control: max-age=60";
                let head = format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n");
                Script::new().wait(&held).send(head)
            }
            None => Script::answer("200 OK", &fields, b"page"),
        }
    });
    let server = ServerBuilder::new(PROGRAM).origin(&origin).flag("--early-hints", "true").start();
    let cold = ask(&server, &[NAVIGATE]);
    assert_eq!(links(&cold), Vec::<String>::new(), "nothing is stored");
    let mut client = Client::connect(server.address());
    client.send(forebay_testkit::client::request_text("GET", "/page", &[NAVIGATE]));
    eventually("the hint is sent", || server.stat("early_hints_total") == 1.0);
    gate.open();
    let response = client.response("GET").expect("it is answered");
    assert_eq!((response.status, response.text()), (200, "page".to_owned()));
    assert_eq!(links(&response), ["link: </a.css>; rel=preload; as=style"]);
    for fields in [&[][..], &["Sec-Fetch-Mode: cors"], &[NAVIGATE, "If-None-Match: \"a\""]] {
        assert_eq!(links(&ask(&server, fields)), Vec::<String>::new(), "{fields:?}");
    }
    assert_eq!(server.stat("early_hints_total"), 1.0);
    let server = ServerBuilder::new(PROGRAM).origin(&origin).start();
    for _ in 0..2 {
        assert_eq!(links(&ask(&server, &[NAVIGATE])), Vec::<String>::new(), "off by default");
    }
}
