//! A client cannot choose its route by the spelling of a path.

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

/// Paths that some origin takes for `/private/page`, and a plain match of prefixes does not.
const DISGUISES: &[&str] = &[
    "//private/page",
    "/./private/page",
    "/x/../private/page",
    "/%70rivate/page",
    "/private%2fpage",
    "/private%2Fpage",
    "/%2fprivate/page",
    "/x/..%2fprivate/page",
    "/x%2f..%2fprivate%2fpage",
    "/x/%2e%2e/private/page",
    "/x/.%2E/private/page",
    "/x%252f%252e%252e%252fprivate%252fpage",
    "/%2570rivate/page",
    "/\\private/page",
    "/private\\page",
    "/x%5c..%5cprivate%5cpage",
    "/private;x/page",
    "/x/..;/private/page",
    "/private%00/page",
    "/private%3f/page",
    "/private%23/page",
];

/// Paths of the route `/private/` that some origin takes for `/page`, which is stored for all.
const ESCAPES: &[&str] = &[
    "/private/../page",
    "/private/..%2fpage",
    "/private/%2e%2e/page",
    "/private/%2e%2e%2fpage",
    "/private/..\\page",
    "/private/..%5cpage",
    "/private/..;/page",
    "/private/x/%2e./.%2e/page",
];

/// Returns the path that an origin finds after it has decoded a path and removed every trace of
/// its spelling.
fn resolve(target: &str) -> String {
    let mut path = target.split('?').next().unwrap_or_default().to_ascii_lowercase();
    for _ in 0..2 {
        for (code, text) in [
            ("%25", "%"),
            ("%2e", "."),
            ("%2f", "/"),
            ("%5c", "\\"),
            ("%70", "p"),
            ("%00", ""),
            ("%3f", ""),
            ("%23", ""),
        ] {
            path = path.replace(code, text);
        }
    }
    let mut segments = Vec::new();
    for segment in path.replace('\\', "/").split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name.to_owned()),
        }
    }
    format!("/{}", segments.join("/"))
}

/// An origin that finds pages by their resolved path, and calls each response storable. A private
/// page names its reader.
fn lenient_origin() -> Origin {
    Origin::start(|request| {
        let path = resolve(&request.target);
        let reader = request.head.field("x-reader").unwrap_or("none");
        let body = match path.starts_with("/private") {
            true => format!("{path} of {reader}"),
            false => path,
        };
        Script::answer("200 OK", &["Cache-Control: max-age=60"], body.as_bytes())
    })
}

fn config(origin: &Origin, of_server: &str, of_route: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\n{of_server}\n\
         [[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://{}\"\n\
         [[site.route]]\npath_prefix = \"/private\"\ncache = false\n{of_route}\n\
         [[site.route]]\npath_prefix = \"/static/\"\n",
        origin.address()
    )
}

fn start(origin: &Origin, of_server: &str, of_route: &str) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    builder.config(&config(origin, of_server, of_route)).start()
}

fn ask(server: &Server, method: &str, target: &str, reader: &str) -> Response {
    let reader = format!("X-Reader: {reader}");
    Client::connect(server.address()).ask(method, target, &[&reader]).expect("an answer")
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").unwrap_or_default().contains("hit")
}

#[test]
fn a_private_page_is_not_stored_under_a_disguised_path() {
    let origin = lenient_origin();
    let server = start(&origin, "", "");
    for path in DISGUISES {
        assert!(resolve(path).starts_with("/private"), "{path}");
        let victim = ask(&server, "GET", path, "alice");
        assert!(victim.text().contains("can be read as a path of another route"), "{path}");
        let attacker = ask(&server, "GET", path, "mallory");
        assert!(!attacker.text().contains("alice"), "{path}: {}", attacker.text());
        assert_eq!((victim.status, attacker.status), (400, 400), "{path}");
    }
    assert_eq!(origin.request_count(), 0);
    assert_eq!(server.stat("requests_refused_total"), 2.0 * DISGUISES.len() as f64);
}

