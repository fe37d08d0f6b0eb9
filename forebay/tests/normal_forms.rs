//! The normal form of requests over real sockets: the key and the request to the origin are made
//! from the same form, so that a stored response belongs to the request that the origin got.

use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};

/// Sorts the query, drops counting parameters, and keeps one cookie and two languages.
const SETTINGS: &str = "sort_query = true\n\
    drop_query = [\"utm_*\", \"fbclid\"]\n\
    keep_cookies = [\"theme\"]\n\
    languages = [\"en\", \"de\"]\n\
    bypass_cookies = [\"session\"]\n\
    purge_from = [\"127.0.0.1\"]\n";

/// An origin whose responses repeat the request, and vary by language and cookies.
fn origin() -> Origin {
    Origin::start(|request| {
        let fields = ["Cache-Control: max-age=60", "Vary: Accept-Language, Cookie"];
        Script::answer("200 OK", &fields, asked(request).as_bytes())
    })
}

fn asked(request: &Request) -> String {
    let field = |name| request.head.field(name).unwrap_or("none");
    format!("{} {} {}", request.target, field("accept-language"), field("cookie"))
}

fn start(origin: &Origin, settings: &str) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    builder.config(&config(origin, settings)).flag("--workers", "1").start()
}

fn config(origin: &Origin, settings: &str) -> String {
    let site = "[[site]]\nname = \"a\"\nnames = [\"*\"]\n";
    format!("{site}origin = \"http://{}\"\n{settings}", origin.address())
}

/// Reloads a server with other settings.
fn reload(server: &Server, origin: &Origin, settings: &str) {
    server.write_config(&config(origin, settings));
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    let mut client = Client::connect(server.address());
    client.ask(method, target, fields).expect("an answer")
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

/// Each row is a request and the form in which the origin gets it. Whichever request of a form
/// comes first, the others get its response.
#[test]
fn requests_of_one_form_share_the_response_that_the_origin_gave_to_this_form() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("/x?a=1&b=2", &[], "/x?a=1&b=2 none none"),
        ("/x?b=2&a=1", &[], "/x?a=1&b=2 none none"),
        ("/x?utm_source=m&b=2&fbclid=7&a=1&", &[], "/x?a=1&b=2 none none"),
        ("/x?a=2&a=1", &[], "/x?a=2&a=1 none none"),
        ("/x?a=1&utm_x&a=2", &[], "/x?a=1&a=2 none none"),
        ("/x", &[], "/x none none"),
        ("/x?", &[], "/x none none"),
        ("/x?utm_campaign=1", &[], "/x none none"),
        ("/x?%75tm_a=1", &[], "/x?%75tm_a=1 none none"),
        ("/y", &["Accept-Language: de"], "/y de none"),
        ("/y", &["Accept-Language: fr, de-AT;q=0.9, en;q=0.2"], "/y de none"),
        ("/y", &["Accept-Language: en-US, de;q=0.9"], "/y en none"),
        ("/y", &["Accept-Language: fr"], "/y none none"),
        ("/y", &[], "/y none none"),
        ("/y", &["Cookie: _ga=1; theme=dark"], "/y none theme=dark"),
        ("/y", &["Cookie: theme=dark; _ga=2", "Cookie: b=3"], "/y none theme=dark"),
        ("/y", &["Cookie: _ga=3"], "/y none none"),
        ("/y?fbclid", &["Cookie: theme=dark", "Accept-Language: DE"], "/y de theme=dark"),
    ];
    for is_reversed in [false, true] {
        let (origin, mut order) = (origin(), cases.to_vec());
        if is_reversed {
            order.reverse();
        }
        let server = start(&origin, SETTINGS);
        let mut forms = Vec::new();
        for (target, fields, form) in order {
            let response = ask(&server, "GET", target, fields);
            assert_eq!(response.text(), form, "{target} {fields:?}");
            assert_eq!(is_hit(&response), forms.contains(&form), "{target} {fields:?}");
            forms.push(form);
        }
        let mut received: Vec<_> = origin.requests().iter().map(asked).collect();
        received.sort_unstable();
        forms.sort_unstable();
        forms.dedup();
        assert_eq!(received, forms, "the origin gets each form once");
        assert!(server.stat("requests_normalised_total") > 8.0);
    }
}

#[test]
fn only_parameters_that_are_named_are_kept() {
    let (origin, settings) = (origin(), "keep_query = [\"id\", \"p*\"]\ndrop_query = [\"px\"]\n");
    let server = start(&origin, settings);
    let cases = [
        ("/x?z=1&page=2&id=3&px=4", "/x?page=2&id=3", false),
        ("/x?page=2&id=3&zz", "/x?page=2&id=3", true),
        ("/x?id=3&page=2", "/x?id=3&page=2", false),
        ("/x?z", "/x", false),
    ];
    for (target, form, hits) in cases {
        let response = ask(&server, "GET", target, &["Cookie: a=b", "Accept-Language: fr"]);
        assert_eq!(response.text(), format!("{form} fr a=b"), "{target}");
        assert_eq!(is_hit(&response), hits, "{target}");
    }
    let server = start(&origin, "keep_query = []\nkeep_cookies = []\n");
    let response = ask(&server, "GET", "/y?a&b", &["Cookie: a=b"]);
    assert_eq!(response.text(), "/y none none");
}

