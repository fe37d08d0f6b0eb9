//! Routes that ask for a user name and a password.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// `ann:secret` with bcrypt, `bob:secret` with SHA-crypt.
const USERS: &str = "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n\
    bob:$6$rounds=1000$saltstring$2BkAo106CG84raQcWpAlhyy6TSSkAsL1nfvBCoezLYyerUzY2l8axTvq6NynEt\
    7SQAx3/cdop9ds0po8uaeHq0\n";

/// The same users; `ann` has a hash of high cost.
const SLOW_USERS: &str = "ann:$2b$09$abcdefghijklmnopqrstuuHGaj8X0gyV0nNYEM.J5pTQDq3AfkM3W\n\
    bob:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";

const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==";
const BOB: &str = "Authorization: basic  Ym9iOnNlY3JldA==";
/// `ann:wrong`
const WRONG: &str = "Authorization: Basic YW5uOndyb25n";
/// `eve:secret`
const UNKNOWN: &str = "Authorization: Basic ZXZlOnNlY3JldA==";

/// An origin whose responses every cache may store, and whose body has the Authorization field that
/// it got.
fn origin() -> Origin {
    Origin::start(|request| {
        let got = request.head.field("authorization").unwrap_or("nothing").to_owned();
        let fields: &[&str] = match request.head.start.contains("/plain") {
            true => &["Cache-Control: max-age=60"],
            false => &[
                "Cache-Control: public, max-age=60, s-maxage=60",
                "CDN-Cache-Control: public, max-age=600",
                "X-CDN-Cache-Control: max-age=600",
                "X-Accel-Expires: 600",
            ],
        };
        Script::answer("200 OK", fields, got.as_bytes())
    })
}

fn write_users(path: &Path, text: &str) {
    fs::write(path, text).expect("it is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is owned");
}

/// Starts a server whose site has these lines. In them, `FILE` stands for a file with these users.
fn serve(origin: &Origin, users_text: &str, lines: &str) -> Server {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let users = builder.path("users");
    write_users(&users, users_text);
    let text = format!(
        "access_log = '{}'\n\
         [[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n{}",
        builder.path("access.log").display(),
        origin.address(),
        lines.replace("FILE", &users.display().to_string())
    );
    builder.config(&text).start()
}

fn lines<'a>(answer: &'a Response, name: &'a str) -> Vec<&'a str> {
    answer.head.all(name).collect()
}

fn status(server: &Server, method: &str, target: &str, fields: &[&str]) -> u16 {
    let mut client = Client::connect(server.address());
    client.ask(method, target, fields).expect("an answer").status
}

/// Fields of requests that are no user's.
const REFUSED: &[&[&str]] = &[
    &[],
    &[WRONG],
    &[UNKNOWN],
    &[ANN, ANN],
    &["Authorization: Bearer YW5uOnNlY3JldA=="],
    &["Authorization: Basic"],
    &["Authorization: Basic YW5u"],
    &["Authorization: Basic YW5uOnNlY3JldA"],
    // `ann:secret` and a NUL
    &["Authorization: Basic YW5uOnNlY3JldAA="],
    &["Proxy-Authorization: Basic YW5uOnNlY3JldA=="],
];

