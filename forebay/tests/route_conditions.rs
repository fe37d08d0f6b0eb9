//! Routes for some requests of their paths: `methods`, `with_fields`, `with_query` and
//! `with_cookies`.

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

const EMPTY: &str = "Content-Length: 0";

/// An origin whose storable responses show the request.
fn echo(name: &'static str) -> Origin {
    Origin::start(move |request| {
        let body = format!("{name} {} {}", request.method, request.target);
        Script::answer("200 OK", &["Cache-Control: max-age=60"], body.as_bytes())
    })
}

fn config(origin: &Origin, lines: &str) -> String {
    format!(
        "workers = 1\npurge_from = ['127.0.0.1']\n\
         [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n{lines}\n",
        origin.address()
    )
}

fn start(origin: &Origin, lines: &str) -> Server {
    ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).config(&config(origin, lines)).start()
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, target, fields).expect("an answer")
}

fn is_hit(response: &Response) -> bool {
    response.field("cache-status").unwrap_or_default().contains("hit")
}

fn stored(server: &Server, count: f64) {
    eventually("the responses are stored", || server.stat("stored_total") >= count);
}

#[test]
fn a_request_has_the_first_route_of_its_path_whose_conditions_it_meets() {
    let origin = echo("main");
    let route = "[[site.route]]\npath_prefix = '/b'\n";
    let lines = format!(
        "{route}cache = false\n\
         {route}methods = ['POST', 'GET']\nwith_fields = ['X-Api=2', 'X-Key']\n\
         respond = '200 api'\n\
         {route}with_query = ['v=2', 'w']\nrespond = '200 query'\n\
         {route}with_cookies = ['beta']\nrespond = '200 beta'\n\
         {route}methods = ['POST', 'PROPFIND']\nrespond = '200 methods'\n\
         [[site.route]]\npath = '/b/only'\nmethods = ['PUT']\nrespond = '200 one path'\n\
         [[site.route]]\npath_regex = '/b/x$'\nmethods = ['PUT']\nrespond = '200 regex'\n"
    )
    .replace("'/b'\n", "'/b'\nbefore_regex = false\n");
    let server = start(&origin, &lines);
    for (method, target, field, expected) in [
        ("GET", "/b?v=2&w", "A: b", "query"),
        ("GET", "/b/c?w=x&v=2", "A: b", "query"),
        ("GET", "/b?v=3&w", "A: b", "main GET /b?v=3&w"),
        ("GET", "/b?v=2", "A: b", "main GET /b?v=2"),
        ("GET", "/b?V=2&W", "A: b", "main GET /b?V=2&W"),
        ("GET", "/b", "Cookie: x=1; Beta=2", "beta"),
        ("GET", "/b", "Cookie: x=beta", "main GET /b"),
        ("GET", "/b?v=2&w", "Cookie: beta", "query"),
        ("GET", "/b", "x-api: 2\r\nX-KEY: a", "api"),
        ("GET", "/b", "x-api: 3\r\nx-api: 2\r\nX-KEY: a", "api"),
        ("GET", "/b", "x-api: 2", "main GET /b"),
        ("POST", "/b", "x-api: 2\r\nX-KEY: a", "api"),
        ("POST", "/b?v=2&w", "A: b", "query"),
        ("POST", "/b", "A: b", "methods"),
        ("PROPFIND", "/b", "A: b", "methods"),
        ("PUT", "/b", "A: b", "main PUT /b"),
        ("PUT", "/b/only", "A: b", "one path"),
        ("GET", "/b/only", "A: b", "main GET /b/only"),
        ("POST", "/b/only", "A: b", "methods"),
        ("PUT", "/b/x", "A: b", "regex"),
        ("GET", "/b/x", "A: b", "main GET /b/x"),
        ("POST", "/c", "A: b", "main POST /c"),
    ] {
        let fields = if method == "GET" { vec![field] } else { vec![field, EMPTY] };
        let response = ask(&server, method, target, &fields);
        assert_eq!(response.text(), expected, "{method} {target} {field}");
    }
    assert_eq!(
        ask(&server, "HEAD", "/b", &["x-api: 2", "x-key: a"]).field("content-length"),
        Some("3")
    );
}

