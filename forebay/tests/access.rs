//! Routes that serve only some client addresses.

use std::net::IpAddr;

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder};

/// Starts a server with these lines for its site, and the origin of the site. The server trusts the
/// proxy 127.0.0.9.
fn serve(lines: &str) -> (Origin, Server) {
    let origin =
        Origin::start(|_| Script::answer("200 OK", &["Cache-Control: max-age=60"], b"hello"));
    let text = format!(
        "trusted_proxies = [\"127.0.0.9\"]\n\
         [[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{}\"\n{lines}",
        origin.address()
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&text).start();
    (origin, server)
}

#[test]
fn a_route_serves_the_addresses_of_its_lists_whether_its_response_is_stored_or_not() {
    let (origin, server) = serve(
        "deny_from = [\"127.0.0.4\", \"198.51.100.0/24\"]\n\
         [[site.route]]\npath_prefix = \"/admin\"\n\
         allow_from = [\"127.0.0.0/30\", \"127.0.0.4\", \"2001:db8::/32\"]\n\
         deny_from = [\"127.0.0.2\"]\n\
         [[site.route]]\npath_prefix = \"/open\"\ndeny_from = []\n",
    );
    let cases = [
        ("/", 1, "", 200),
        ("/", 4, "", 403),
        ("/open", 4, "", 200),
        ("/admin", 1, "", 200),
        ("/admin", 2, "", 403),
        ("/admin", 3, "", 200),
        ("/admin", 4, "", 200),
        ("/admin", 5, "", 403),
        ("/admin", 5, "127.0.0.1", 403),
        ("/admin", 9, "", 403),
        ("/admin", 9, "127.0.0.1", 200),
        ("/admin", 9, "127.0.0.1, 127.0.0.5", 403),
        ("/admin", 9, "2001:db8:1::1", 200),
        ("/", 9, "198.51.100.7", 403),
        ("/", 9, "198.51.101.7", 200),
    ];
    // In the second round, each response of the origin is stored.
    for round in 1..=2 {
        for (target, from, forwarded, status) in cases {
            let from = IpAddr::from([127, 0, 0, from]);
            let mut client = Client::connect_from(from, server.address());
            let field = format!("X-Forwarded-For: {forwarded}");
            // A refusal does not end the connection.
            for _ in 0..2 {
                let response = client.ask("GET", target, &[&field]).expect("an answer");
                assert_eq!(response.status, status, "{round}: {target} {from} {forwarded}");
                let is_told = response.text().contains("not allowed here");
                assert_eq!(is_told, status == 403, "{target} {from}: {}", response.text());
            }
        }
    }
    let refused = cases.iter().filter(|case| case.3 == 403).count() * 4;
    assert_eq!(server.stat("addresses_refused_total"), refused as f64);
    assert_eq!(origin.request_count(), 3, "one request for each route");
}

/// A route that permits the address of a proxy does not thereby permit the proxy's clients.
#[test]
fn a_client_that_its_proxy_does_not_state_gets_no_access_by_the_address_of_the_proxy() {
    let (_origin, server) = serve(
        "purge_from = [\"127.0.0.9\", \"127.0.0.1\"]\n\
         [[site.route]]\npath_prefix = \"/admin\"\n\
         allow_from = [\"127.0.0.9\", \"127.0.0.1\"]\n\
         [[site.route]]\npath_prefix = \"/shut\"\ndeny_from = [\"198.51.100.7\"]\n",
    );
    let too_many = format!("198.51.100.7{}", ", 127.0.0.9".repeat(32));
    let malformed = ["unknown", "198.51.100.7, unknown", &too_many];
    let mut client = Client::connect_from([127, 0, 0, 9].into(), server.address());
    let mut status = |method: &str, target: &str, forwarded: &str| {
        let field = format!("X-Forwarded-For: {forwarded}");
        client.ask(method, target, &[&field]).expect("an answer").status
    };
    for (method, target) in [("GET", "/admin"), ("GET", "/shut"), ("PURGE", "/")] {
        // The first response is stored, and a hit is refused like a miss.
        assert_eq!(status(method, target, "127.0.0.1"), 200, "{method} {target}");
        for forwarded in malformed {
            assert_eq!(status(method, target, forwarded), 403, "{method} {target} {forwarded}");
        }
    }
    assert!(malformed.iter().all(|forwarded| status("GET", "/", forwarded) == 200));
    assert_eq!(server.stat("addresses_refused_total"), 6.0);
    assert_eq!(server.stat("forwarded_for_malformed_total"), 12.0);
}

/// docs/access.md says which spellings of a path its list covers.
#[test]
fn a_list_covers_the_spellings_of_a_path_but_not_another_case() {
    let (_origin, server) =
        serve("[[site.route]]\npath_prefix = \"/admin\"\nallow_from = [\"127.0.0.9\"]\n");
    for (target, is_refused) in [
        ("/admin", true),
        ("/admin/", true),
        ("/admin?a", true),
        ("//admin/", true),
        ("/%61dmin/", true),
        ("/x/../admin/", true),
        ("/x/..%2fadmin", true),
        ("/Admin/", false),
        ("/administrator", false),
    ] {
        let mut client = Client::connect(server.address());
        let status = client.ask("GET", target, &[]).expect("an answer").status;
        assert_eq!(matches!(status, 400 | 403), is_refused, "{target}: {status}");
    }
}