#[test]
fn only_users_are_served_and_all_of_them_by_one_stored_response() {
    let origin = origin();
    let mut server = serve(
        &origin,
        USERS,
        "purge_from = ['127.0.0.1']\n\
         [[site.route]]\npath_prefix = '/admin'\nbasic_auth = 'FILE'\n\
         basic_auth_realm = 'the shop'\n\
         [[site.route]]\npath_prefix = '/admin/open'\nbasic_auth = 'off'\n\
         [[site.route]]\npath_prefix = '/admin/old'\nbasic_auth = 'FILE'\nredirect = '302 /admin'\n\
         basic_auth_realm = 'the shop'\n\
         [[site.route]]\npath_prefix = '/tls'\nbasic_auth = 'FILE'\nhttps_redirect_port = 443\n",
    );
    // The password is not asked for in the clear.
    assert_eq!(status(&server, "GET", "/tls", &[]), 308);
    // In the second round, the response is stored.
    for _ in 0..2 {
        for fields in REFUSED {
            for (method, target) in [
                ("GET", "/admin"),
                ("HEAD", "/admin/x"),
                ("PURGE", "/admin"),
                ("GET", "/admin/old"),
            ] {
                let mut client = Client::connect(server.address());
                let answer = client.ask(method, target, fields).expect("an answer");
                assert_eq!(answer.status, 401, "{method} {target} {fields:?}");
                let challenge = "Basic realm=\"the shop\", charset=\"UTF-8\"";
                assert_eq!(answer.field("www-authenticate"), Some(challenge));
                assert_eq!(answer.field("cache-control"), Some("private, no-store"), "{method}");
                // The connection stays open.
                assert_eq!(client.ask("GET", "/admin/open", &[]).expect("it is").status, 200);
            }
        }
        for user in [ANN, BOB] {
            let mut client = Client::connect(server.address());
            let answer = client.ask("GET", "/admin", &[user]).expect("an answer");
            assert_eq!((answer.status, &*answer.text()), (200, "nothing"), "{user}");
            assert_eq!(lines(&answer, "cache-control"), ["private, max-age=60"], "{user}");
            for name in ["cdn-cache-control", "x-cdn-cache-control", "x-accel-expires"] {
                assert_eq!(answer.field(name), None, "{name}");
            }
            assert_eq!(status(&server, "GET", "/admin/old", &[user]), 302);
        }
    }
    assert_eq!(origin.count("/admin"), 1, "one response serves all users");
    let open = Client::connect(server.address()).ask("GET", "/admin/open", &[]).expect("it is");
    assert_eq!(open.field("cdn-cache-control"), Some("public, max-age=600"));
    // Each user is checked once, and wrong passwords each time.
    assert_eq!(server.stat("password_checks_total"), 2.0 + 16.0);
    assert_eq!(server.stat("passwords_wrong_total"), 16.0);
    assert_eq!(server.stat("credentials_missing_total"), 64.0);
    for target in ["//admin", "/%61dmin", "/x/../admin", "/x/..%2fadmin", "/admin;x"] {
        let status = status(&server, "GET", target, &[]);
        assert!(matches!(status, 400 | 401), "{target}: {status}");
    }
    assert_eq!(status(&server, "PURGE", "/admin", &[ANN]), 200);
    let log = server.path("access.log");
    assert!(server.stop().is_some_and(|status| status.success()));
    let log = fs::read_to_string(log).expect("a log");
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!((count("\"user\":\"ann\""), count("\"user\":\"bob\"")), (5, 4));
    assert_eq!(count("the user name or the password is wrong"), 16);
}

/// The password of a request without TLS is not checked, so the redirect comes before the rules.
#[test]
fn no_rule_answers_a_request_without_tls_in_place_of_the_redirect() {
    let origin = origin();
    let builder = ServerBuilder::new(PROGRAM);
    let (users, rules) = (builder.path("users"), builder.path("a.rules"));
    write_users(&users, USERS);
    let text = "cond %{REMAP_PSEUDO_HOOK}\nset-status 200\nset-body \"for users only\"\n";
    fs::write(&rules, text).expect("it is written");
    let server = builder
        .config(&format!(
            "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n\
             rules = '{}'\nbasic_auth = '{}'\n\
             [[site.route]]\npath_prefix = '/tls'\nhttps_redirect_port = 443\n",
            origin.address(),
            rules.display(),
            users.display(),
        ))
        .start();
    for method in ["GET", "HEAD", "POST", "PURGE"] {
        assert_eq!(status(&server, method, "/tls", &[]), 308, "{method}");
    }
    assert_eq!(status(&server, "GET", "/tls", &[ANN]), 308);
    assert_eq!(status(&server, "GET", "/", &[]), 401);
    assert_eq!(status(&server, "GET", "/", &[ANN]), 200);
    let shown = server.command(&["explain", "http://a/tls"]).stdout;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("https_redirect_port"), "{shown}");
}

#[test]
fn an_origin_that_knows_its_users_gets_the_field_and_decides_about_storing() {
    let origin = origin();
    let server = serve(&origin, USERS, "basic_auth = 'FILE'\nbasic_auth_forward = true\n");
    for (target, requests) in [("/plain", 4), ("/public", 1)] {
        for user in [ANN, BOB, ANN, BOB] {
            let mut client = Client::connect(server.address());
            let answer = client.ask("GET", target, &[user]).expect("an answer");
            assert_eq!(answer.status, 200);
            assert_eq!(lines(&answer, "cache-control").len(), 1, "{target}");
            if target == "/plain" {
                assert!(user.ends_with(&*answer.text()), "{user} {}", answer.text());
            }
        }
        assert_eq!(origin.count(target), requests, "{target}");
        assert_eq!(status(&server, "GET", target, &[WRONG]), 401);
    }
}