#[test]
fn a_path_that_leads_out_of_its_route_is_refused() {
    let origin = lenient_origin();
    let server = start(&origin, "", "");
    ask(&server, "GET", "/page", "alice");
    for path in ESCAPES {
        assert_eq!(resolve(path), "/page", "{path}");
        assert_eq!(ask(&server, "GET", path, "mallory").status, 400, "{path}");
    }
    assert!(is_hit(&ask(&server, "GET", "/page", "bob")));
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn a_refused_path_ends_neither_the_connection_nor_the_next_request() {
    let origin = lenient_origin();
    let server = start(&origin, "", "");
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("GET", "//private/page", &[]).expect("an answer").status, 400);
    assert_eq!(client.ask("GET", "/page", &[]).expect("an answer").text(), "/page");
}

#[test]
fn a_path_whose_readings_agree_is_forwarded_and_stored_as_it_was_sent() {
    let origin = lenient_origin();
    let server = start(&origin, "", "");
    for path in [
        "/a//b",
        "/a/./b",
        "/a/../b",
        "/caf%c3%a9",
        "/a%2Fb",
        "/a;v=1",
        "/.well-known/x",
        "/static/../static/x",
        "/static/a%20b",
        "/x?next=/../private/page&y=%2fprivate",
    ] {
        let first = ask(&server, "GET", path, "alice");
        assert_eq!((first.status, origin.count(path)), (200, 1), "{path}");
        assert!(is_hit(&ask(&server, "GET", path, "bob")), "{path}");
    }
    for path in ["/private/a%20b", "/private//page", "/private/./page", "/private/x/../page"] {
        assert!(!is_hit(&ask(&server, "GET", path, "alice")), "{path}");
        assert!(!is_hit(&ask(&server, "GET", path, "bob")), "{path}");
        assert_eq!(origin.count(path), 2, "{path}");
    }
}

#[test]
fn the_normal_form_decides_the_route_where_ambiguous_paths_are_allowed() {
    let origin = lenient_origin();
    let server = start(&origin, "ambiguous_path = \"normal-form\"", "");
    for path in ["//private/page", "/./private/page", "/x/../private/page", "/%70rivate/page"] {
        for reader in ["alice", "mallory"] {
            let response = ask(&server, "GET", path, reader);
            assert_eq!(response.text(), format!("/private/page of {reader}"), "{path}");
            assert!(!is_hit(&response), "{path}");
        }
        assert_eq!(origin.count(path), 2, "{path}");
    }
    // The normal form keeps an encoded slash: the operator has said that the origin does so too.
    ask(&server, "GET", "/x%2f..%2fy", "alice");
    assert!(is_hit(&ask(&server, "GET", "/x%2f..%2fy", "bob")));
}

#[test]
fn a_strict_route_stays_strict_where_other_routes_relax() {
    let origin = lenient_origin();
    let (relaxed, strict) = ("ambiguous_path = \"normal-form\"", "ambiguous_path = \"refuse\"");
    let server = start(&origin, relaxed, strict);
    for path in DISGUISES.iter().chain(ESCAPES) {
        assert_eq!(ask(&server, "GET", path, "mallory").status, 400, "{path}");
    }
    assert_eq!(ask(&server, "GET", "/x/../static/page", "alice").text(), "/static/page");
    // A reload applies the setting.
    server.write_config(&config(&origin, "", ""));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(ask(&server, "GET", "/x/../static/page", "alice").status, 400);
}

#[test]
fn a_path_with_endless_readings_is_refused() {
    let origin = lenient_origin();
    let server = start(&origin, "", "");
    let path = "/%2561\\%255c;a;%253b/./%252e/..%252f//%2f\\..%00%253f/%2525252e".repeat(9);
    assert_eq!(ask(&server, "GET", &path, "mallory").status, 400);
}