#[test]
fn routes_of_one_url_share_no_stored_response() {
    let (origin, other) = (echo("main"), echo("other"));
    let lines = format!(
        "[[site.route]]\npath_prefix = '/b'\nkeep_query = ['q']\n\
         [[site.route]]\npath_prefix = '/b'\nwith_fields = ['X-Api=2']\n\
         origin = 'http://{0}'\ndefault_freshness_s = '1h'\n\
         [[site.route]]\npath_prefix = '/b'\nmethods = ['POST']\norigin = 'http://{0}'\n",
        other.address()
    );
    let server = start(&origin, &lines);
    let api = &["X-Api: 2"][..];
    // A request of a route with conditions stores nothing, and is told why.
    let first = ask(&server, "GET", "/b?x&q=1", api);
    assert_eq!(first.text(), "other GET /b?x&q=1");
    let status = first.field("cache-status").expect("a Cache-Status");
    assert!(status.contains("fwd=bypass") && status.contains("detail=cache-off"), "{status}");
    assert_eq!(ask(&server, "GET", "/b?x&q=1", &[]).text(), "main GET /b?q=1");
    stored(&server, 1.0);
    // The stored response answers GET and HEAD without the field, and no request with it.
    for (method, fields, expected) in [
        ("GET", &["X-Api: 1"][..], true),
        ("HEAD", &[], true),
        ("GET", api, false),
        ("HEAD", api, false),
        ("GET", &[], true),
    ] {
        let response = ask(&server, method, "/b?q=1&y", fields);
        assert_eq!(is_hit(&response), expected, "{method} {fields:?}");
    }
    // PURGE has the route of GET, whatever its fields, and so has the command.
    assert_eq!(ask(&server, "PURGE", "/b?q=1&z", api).status, 200);
    assert_eq!(origin.request_count(), 1);
    assert!(!is_hit(&ask(&server, "GET", "/b?q=1", &[])));
    stored(&server, 2.0);
    assert!(is_hit(&ask(&server, "GET", "/b?q=1", &[])));
    // A POST to another origin removes the response to GET, in the normal form of its route.
    let posted = ask(&server, "POST", "/b?q=1&y", &[EMPTY]);
    assert_eq!(posted.text(), "other POST /b?q=1&y");
    assert!(!is_hit(&ask(&server, "GET", "/b?q=1", &[])));
    stored(&server, 3.0);
    assert!(is_hit(&ask(&server, "GET", "/b?q=1", &[])));
    let purged = server.command(&["purge", "http://example.test/b?q=1&y"]);
    assert!(purged.status.success(), "{purged:?}");
    assert!(!is_hit(&ask(&server, "GET", "/b?q=1", &[])));
    stored(&server, 4.0);
}

#[test]
fn no_reading_of_a_path_leads_around_a_route_with_conditions() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"of the origin"));
    let lines = "[[site.route]]\npath_prefix = '/admin'\nmethods = ['POST']\n\
                 deny_from = ['127.0.0.1']\n\
                 [[site.route]]\npath_prefix = '/open'\nwith_query = ['admin']\n\
                 deny_from = ['127.0.0.1']\n";
    let server = start(&origin, lines);
    for (method, target, expected) in [
        ("POST", "/admin", 403),
        ("GET", "/admin", 200),
        ("GET", "/open?admin=1", 403),
        ("GET", "/open?x=admin", 200),
        ("POST", "/x/..%2fadmin", 400),
        ("POST", "//admin/x", 400),
        ("POST", "/%61dmin/x", 400),
        // The origin could take the end of these paths for the query.
        ("GET", "/open%3fadmin", 400),
        ("GET", "/open%253Fadmin", 400),
        // No route of this path depends on the query.
        ("GET", "/x%3fadmin?b", 200),
        // These paths lead to the same route for every method and query.
        ("GET", "/x%41", 200),
        ("GET", "/open/%41?admin", 403),
    ] {
        assert_eq!(ask(&server, method, target, &[EMPTY]).status, expected, "{method} {target}");
    }
    // An encoded `?` in the path of a relaxed route is served, even if the route has conditions.
    let lines = "ambiguous_path = 'normal-form'\n\
                 [[site.route]]\npath_prefix = '/'\nwith_query = ['q']\n\
                 [[site.route]]\npath_prefix = '/strict'\nambiguous_path = 'refuse'\n\
                 with_query = ['q']\n";
    server.write_config(&config(&origin, lines));
    assert!(server.command(&["reload"]).status.success());
    for (target, expected) in
        [("/wiki/What%3F", 200), ("/strict/What%3F", 400), ("/x/..%2fstrict%3Fq", 400)]
    {
        assert_eq!(ask(&server, "GET", target, &[]).status, expected, "{target}");
    }
}

#[test]
fn cookies_are_read_as_any_origin_may_read_them_and_only_so_many() {
    let origin = echo("main");
    let lines = "[[site.route]]\npath_prefix = '/'\nwith_cookies = ['beta=1']\n\
                 respond = '200 beta'\n\
                 [[site.route]]\npath_prefix = '/'\nwith_cookies = ['list=a,b']\n\
                 respond = '200 list'\n\
                 [[site.route]]\npath_prefix = '/'\nwith_query = ['v=2']\n\
                 respond = '200 query'\n";
    let server = start(&origin, lines);
    let main = "main GET /";
    let many = |count: usize| format!("Cookie: {}", "; ".repeat(count));
    for (fields, expected) in [
        (&["Cookie: a=1, beta=1"][..], "beta"),
        (&["Cookie: beta =1"], "beta"),
        (&["Cookie: beta = 1 ;a"], "beta"),
        (&["Cookie: be%74a=1"], "beta"),
        (&["Cookie: a=1", "Cookie: b=2; Beta=1"], "beta"),
        (&["Cookie: list=a,b"], "list"),
        (&["Cookie: beta=1,2"], "beta"),
        (&["Cookie: beta=12"], main),
        (&["Cookie: a=beta=1"], main),
        (&["Cookie: alphabeta=1"], main),
        (&["Cookie: list=a"], main),
        // Of more cookies than are compared, one might be the one of the condition.
        (&[&many(255)[..]], main),
        (&[&many(256)[..]], "beta"),
    ] {
        assert_eq!(ask(&server, "GET", "/", fields).text(), expected, "{fields:?}");
    }
    let target = format!("/?{}", "&".repeat(511));
    assert_eq!(ask(&server, "GET", &target, &[]).text(), format!("main GET {target}"));
    assert_eq!(ask(&server, "GET", &format!("{target}&"), &[]).text(), "query");
}

