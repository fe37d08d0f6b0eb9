//! Routes that have origins of their own.

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A site with this origin.
fn site(origin: &Origin) -> String {
    let url = url(origin);
    format!("[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {url:?}\n")
}

fn route(path_prefix: &str, lines: &str) -> String {
    format!("[[site.route]]\npath_prefix = {path_prefix:?}\n{lines}\n")
}

fn serve(config: &str) -> Server {
    ServerBuilder::new(PROGRAM).config(config).flag("--workers", "1").start()
}

fn url(origin: &Origin) -> String {
    format!("http://{}", origin.address())
}

fn ask(server: &Server, target: &str) -> Response {
    Client::connect(server.address()).ask("GET", target, &[]).expect("whole")
}

/// An origin whose responses are storable and have this body.
fn answering(body: &'static [u8]) -> Origin {
    Origin::start(move |_| Script::answer("200 OK", &["Cache-Control: max-age=60"], body))
}

#[test]
fn the_requests_of_a_route_go_to_its_origins() {
    let (main, api, spare) = (answering(b"main"), answering(b"api"), answering(b"spare"));
    let (api_url, spare_url) = (url(&api), url(&spare));
    let lines = format!("origin = [{api_url:?}, {{ url = {spare_url:?}, backup = true }}]");
    let server = serve(&format!("{}{}", site(&main), route("/api", &lines)));
    assert_eq!(
        (ask(&server, "/").body, ask(&server, "/api/1").body),
        (b"main".into(), b"api".into())
    );
    eventually("both are stored", || server.stat("stored_total") >= 2.0);
    assert_eq!(
        (ask(&server, "/").body, ask(&server, "/api/1").body),
        (b"main".into(), b"api".into())
    );
    assert_eq!((main.request_count(), api.request_count(), spare.request_count()), (1, 1, 0));

    let api_authority = api.address().to_string();
    let metrics = server.metrics();
    let line = |route: &str, origin: &str| {
        format!("forebay_site_origin_requests_total{{site=\"a\"{route},origin=\"{origin}\"}} 1\n")
    };
    assert!(metrics.contains(&line("", &main.address().to_string())), "{metrics}");
    assert!(metrics.contains(&line(",route=\"/api\"", &api_authority)), "{metrics}");
    let explained = server.command(&["explain", "http://x/api/2"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains(&format!("{api_authority}, {}", spare.address())), "{explained}");

    // An origin that refuses connections: the request goes on within the group of the route.
    api.stop();
    assert_eq!(ask(&server, "/api/3").body, b"spare");
    assert_eq!((ask(&server, "/api/4").body, main.request_count()), (b"spare".into(), 1));
    assert!(server.stat("origin_failovers_total") >= 1.0);
    let down = format!("site \"a\", route /api, origin {api_authority}: no address of the origin");
    eventually("the event names site, route and origin", || server.errors().contains(&down));
}

#[test]
fn the_groups_of_a_site_share_its_retries() {
    let bad: Vec<_> = (0..4).map(|_| Origin::start(|_| Script::new().reset())).collect();
    let origins = |of: &[Origin]| format!("{:?}", of.iter().map(url).collect::<Vec<_>>());
    let routes = |group: &[Origin]| {
        let route = |path: &str| route(path, &format!("origin = {}", origins(group)));
        [route("/1"), route("/2"), route("/3"), route("/4")].concat()
    };
    let head =
        format!("[[site]]\nname = \"a\"\nnames = [\"*\"]\norigin = {}\n", origins(&bad[..2]));
    let server = serve(&format!("cache = false\n{head}{}", routes(&bad[2..])));
    let started_ms = server.stat("uptime_ms");
    for number in 0..200 {
        assert_eq!(ask(&server, &format!("/{}/x", number % 5)).status, 502);
    }
    let seconds = (server.stat("uptime_ms") - started_ms) / 1000.0;
    // While the other origin of a group is left out, a request is repeated at the same one.
    let again = server.stat("origin_failovers_total") + server.stat("origin_retries_total");
    let allowed = 20.0 + 20.0 + seconds + 1.0;
    assert!((20.0..=allowed).contains(&again), "{again} requests were repeated, {allowed} may be");
}

#[test]
fn a_site_needs_no_origin_if_its_routes_have_some() {
    let api = answering(b"api");
    let lines = format!("origin = {:?}", url(&api));
    let config = format!(
        "[[site]]\nname = \"a\"\nnames = [\"*\"]\nrespond = \"404 nothing here\"\n{}",
        route("/api", &lines)
    );
    let server = serve(&config);
    assert_eq!((ask(&server, "/").status, ask(&server, "/api").body), (404, b"api".into()));
    // A request without a host gets that of the origin to which it goes.
    let mut client = Client::connect(server.address());
    assert!(client.send("GET /api/old HTTP/1.0\r\n\r\n"));
    assert_eq!(client.response("GET").expect("whole").body, b"api");
    let request = api.requests_below("/api/old").remove(0);
    assert_eq!(request.head.field("host"), Some(api.address().to_string().as_str()));
}

#[test]
fn the_origins_of_a_route_are_checked_as_its_site_or_itself_says() {
    let (main, api, other) = (Origin::echo(), Origin::echo(), Origin::echo());
    let config = format!(
        "health_path = \"/up\"\nhealth_interval_ms = \"1s\"\n{}{}{}",
        site(&main),
        route("/api", &format!("origin = {:?}", url(&api))),
        route("/other", &format!("origin = {:?}\nhealth_path = \"/ok\"", url(&other))),
    );
    let _server = serve(&config);
    eventually("all are checked", || {
        main.count("/up") > 0 && api.count("/up") > 0 && other.count("/ok") > 0
    });
    assert_eq!(other.count("/up"), 0);
}

#[test]
fn a_reload_changes_the_origin_of_a_route_and_keeps_stored_responses() {
    let (main, old, new) = (answering(b"main"), answering(b"old"), answering(b"new"));
    let config = |origin: &Origin| {
        let lines = format!("origin = {:?}", url(origin));
        format!("{}{}", site(&main), route("/api", &lines))
    };
    let server = serve(&config(&old));
    assert_eq!(ask(&server, "/api/1").body, b"old");
    eventually("it is stored", || server.stat("stored_total") >= 1.0);
    server.write_config(&config(&new));
    let reloaded = server.command(&["reload", "--wait"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert_eq!(
        (ask(&server, "/api/1").body, ask(&server, "/api/2").body),
        (b"old".into(), b"new".into())
    );
    assert_eq!(main.request_count(), 0);
}

#[test]
fn the_check_of_the_surroundings_includes_the_origins_of_routes() {
    let (main, gone) = (Origin::echo(), Origin::echo());
    let (authority, lines) = (gone.address().to_string(), format!("origin = {:?}", url(&gone)));
    gone.stop();
    let builder = ServerBuilder::bare(PROGRAM, "check");
    let text = format!("{}{}", site(&main), route("/api", &lines));
    let file = builder.path("forebay.toml");
    std::fs::write(&file, text).expect("the folder is writable");
    let file = file.to_str().expect("UTF-8").to_owned();
    let output = builder.switch("--resolve").switch(&file).run();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let expected = format!("site \"a\", route /api, origin {authority}: cannot connect");
    assert!(!output.status.success() && text.contains(&expected), "{text}");
}

#[test]
fn a_rule_that_moves_a_request_to_another_route_bypasses_the_cache() {
    let (main, api) = (answering(b"main"), answering(b"api"));
    let builder = ServerBuilder::new(PROGRAM);
    let path = builder.path("strip.rules");
    std::fs::write(&path, "cond %{REMAP_PSEUDO_HOOK}\nset-destination PATH x\n").expect("written");
    let lines = format!("origin = {:?}\nrules = [{path:?}]", url(&api));
    let added = format!("origin_add_prefix = \"/v2\"\nrules = [{path:?}]");
    let routes = [route("/api", &lines), route("/old", &added)].concat();
    let config = format!("{}{routes}", site(&main));
    let server = builder.config(&config).flag("--workers", "1").start();
    let old = ask(&server, "/old/x");
    assert!(old.field("cache-status").expect("a status").ends_with("detail=other-origin"));
    assert_eq!((main.count("/v2/x"), server.stat("stored_total")), (1, 0.0));
    for _ in 0..2 {
        let moved = ask(&server, "/api/x");
        assert_eq!(moved.text(), "api");
        let status = moved.field("cache-status").expect("a Cache-Status");
        assert!(status.ends_with("fwd=bypass; fwd-status=200; detail=other-origin"), "{status}");
        assert_eq!(ask(&server, "/x").text(), "main", "the API's response was stored for /x");
        eventually("the page is stored", || server.stat("stored_total") == 1.0);
    }
    assert_eq!((main.request_count(), api.request_count()), (2, 2));
    assert_eq!(server.stat("reason_other_origin_total"), 3.0);
    for (target, expected) in [
        ("/api/x", "other-origin"),
        ("/old/x", "the origin gets /v2/x"),
        ("/old/y", "other-origin"),
    ] {
        let explained = server.command(&["explain", &format!("http://x{target}")]);
        let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
        assert!(explained.contains(expected), "{explained}");
    }
}