#[test]
fn a_path_that_rules_have_changed_is_routed_as_they_left_it() {
    let origin = lenient_origin();
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let rules = "cond %{READ_REQUEST_HDR_HOOK}\ncond %{CLIENT-URL:PATH} =old\n\
                 set-destination PATH x/..%2fprivate/page\n";
    std::fs::write(builder.path("early.rules"), rules).expect("the folder is ours");
    let server = builder.config(&config(&origin, "rules = \"early.rules\"", "")).start();
    assert_eq!(ask(&server, "GET", "/old", "alice").status, 400);
    assert_eq!(ask(&server, "GET", "/new", "alice").status, 200);
}

#[test]
fn a_purge_of_a_disguised_path_is_refused_and_operators_still_reach_its_key() {
    let origin = lenient_origin();
    let purge = "purge_from = [\"127.0.0.1\"]";
    let relaxed = format!("ambiguous_path = \"normal-form\"\n{purge}");
    let server = start(&origin, &relaxed, "");
    let path = "/x%2f..%2fprivate";
    ask(&server, "GET", path, "alice");
    assert!(is_hit(&ask(&server, "GET", path, "alice")));
    server.write_config(&config(&origin, purge, ""));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(ask(&server, "GET", path, "alice").status, 400);
    assert_eq!(ask(&server, "PURGE", path, "alice").status, 400);
    let url = format!("http://example.test{path}");
    let listed = server.command(&["ls", "--prefix", &url]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(path), "{listed:?}");
    let purged = server.command(&["purge", &url]);
    assert!(purged.status.success(), "{purged:?}");
    server.write_config(&config(&origin, &relaxed, ""));
    assert!(server.command(&["reload"]).status.success());
    assert!(!is_hit(&ask(&server, "GET", path, "alice")));
}

/// A path of a route by itself: neither the pages below it nor other spellings belong to it.
#[test]
fn an_exact_path_wins_over_prefixes_and_has_no_pages_below_it() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"of the origin"));
    let text = format!(
        "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n\
         [[site.route]]\npath = '/'\nrespond = '200 start'\n\
         [[site.route]]\npath = '/shop'\nrespond = '200 shop'\n\
         [[site.route]]\npath = '/shop/caf%C3%A9'\nrespond = '200 cafe'\n\
         [[site.route]]\npath_prefix = '/shop'\nrespond = '200 below'\n",
        origin.address()
    );
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&text).start();
    let mut client = Client::connect(server.address());
    for (target, body) in [
        ("/", "start"),
        ("/?x=/shop", "start"),
        ("/other", "of the origin"),
        ("/shop", "shop"),
        ("/shop?x", "shop"),
        ("/shop/", "below"),
        ("/shop/x", "below"),
        ("/shop/caf%C3%A9?x", "cafe"),
        ("/shop/caf%C3%A9/x", "below"),
        ("/shopping", "of the origin"),
    ] {
        let answer = client.ask("GET", target, &[]).expect("an answer");
        assert_eq!((answer.status, &*answer.text()), (200, body), "{target}");
    }
    for target in ["//shop", "/sh%6fp", "/x/../shop", "/shop;x", "/shop%3fx"] {
        let mut client = Client::connect(server.address());
        assert_eq!(client.ask("GET", target, &[]).expect("an answer").status, 400, "{target}");
    }
    let explained = server.command(&["explain", "http://a/shop"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("/shop (only this path)"), "{explained}");
}

/// Paths that some origin takes for `/x.php`, and of which the end as it was sent is another.
const DISGUISED_ENDS: &[&str] = &[
    "/x.ph%70",
    "/x%2ephp",
    "/x.php%00.jpg",
    "/x.php%3f.jpg",
    "/x.php%23.jpg",
    "/x.php%0a",
    "/x.php;.jpg",
    "/x%252ephp",
];

fn regex_site(origin: &Origin, lines: &str) -> String {
    format!(
        "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n{lines}\n",
        origin.address()
    )
}