#[test]
fn a_cookie_does_not_relax_the_paths_of_a_route_that_refuses_ambiguous_ones() {
    let origin = echo("main");
    let lines = "ambiguous_path = 'normal-form'\n\
                 [[site.route]]\npath_prefix = '/basket'\ncache = false\n\
                 ambiguous_path = 'refuse'\n\
                 [[site.route]]\npath_prefix = '/basket'\nwith_cookies = ['beta=1']\n";
    let strict = format!("{lines}ambiguous_path = 'refuse'\n");
    let server = start(&origin, &strict);
    for fields in [&["Cookie: beta=1"][..], &[]] {
        let response = ask(&server, "GET", "/x/..%2fbasket", fields);
        assert_eq!(response.status, 400, "{fields:?}");
    }
    assert_eq!(ask(&server, "GET", "/x/..%2fbask", &["Cookie: beta=1"]).status, 200);
    // Without the setting in both routes, the page of one client could be stored for all.
    server.write_config(&config(&origin, lines));
    let reloaded = server.command(&["reload"]);
    let errors = String::from_utf8_lossy(&reloaded.stderr).into_owned();
    assert!(!reloaded.status.success() && errors.contains("another `ambiguous_path`"), "{errors}");
}

#[test]
fn a_parameter_does_not_lead_around_a_restriction() {
    let origin = echo("main");
    let lines = "[[site.route]]\npath_prefix = '/account'\ndeny_from = ['127.0.0.1']\n\
                 [[site.route]]\npath = '/account'\nwith_query = ['lang']\n";
    let server = start(&origin, &format!("{lines}deny_from = ['127.0.0.1']\n"));
    for target in ["/account", "/account?lang"] {
        assert_eq!(ask(&server, "GET", target, &[]).status, 403, "{target}");
    }
    server.write_config(&config(&origin, lines));
    let reloaded = server.command(&["reload"]);
    let errors = String::from_utf8_lossy(&reloaded.stderr).into_owned();
    assert!(!reloaded.status.success() && errors.contains("another `deny_from`"), "{errors}");
}

#[test]
fn a_rule_that_moves_a_request_stores_it_only_for_a_route_with_the_same_origins() {
    let (origin, other) = (echo("main"), echo("other"));
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"));
    let path = builder.path("move.rules");
    std::fs::write(&path, "cond %{REMAP_PSEUDO_HOOK}\nset-header X-Api 2\n").expect("written");
    let lines = format!(
        "rules = [{path:?}]\n\
         [[site.route]]\npath_prefix = '/'\nwith_fields = ['X-Api']\norigin = 'http://{}'\n",
        other.address()
    );
    let server = builder.config(&config(&origin, &lines)).start();
    // The rule adds the field when the route is known: the response belongs to the route without.
    for (fields, expected, hits) in [
        (&[][..], "main GET /x", false),
        (&[], "main GET /x", true),
        (&["X-Api: 1"], "other GET /x", false),
    ] {
        let response = ask(&server, "GET", "/x", fields);
        assert_eq!((response.text().as_ref(), is_hit(&response)), (expected, hits), "{fields:?}");
        stored(&server, 1.0);
    }
    assert_eq!(server.stat("reason_other_origin_total"), 0.0);
}

#[test]
fn explain_shows_the_route_and_why_the_request_has_it() {
    let origin = echo("main");
    let lines = "[[site.route]]\npath_prefix = '/b'\nmethods = ['POST']\n\
                 [[site.route]]\npath_prefix = '/b'\nwith_fields = ['X-Api=2']\n";
    let server = start(&origin, lines);
    let explain = |arguments: &[&str]| {
        let output = server.command(&[&["explain"], arguments].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (arguments, lines) in [
        (
            &["http://a/b", "-H", "X-Api: 2"][..],
            &["/b, field X-Api=2", "the request meets the conditions of this", "cache-off"][..],
        ),
        (&["http://a/b/c", "--method", "POST"], &["/b, method POST", "meets the conditions"]),
        (&["http://a/b"], &["does not meet the conditions of /b, method POST"]),
        (&["http://a/b", "--json"], &["does not meet the conditions of /b, method POST"]),
    ] {
        let shown = explain(arguments);
        for line in lines {
            assert!(shown.contains(line), "{arguments:?}: {shown}");
        }
    }
    assert!(!explain(&["http://a/c"]).contains("conditions"));
}