/// Names of cookies and parameters are compared with the names in the settings, and each comparison
/// takes time. A request with very many names is forwarded unchanged, and its response is not
/// stored.
#[test]
fn requests_with_very_many_names_bypass_the_cache() {
    let origin = origin();
    let server = start(&origin, SETTINGS);
    let many = |name: &str, between: &str, count: usize| vec![name; count].join(between);
    let cookies = |text: &str, count: usize| format!("Cookie: {}", many(text, ";", count));
    let parameters = |count: usize| format!("/x?{}", many("utm_a", "&", count));
    let cases = [
        (parameters(512), cookies("a", 1), None),
        (parameters(513), cookies("a", 1), Some("many-parameters")),
        (format!("/x?{}", many("=", "&", 2_000)), cookies("a", 1), Some("many-parameters")),
        ("/x".to_owned(), cookies("a", 256), None),
        ("/x".to_owned(), cookies("a", 257), Some("many-cookies")),
        ("/x".to_owned(), cookies("=", 2_000), Some("many-cookies")),
        ("/x".to_owned(), format!("{};session", cookies("a", 300)), Some("many-cookies")),
        ("/x".to_owned(), format!("{};session", cookies("a", 9)), Some("bypass-cookie")),
    ];
    ask(&server, "GET", "/x", &[]);
    for (target, cookies, reason) in cases {
        let response = ask(&server, "GET", &target, &[&cookies]);
        let case = format!("{target:.20}, {cookies:.20}: {:?}", response.head);
        assert_eq!(is_hit(&response), reason.is_none(), "{case}");
        let status = response.field("cache-status").expect("every response has one");
        let detail = reason.map(|reason| format!("fwd=bypass; fwd-status=200; detail={reason}"));
        assert!(detail.is_none_or(|detail| status.ends_with(&detail)), "{case}");
        if reason.is_some() {
            let received = origin.requests().pop().expect("it was forwarded");
            let cookies = cookies.strip_prefix("Cookie: ");
            assert_eq!((received.target, received.head.field("cookie")), (target, cookies));
        }
    }
}

/// A Cookie field is not a list: a comma belongs to a value, and origins differ in how they read
/// two lines. Each row gets the response to its own lines.
#[test]
fn requests_with_other_cookies_never_share_a_variant() {
    let origin = Origin::start(|request| {
        let lines: Vec<_> = request.head.all("cookie").collect();
        let fields = ["Cache-Control: max-age=60", "Vary: Cookie"];
        Script::answer("200 OK", &fields, lines.join("|").as_bytes())
    });
    let server = start(&origin, "");
    let cases: &[(&[&str], &str)] = &[
        (&["Cookie: role=user", "Cookie: x=1"], "role=user|x=1"),
        (&["Cookie: role=user, x=1"], "role=user, x=1"),
        (&["Cookie: role=user; x=1"], "role=user; x=1"),
        (&["Cookie: cart=1,2"], "cart=1,2"),
        (&["Cookie: cart=1, 2"], "cart=1, 2"),
    ];
    for hits in [false, true] {
        for (fields, lines) in cases {
            let response = ask(&server, "GET", "/", fields);
            assert_eq!((&*response.text(), is_hit(&response)), (*lines, hits), "{fields:?}");
        }
    }
}

#[test]
fn requests_are_forwarded_as_they_are_by_default() {
    let origin = origin();
    let server = start(&origin, "");
    let fields = ["Cookie: b=1;a=2", "Accept-Language: fr, de;q=0.5"];
    for hits in [false, true] {
        let response = ask(&server, "GET", "/x?b&a&utm_x=1&", &fields);
        assert_eq!(response.text(), "/x?b&a&utm_x=1& fr, de;q=0.5 b=1;a=2");
        assert_eq!(is_hit(&response), hits);
    }
    assert_eq!(server.stat("requests_normalised_total"), 0.0);
}

/// A request whose response is never shared is forwarded unchanged.
#[test]
fn requests_that_bypass_the_cache_are_forwarded_as_they_are() {
    let origin = origin();
    let server = start(&origin, SETTINGS);
    let fields = ["Cookie: _ga=1; session=2", "Accept-Language: fr, de"];
    let response = ask(&server, "GET", "/x?utm_a&b&a", &fields);
    assert_eq!(response.text(), "/x?utm_a&b&a fr, de _ga=1; session=2");
    let response = ask(&server, "POST", "/x?b&utm_a&a", &["Cookie: _ga=1", "Content-Length: 0"]);
    assert_eq!(response.text(), "/x?b&utm_a&a none _ga=1");
    let response = ask(&server, "GET", "/x?utm_a&b&a", &["Cookie: _ga=1"]);
    assert_eq!(response.text(), "/x?a&b none none");
    assert!(!is_hit(&response));
}