#[test]
fn a_private_page_of_a_regex_route_is_not_stored_under_a_disguised_path() {
    let origin = lenient_origin();
    let (prefix, regex) = ("path_prefix = \"/private\"", "path_regex = '^/private(/|$)'");
    let text = config(&origin, "", "").replace(prefix, regex);
    let text = text.replace("\"/static/\"", "\"/static/\"\nbefore_regex = true");
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&text).start();
    for path in DISGUISES.iter().chain(ESCAPES) {
        assert_eq!(ask(&server, "GET", path, "mallory").status, 400, "{path}");
    }
    assert_eq!(origin.request_count(), 0);
    for reader in ["alice", "bob"] {
        let page = ask(&server, "GET", "/private/page?x", reader);
        assert_eq!(page.text(), format!("/private/page of {reader}"));
    }
    ask(&server, "GET", "/page", "alice");
    assert!(is_hit(&ask(&server, "GET", "/page", "bob")));
}

#[test]
fn a_regex_route_refuses_a_client_whatever_the_spelling_of_the_end() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"of the origin"));
    let closed = "[[site.route]]\npath_regex = '\\.php$'\ndeny_from = ['127.0.0.1']";
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .config(&regex_site(&origin, closed))
        .start();
    for (path, status) in [("/x.php", 403), ("/x.php?.jpg", 403), ("/x.jpg?.php", 200)] {
        assert_eq!(ask(&server, "GET", path, "mallory").status, status, "{path}");
    }
    for path in DISGUISED_ENDS {
        assert_eq!(ask(&server, "GET", path, "mallory").status, 400, "{path}");
    }
    assert_eq!(origin.request_count(), 1);
    let relaxed = format!("ambiguous_path = \"normal-form\"\n{}", regex_site(&origin, closed));
    server.write_config(&relaxed);
    assert!(server.command(&["reload"]).status.success());
    for path in ["/x.ph%70", "/x%2ephp", "/a.jpg/../x.php"] {
        assert_eq!(ask(&server, "GET", path, "mallory").status, 403, "{path}");
    }
    assert_eq!(origin.request_count(), 1);
}

#[test]
fn the_first_regex_that_matches_has_a_path_between_single_paths_and_prefixes() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"of the origin"));
    let lines = "[[site.route]]\npath_prefix = '/shop'\nrespond = '200 shop'\n\
                 before_regex = false\n\
                 [[site.route]]\npath_prefix = '/account'\nbefore_regex = true\ncache = false\n\
                 [[site.route]]\npath_regex = '\\.(jpg|png)$'\ndefault_freshness_s = '1h'\n\
                 [[site.route]]\npath_regex = '^/shop/.*\\.jpg$'\nrespond = '200 never'\n\
                 [[site.route]]\npath_regex = '(?i)\\.PHP$'\nrespond = '200 php'\n\
                 [[site.route]]\npath = '/shop/logo.png'\nrespond = '200 logo'\n";
    let server = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
        .config(&regex_site(&origin, lines))
        .start();
    for (path, body) in [
        ("/shop/x", "shop"),
        ("/shop/x.css?a.jpg", "shop"),
        ("/shop/a.jpg", "of the origin"),
        ("/shop/logo.png", "logo"),
        ("/index.pHp", "php"),
        ("/other", "of the origin"),
    ] {
        assert_eq!(ask(&server, "GET", path, "alice").text(), body, "{path}");
    }
    // The settings of the route apply: only its responses are stored without Cache-Control.
    ask(&server, "GET", "/shop/b.jpg", "alice");
    eventually("the image is stored", || server.stat("stored_total") >= 2.0);
    assert!(is_hit(&ask(&server, "GET", "/shop/b.jpg", "bob")));
    for path in ["/other", "/account/b.jpg"] {
        ask(&server, "GET", path, "alice");
        assert!(!is_hit(&ask(&server, "GET", path, "bob")), "{path}");
    }
    for (path, line) in [
        ("/shop/b.jpg", "\\.(jpg|png)$ (regular expression)"),
        ("/shop/b.jpg", "this is the first regular expression that matches"),
        ("/account/b.jpg", "the longest prefix wins, because it has before_regex"),
        ("/shop/logo.png", "a single path wins over regular expressions"),
    ] {
        let explained = server.command(&["explain", &format!("http://a{path}")]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.contains(line), "{explained}");
    }
}
