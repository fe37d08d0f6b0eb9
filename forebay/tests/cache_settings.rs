//! Settings of routes that decide about storing, freshness and reuse, and the settings of
//! Cache-Status, over real sockets.

use forebay_testkit::clock::http_date;
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

#[test]
fn variants_max_limits_the_stored_responses_of_a_url_with_and_without_vary() {
    let varies = ["Cache-Control: max-age=60", "Vary: X-A"];
    let origin = Origin::start(move |request| match request.head.has("x-a") {
        true => Script::answer("200 OK", &varies, b"x"),
        false => Script::answer("200 OK", MINUTE, b"x"),
    });
    for (variants_max, still_stored) in [(1, [false, false]), (2, [false, true]), (3, [true; 2])] {
        let site = site(&origin, "");
        let server = start(&format!("variants_max = {variants_max}\n{site}"));
        let asks: [&[&str]; 3] = [&["X-A: 1"], &["X-A: 2"], &[]];
        asks.iter().for_each(|fields| _ = ask(&server, "/", fields));
        for (fields, is_stored) in asks.iter().zip(still_stored) {
            let fields = [fields, &["Cache-Control: only-if-cached"][..]].concat();
            let listed = ask(&server, "/", &fields);
            // The response without Vary answers in place of a variant that has left the cache.
            assert_eq!(listed.head.has("vary"), is_stored, "{variants_max} {fields:?}");
        }
    }
}

#[test]
fn the_heuristic_is_an_hour_at_most_and_shows_in_cache_status() {
    let modified = format!("Last-Modified: {}", http_date(-10_000_000));
    let origin = Origin::start(move |_| Script::answer("200 OK", &[&modified], b"x"));
    let server = start(&site(&origin, ""));
    let first = ask(&server, "/", &[]);
    assert!(cache_status(&first).ends_with("; stored; detail=heuristic"), "{first:?}");
    let hit = ask(&server, "/", &[]);
    let ttl = cache_status(&hit).strip_prefix("forebay; hit; ttl=");
    let ttl = ttl.and_then(|rest| rest.strip_suffix("; detail=heuristic")?.parse().ok());
    assert!(ttl.is_some_and(|ttl: u32| (3585..=3600).contains(&ttl)), "{hit:?}");
}

/// A response that sets a cookie is stored without the cookie, and keeps the origin's lifetime.
#[test]
fn the_settings_do_not_lengthen_the_lifetime_of_a_response_that_sets_a_cookie() {
    let modified = format!("Last-Modified: {}", http_date(-10_000_000));
    for (setting, control) in [
        ("override_freshness_s = \"7d\"", "max-age=1"),
        ("default_freshness_s = \"7d\"", "public"),
        ("status_freshness = [\"200=7d\"]", "public"),
        ("heuristic_percent = 50", "public"),
    ] {
        let fields = [format!("Cache-Control: {control}"), modified.clone()];
        let origin = Origin::start(move |request| {
            let [control, modified] = &fields;
            if request.head.has("if-modified-since") {
                let head = format!("{control}\r\n{modified}\r\nAge: 1\r\n\r\n");
                return Script::new().send(format!("HTTP/1.1 304 Not Modified\r\n{head}"));
            }
            Script::answer("200 OK", &[control, modified, "Age: 1", "Set-Cookie: a=b"], b"x")
        });
        let server = start(&site(&origin, &format!("{setting}\n")));
        ask(&server, "/", &[]);
        // The second answer is the first 304, which has no cookie.
        for _ in 0..2 {
            let again = ask(&server, "/", &[]);
            let status = cache_status(&again);
            assert!(status.contains("; fwd=stale; fwd-status=304"), "{setting}: {status}");
        }
    }
}

#[test]
fn an_error_is_stored_for_the_time_of_its_status() {
    let origin = Origin::start(|request| match request.target.as_str() {
        "/missing" => Script::answer("404 Not Found", &[], b"none"),
        "/busy" => Script::answer("503 Service Unavailable", &[], b"busy"),
        _ => Script::answer("503 Service Unavailable", &["Cache-Control: no-store"], b"never"),
    });
    let server = start(&site(&origin, "status_freshness = [\"404=1m\", \"503=30s\"]\n"));
    for (target, status, is_stored) in
        [("/missing", 404, true), ("/busy", 503, true), ("/never", 503, false)]
    {
        for _ in 0..3 {
            assert_eq!(ask(&server, target, &[]).status, status, "{target}");
        }
        assert_eq!(origin.count(target), if is_stored { 1 } else { 3 }, "{target}");
    }
}