#[test]
fn a_url_is_purged_and_invalidated_in_its_normal_form() {
    let origin = Origin::start(|request| {
        let location = "Content-Location: /x?utm_b&b=2&a=1";
        let fields = match request.target.as_str() {
            "/form" => ["Cache-Control: no-store", location],
            _ => ["Cache-Control: max-age=60", "X: y"],
        };
        Script::answer("200 OK", &fields, request.target.as_bytes())
    });
    let server = start(&origin, SETTINGS);
    let fill = || {
        ask(&server, "GET", "/x?a=1&b=2", &[]);
        let response = ask(&server, "GET", "/x?b=2&a=1", &[]);
        assert!(is_hit(&response));
    };
    let is_gone = |how: &str| {
        let response = ask(&server, "GET", "/x?a=1&b=2&utm_c", &[]);
        assert!(!is_hit(&response), "{how}");
        assert_eq!(response.text(), "/x?a=1&b=2");
    };
    fill();
    let purged = server.command(&["purge", "http://example.test/x?utm_a=1&b=2&a=1"]);
    assert!(purged.status.success(), "{purged:?}");
    is_gone("a purge by URL");
    fill();
    let purged = ask(&server, "PURGE", "/x?b=2&utm_a&a=1", &[]);
    assert_eq!(purged.status, 200);
    is_gone("PURGE");
    fill();
    ask(&server, "POST", "/x?b=2&a=1&fbclid=1", &["Content-Length: 0"]);
    is_gone("POST");
    fill();
    ask(&server, "POST", "/form", &["Content-Length: 0"]);
    is_gone("Content-Location");
}

/// A purge also removes a response that was stored before the settings changed: it could be served
/// again after they change back.
#[test]
fn a_purge_reaches_a_response_that_other_settings_have_stored() {
    let origin = origin();
    let server = start(&origin, "purge_from = [\"127.0.0.1\"]\n");
    ask(&server, "GET", "/x?utm_a&b", &[]);
    assert!(is_hit(&ask(&server, "GET", "/x?utm_a&b", &[])));
    reload(&server, &origin, SETTINGS);
    assert!(!is_hit(&ask(&server, "GET", "/x?utm_a&b", &[])));
    ask(&server, "PURGE", "/x?utm_a&b", &[]);
    reload(&server, &origin, "");
    assert!(!is_hit(&ask(&server, "GET", "/x?utm_a&b", &[])), "it was purged");
}

/// A response that was stored before the settings changed may have the URL of another normal form.
/// Only a purge by prefix removes such a response.
#[test]
fn a_purge_by_prefix_reaches_every_form_of_a_query() {
    let origin = origin();
    let (one, two) = ("drop_query = [\"utm_*\"]\n", "drop_query = [\"utm_*\", \"gclid\"]\n");
    let server = start(&origin, one);
    let target = "/x?utm_a&gclid=1";
    for (purge, is_purged) in [("url", false), ("prefix", true)] {
        reload(&server, &origin, one);
        ask(&server, "GET", target, &[]);
        assert!(is_hit(&ask(&server, "GET", target, &[])), "{purge}");
        reload(&server, &origin, two);
        let purged = match purge {
            "url" => server.command(&["purge", &format!("http://example.test{target}")]),
            _ => server.command(&["purge", "--prefix", "http://example.test/x"]),
        };
        assert!(purged.status.success(), "{purged:?}");
        reload(&server, &origin, one);
        assert_eq!(is_hit(&ask(&server, "GET", target, &[])), !is_purged, "{purge}");
    }
}

/// Requests with equivalent codings share a response, so the origin gets a form that does not
/// depend on the request that came first. A request that shares no response is forwarded unchanged.
#[test]
fn the_origin_gets_the_codings_in_the_form_in_which_variants_are_compared() {
    let origin = Origin::start(|request| {
        let codings = request.head.all("accept-encoding").collect::<Vec<_>>().join("|");
        let fields = ["Cache-Control: max-age=60", "Vary: Accept-Encoding"];
        Script::answer("200 OK", &fields, codings.as_bytes())
    });
    let server = start(&origin, "");
    let cases: &[(&str, &[&str], &str, bool)] = &[
        ("GET", &["Accept-Encoding: GZIP;q=1.0, br"], "br, gzip", false),
        ("GET", &["Accept-Encoding: br", "Accept-Encoding: gzip"], "br, gzip", true),
        ("GET", &["Accept-Encoding: gzip;level=9, br"], "gzip;level=9, br", false),
        ("POST", &["Accept-Encoding: GZIP, br", "Content-Length: 0"], "GZIP, br", false),
    ];
    for (method, fields, expected, hits) in cases {
        let response = ask(&server, method, "/", fields);
        assert_eq!(response.text(), *expected, "{fields:?}");
        assert_eq!(is_hit(&response), *hits, "{fields:?}");
    }
}