#[test]
fn a_reload_reads_the_users_again() {
    let origin = origin();
    let server = serve(&origin, USERS, "basic_auth = 'FILE'\n");
    let all = || [ANN, BOB].map(|user| status(&server, "GET", "/", &[user]));
    assert_eq!(all(), [200, 200]);
    let users = server.path("users");
    let only_bob = USERS.lines().last().expect("a line");
    write_users(&users, only_bob);
    assert_eq!(all(), [200, 200], "until the reload");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(all(), [401, 200]);
    // An unknown user is compared with the hash of the first one, even if it was once the user's.
    let hash = USERS.lines().next().expect("a line").split_once(':').expect("a hash").1;
    write_users(&users, &format!("first:{hash}\neve:{hash}\n"));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(status(&server, "GET", "/", &[UNKNOWN]), 200, "eve is a user");
    write_users(&users, &format!("first:{hash}\n{only_bob}\n"));
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(status(&server, "GET", "/", &[UNKNOWN]), 401, "eve is none any more");
    // A file that cannot be used changes nothing.
    write_users(&users, &format!("{only_bob}\nann:secret\n"));
    let reload = server.command(&["reload"]);
    assert!(!reload.status.success());
    let told = String::from_utf8_lossy(&reload.stderr).into_owned()
        + &String::from_utf8_lossy(&reload.stdout);
    for part in ["line 2", "\"ann\"", "`htpasswd -B "] {
        assert!(told.contains(part) || server.errors().contains(part), "{part}: {told}");
    }
    assert_eq!(all(), [401, 200]);
    // Other users of the machine could read the hashes.
    fs::write(&users, USERS).expect("it is written");
    fs::set_permissions(&users, fs::Permissions::from_mode(0o644)).expect("it is owned");
    assert!(server.command(&["reload"]).status.success());
    eventually("it is reported", || server.errors().contains("chmod 600"));
}

/// The tag may be that of a page that needs the password.
#[test]
fn an_open_route_purges_no_tag_of_a_site_with_users() {
    let origin = origin();
    let server = serve(
        &origin,
        USERS,
        "basic_auth = 'FILE'\npurge_from = ['127.0.0.1']\n\
         [[site.route]]\npath_prefix = '/open'\nbasic_auth = 'off'\n",
    );
    let tag = "Surrogate-Key: a";
    assert_eq!(status(&server, "PURGE", "/open", &[]), 200);
    assert_eq!(status(&server, "PURGE", "/open", &[tag]), 403);
    assert_eq!(status(&server, "PURGE", "/page", &[tag]), 401);
    assert_eq!(status(&server, "PURGE", "/page", &[tag, ANN]), 200);
    // The same holds for a site that serves only some addresses.
    let server = serve(
        &origin,
        USERS,
        "allow_from = ['127.0.0.9']\npurge_from = ['127.0.0.1']\n\
         [[site.route]]\npath_prefix = '/open'\nallow_from = []\n",
    );
    assert_eq!(status(&server, "PURGE", "/open", &[]), 200);
    assert_eq!(status(&server, "PURGE", "/open", &[tag]), 403);
}

#[test]
fn an_open_site_purges_no_prefix_or_tag_of_a_route_that_does_not_serve_the_client() {
    let origin = origin();
    let (tag, prefix) = ("Surrogate-Key: a", "X-Purge-Method: regex");
    let start = |lines: &str| {
        let site = "purge_from = ['127.0.0.1']\n[[site.route]]\npath_prefix = '/admin'\n";
        serve(&origin, USERS, &format!("{site}{lines}"))
    };
    let server = start("basic_auth = 'FILE'\n");
    assert_eq!(status(&server, "GET", "/admin", &[ANN]), 200);
    for target in ["/admin.*", "/.*"] {
        assert_eq!(status(&server, "PURGE", target, &[prefix, ANN]), 403, "{target}");
    }
    assert_eq!(status(&server, "PURGE", "/", &[tag]), 403);
    assert_eq!(status(&server, "PURGE", "/", &[]), 200);
    assert_eq!(status(&server, "GET", "/admin", &[ANN]), 200);
    assert_eq!(origin.count("/admin"), 1, "the page of the users stays");
    // On the route of the users, the password is given.
    assert_eq!(status(&server, "PURGE", "/admin/.*", &[prefix]), 401);
    assert_eq!(status(&server, "PURGE", "/admin/.*", &[prefix, ANN]), 200);
    assert_eq!(status(&server, "PURGE", "/admin", &[tag, ANN]), 200);
    for (lines, expected) in [
        ("allow_from = ['127.0.0.9']\n", 403),
        ("deny_from = ['127.0.0.1']\n", 403),
        ("allow_from = ['127.0.0.1']\n", 200),
        // Nothing is stored there.
        ("basic_auth = 'FILE'\ncache = false\n", 200),
    ] {
        let server = start(lines);
        assert_eq!(status(&server, "PURGE", "/.*", &[prefix]), expected, "{lines}");
        assert_eq!(status(&server, "PURGE", "/", &[tag]), expected, "{lines}");
    }
}