#[test]
fn requests_with_certain_cookies_or_fields_bypass_the_cache() {
    let origin = Origin::start(|request| {
        let body = if request.head.has("cookie") { "own" } else { "page" };
        Script::answer("200 OK", MINUTE, body.as_bytes())
    });
    let server = start(&site(
        &origin,
        "bypass_cookies = [\"session\", \"wp_logged_in_*\"]\nbypass_fields = [\"X-Preview\"]\n",
    ));
    ask(&server, "/", &["Cookie: session=1"]);
    let stored = ask(&server, "/", &[]);
    assert!(cache_status(&stored).contains("fwd=uri-miss"), "the bypass was stored: {stored:?}");
    let cases = [
        ("Cookie: a=b; session=1", Some("bypass-cookie")),
        ("Cookie: session", Some("bypass-cookie")),
        ("Cookie: a=b;wp_logged_in_8f=x", Some("bypass-cookie")),
        ("Cookie: wp_logged_in; xsession=2; a=session; sess=ion; sessions=1", None),
        ("Cookie: Session=1", Some("bypass-cookie")),
        ("Cookie: a=b, session=1", Some("bypass-cookie")),
        ("Cookie: wp.logged in[1]=x", Some("bypass-cookie")),
        ("Cookie: session[id]=1", Some("bypass-cookie")),
        ("Cookie: sess%69on=1", Some("bypass-cookie")),
        ("x-preview:", Some("bypass-field")),
        ("X-Previews: 1", None),
    ];
    for (field, detail) in cases {
        let response = ask(&server, "/", &[field]);
        let expected = match detail {
            Some(detail) => format!("forebay; fwd=bypass; fwd-status=200; detail={detail}"),
            None => "forebay; hit".to_owned(),
        };
        assert!(cache_status(&response).starts_with(&expected), "{field}: {response:?}");
    }
    assert_eq!(ask(&server, "/", &[]).text(), "page");
}

/// The reason is in Cache-Status, and in one counter for each reason.
#[test]
fn every_request_that_is_not_answered_from_the_cache_has_its_reason() {
    let origin = Origin::start(|request| match request.target.as_str() {
        "/private" => Script::answer("200 OK", &["Cache-Control: private"], b"page"),
        "/302" => Script::answer("302 Found", &["Location: /"], b""),
        _ => Script::answer("200 OK", MINUTE, b"page"),
    });
    let server = start(&format!(
        "{}[[site.route]]\npath_prefix = \"/off\"\ncache = false\n",
        site(&origin, "content_of_get = true\n")
    ));
    let cases: &[(&str, &[&str], &str)] = &[
        ("/private", &[], "fwd=uri-miss; fwd-status=200; detail=private"),
        ("/private", &[], "fwd=uri-miss; fwd-status=200; detail=declined-private"),
        ("/302", &[], "fwd=uri-miss; fwd-status=302; detail=no-freshness"),
        ("/302", &[], "fwd=uri-miss; fwd-status=302; detail=declined-no-freshness"),
        ("/off", &[], "fwd=bypass; fwd-status=200; detail=cache-off"),
        ("/", &["If-Match: *"], "fwd=bypass; fwd-status=200; detail=precondition"),
        (
            "/",
            &["Connection: X-A", "X-A: b"],
            "fwd=bypass; fwd-status=200; detail=connection-fields",
        ),
        ("/", &["Cache-Control: no-store"], "fwd-status=200; detail=request-no-store"),
    ];
    for (target, fields, expected) in cases {
        let response = ask(&server, target, fields);
        let status = cache_status(&response);
        assert!(status.ends_with(expected), "{target} {fields:?}: {status}");
    }
    let mut client = Client::connect(server.address());
    let head = client.ask("HEAD", "/", &[]).expect("a head");
    assert!(
        cache_status(&head).ends_with("fwd=uri-miss; fwd-status=200; detail=method"),
        "{head:?}"
    );
    for (reason, count) in
        [("private", 1.0), ("declined", 2.0), ("cache_off", 1.0), ("method", 1.0)]
    {
        assert_eq!(server.stat(&format!("reason_{reason}_total")), count, "{reason}");
    }
}

#[test]
fn a_client_cannot_refuse_a_fresh_response_if_its_wish_is_ignored() {
    let origin = Origin::start(|_| Script::answer("200 OK", MINUTE, b"page"));
    for (setting, word) in [("", "fwd=request"), ("ignore_client_no_cache = true\n", "hit")] {
        let server = start(&site(&origin, setting));
        ask(&server, "/", &[]);
        for field in [
            "Cache-Control: no-cache",
            "Cache-Control: max-age=0",
            "Pragma: no-cache",
            "Cache-Control: min-fresh=99",
        ] {
            let response = ask(&server, "/", &[field]);
            let status = cache_status(&response);
            assert!(status.split("; ").any(|part| part == word), "{setting} {field}: {status}");
        }
    }
}

/// Returns a configuration with one site that has these settings.
fn site(origin: &Origin, settings: &str) -> String {
    let address = origin.address();
    format!("[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = \"http://{address}\"\n{settings}")
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