/// A purge counts against rate limits only where it tells whether a password is right.
#[test]
fn guesses_by_any_method_count_against_the_rate_limit() {
    let origin = origin();
    let lines = "basic_auth = 'FILE'\nrate_limit = ['2/1h']\npurge_from = ['127.0.0.1']\n";
    let server = serve(&origin, USERS, lines);
    let statuses = ["PURGE", "GET", "PURGE", "GET"];
    let statuses = statuses.map(|method| status(&server, method, "/", &[WRONG]));
    assert_eq!(statuses, [401, 401, 429, 429]);
    assert_eq!(server.stat("password_checks_total"), 2.0);
}

/// Slow hashes: each check takes a few hundred milliseconds in a debug build.
#[test]
fn guesses_of_one_network_leave_room_for_others_and_block_no_other_request() {
    let origin = origin();
    let lines = "[[site.route]]\npath_prefix = '/slow'\nbasic_auth = 'FILE'\n";
    let server = serve(&origin, SLOW_USERS, lines);
    assert_eq!(status(&server, "GET", "/page", &[]), 200);
    let mut guessers = guess_from(&server, 2, 20);
    assert_eq!(status(&server, "GET", "/page", &[]), 200);
    assert_eq!(status(&server, "GET", "/slow", &[BOB]), 200, "there is room for others");
    let answers = guessers.iter_mut().map(|client| client.response("GET").expect("one").status);
    let answers: Vec<_> = answers.collect();
    let busy = answers.iter().filter(|status| **status == 503).count();
    assert!(answers.iter().all(|status| matches!(status, 401 | 503)), "{answers:?}");
    assert!(busy > 0 && answers.contains(&401), "{answers:?}");
    assert_eq!(server.stat("password_checks_refused_total"), busy as f64);
}

/// Networks that fill the queue delay another one by one check, and refuse it nothing.
#[test]
fn guesses_of_many_networks_leave_room_for_another_one() {
    let origin = origin();
    let server = serve(&origin, SLOW_USERS, "basic_auth = 'FILE'\n");
    let mut guessers: Vec<_> = (2..=5).flat_map(|host| guess_from(&server, host, 8)).collect();
    eventually("a check runs", || server.stat("password_checks_total") >= 1.0);
    assert_eq!(status(&server, "GET", "/page", &[BOB]), 200);
    let checks = server.stat("password_checks_total");
    assert!(checks < 16.0, "{checks} of 33 checks ran before the one of the other network");
    let answers = guessers.iter_mut().map(|client| client.response("GET").expect("one").status);
    let answers: Vec<_> = answers.collect();
    assert!(answers.iter().all(|status| matches!(status, 401 | 503)), "{answers:?}");
    assert!(answers.contains(&503), "a guess made room: {answers:?}");
}

/// Sends `count` requests from `127.0.0.HOST`, each with another wrong password of `ann`.
fn guess_from(server: &Server, host: u8, count: usize) -> Vec<Client> {
    let guess = |number| {
        // `ann:guess00` and so on
        let pair = format!("ann:guess{:02}", usize::from(host) * 8 + number);
        let credentials = base64(pair.as_bytes());
        let mut client = Client::connect_from(IpAddr::from([127, 0, 0, host]), server.address());
        let field = format!("Authorization: Basic {credentials}");
        client.send(format!("GET /slow HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
        client
    };
    (0..count).map(guess).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        let number = number << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { digit.into() });
        }
    }
    text
}
