//! Routes that serve signed URLs only, and the command that signs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use forebay_testkit::{Client, Origin, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// The current key, and an earlier one.
const KEYS: &str = "# keys\n0123456789abcdef0123456789abcdef\nabcdefghijklmnopqrstuvwxyz012345\n";

/// An origin whose body is the target that it got.
fn origin() -> Origin {
    Origin::start(|request| {
        let body = request.target.as_bytes().to_vec();
        Script::answer("200 OK", &["Cache-Control: max-age=60"], &body)
    })
}

fn write_keys(builder: &ServerBuilder, name: &str, text: &str) -> String {
    let path = builder.path(name);
    fs::write(&path, text).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is owned");
    path.display().to_string()
}

/// A server whose path `/film` needs a signature.
fn serve(origin: &Origin) -> Server {
    serve_with(origin, "")
}

/// The same server, with further settings of the path.
fn serve_with(origin: &Origin, settings: &str) -> Server {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let keys = write_keys(&builder, "keys", KEYS);
    // `ann:secret`
    let users = "ann:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    let users = write_keys(&builder, "users", users);
    let settings = settings.replace("USERS", &users);
    let text = format!(
        "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\npurge_from = ['127.0.0.1']\n\
         [[site.route]]\npath_prefix = '/film'\nsigned_urls = '{keys}'\n{settings}\n",
        origin.address(),
    );
    builder.config(&text).start()
}

fn sign(server: &Server, keys: &str, lifetime: &str, url: &str) -> Output {
    let keys = server.path(keys).display().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["sign", "--key-file", &keys, "--for", lifetime, url]);
    command.output().expect("the binary was built")
}

/// The target of a URL that `forebay sign` signed.
fn signed(server: &Server, keys: &str, lifetime: &str, target: &str) -> String {
    let output = sign(server, keys, lifetime, &format!("http://example.test{target}"));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.trim_end().strip_prefix("http://example.test").expect("the URL is kept").to_owned()
}

/// The status and the body of the answer to a request.
fn answer(server: &Server, method: &str, target: &str) -> (u16, String) {
    let mut client = Client::connect(server.address());
    let answer = client.ask(method, target, &[]).expect("an answer");
    (answer.status, String::from_utf8(answer.body).expect("UTF-8"))
}

#[test]
fn a_signed_url_is_served_and_no_other_one() {
    let origin = origin();
    let server = serve(&origin);
    let target = signed(&server, "keys", "1h", "/film?part=1");
    let served = (200, "/film?part=1".to_owned());
    assert_eq!(answer(&server, "GET", &target), served);
    assert_eq!(answer(&server, "GET", "/open?part=1").0, 200, "another route");

    let (front, last) = target.split_at(target.len() - 1);
    let other = if last == "0" { "1" } else { "0" };
    let refused = [
        "/film?part=1".to_owned(),
        format!("{front}{other}"),
        target.replace("part=1", "part=2"),
        target.replace("expires=", "expires=9"),
        target.replace("/film", "/film/x"),
        format!("{target}&utm=1"),
        "/film".to_owned(),
    ];
    for refused in &refused {
        let (status, body) = answer(&server, "GET", refused);
        assert_eq!(status, 403, "{refused}: {body}");
    }
    assert_eq!(answer(&server, "POST", &target).0, 403, "a signature permits GET and HEAD only");
    assert_eq!(server.stat("signatures_refused_total") as usize, refused.len() + 1);
    assert_eq!(answer(&server, "GET", &target), served, "the connection and the URL still work");
}

#[test]
fn all_signatures_of_a_url_share_its_stored_response() {
    let origin = origin();
    let server = serve(&origin);
    let one = signed(&server, "keys", "1h", "/film");
    let other = signed(&server, "keys", "2h", "/film");
    assert_ne!(one, other);
    assert_eq!(answer(&server, "GET", &one), (200, "/film".to_owned()));
    eventually("the response is stored", || server.stat("stored_total") >= 1.0);
    assert_eq!(answer(&server, "GET", &other), (200, "/film".to_owned()));
    assert_eq!((origin.count("/film"), server.stat("hits_total")), (1, 1.0));
    assert_eq!(answer(&server, "GET", "/film").0, 403, "a stored response needs a signature too");

    // The key of the cache has no signature, so a purge needs none.
    assert_eq!(answer(&server, "PURGE", "/film").0, 200);
    assert_eq!(answer(&server, "GET", &one).0, 200);
    assert_eq!(origin.count("/film"), 2);
}

#[test]
fn the_origin_never_gets_a_signature() {
    let origin = origin();
    let server = serve(&origin);
    let target = signed(&server, "keys", "1h", "/film?b=2&expires=7&&a=1&");
    let mut client = Client::connect(server.address());
    // A request with this field bypasses the cache.
    let forced = client.ask("GET", &target, &["Connection: x", "x: y"]).expect("an answer");
    assert_eq!((forced.status, forced.text()), (200, "/film?b=2&expires=7&&a=1&".to_owned()));
    let many: String = (0..600).map(|number| format!("p{number}&")).collect();
    let target = signed(&server, "keys", "1h", &format!("/film?{many}last"));
    assert_eq!(answer(&server, "GET", &target), (200, format!("/film?{many}last")));

    let server = serve_with(&origin, "cache = false");
    let target = signed(&server, "keys", "1h", "/film");
    assert_eq!(answer(&server, "GET", &target), (200, "/film".to_owned()));
    let server = serve_with(&origin, "sort_query = true");
    let target = signed(&server, "keys", "1h", "/film?b&a");
    assert_eq!(answer(&server, "GET", &target), (200, "/film?a&b".to_owned()));
    assert_eq!(answer(&server, "HEAD", &target).0, 200);
}

#[test]
fn a_purge_needs_the_password_but_no_signature() {
    let origin = origin();
    let server = serve_with(&origin, "basic_auth = 'USERS'");
    let mut client = Client::connect(server.address());
    let ann = "Authorization: Basic YW5uOnNlY3JldA==";
    assert_eq!(client.ask("PURGE", "/film", &[ann]).expect("an answer").status, 200);
    assert_eq!(client.ask("PURGE", "/film", &[]).expect("an answer").status, 401);
    assert_eq!(client.ask("GET", "/film", &[ann]).expect("an answer").status, 403);
    let target = signed(&server, "keys", "1h", "/film");
    assert_eq!(client.ask("GET", &target, &[]).expect("an answer").status, 401);
    assert_eq!(client.ask("GET", &target, &[ann]).expect("an answer").status, 200);
}

#[test]
fn a_signature_expires() {
    let origin = origin();
    let server = serve(&origin);
    let target = signed(&server, "keys", "1s", "/film");
    let mut last = String::new();
    eventually("the signature expires", || {
        let (status, body) = answer(&server, "GET", &target);
        last = body;
        status == 403
    });
    assert!(last.contains("expired"), "{last}");
}

#[test]
fn every_key_of_the_file_is_accepted_until_it_is_deleted() {
    let origin = origin();
    let server = serve(&origin);
    let builder = server.again();
    write_keys(&builder, "old", "abcdefghijklmnopqrstuvwxyz012345\n");
    write_keys(&builder, "foreign", "00000000000000000000000000000000\n");
    let old = signed(&server, "old", "1h", "/film");
    assert_eq!(answer(&server, "GET", &old).0, 200);
    let foreign = signed(&server, "foreign", "1h", "/film");
    assert_eq!(answer(&server, "GET", &foreign).0, 403);

    write_keys(&builder, "keys", "0123456789abcdef0123456789abcdef\n");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(answer(&server, "GET", &old).0, 403);
    let new = signed(&server, "keys", "1h", "/film");
    assert_eq!(answer(&server, "GET", &new).0, 200);
}

#[test]
fn other_spellings_of_the_path_need_a_signature_too() {
    let origin = origin();
    let server = serve(&origin);
    for target in ["/%66ilm", "//film", "/x/../film", "/film/../film", "/./film"] {
        let (status, body) = answer(&server, "GET", target);
        assert!(status == 400 || status == 403, "{target}: {status} {body}");
    }
    assert_eq!(origin.request_count(), 0);
}

#[test]
fn bad_keys_and_bad_urls_are_named() {
    let origin = origin();
    let server = serve(&origin);
    let builder = server.again();
    for (text, expected) in [
        ("", "the file has no keys"),
        ("# only a comment\n", "the file has no keys"),
        ("short\n", "line 1: the key has 5 bytes; 32 are needed"),
        (&"0123456789abcdef0123456789abcdef\n".repeat(9), "more than 8 keys"),
    ] {
        write_keys(&builder, "bad", text);
        let output = sign(&server, "bad", "1h", "http://example.test/");
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success() && errors.contains(expected), "{errors}");
    }
    for (lifetime, url, expected) in [
        ("60", "http://example.test/", "is not a duration"),
        ("1h", "example.test/", "begins with http"),
    ] {
        let output = sign(&server, "keys", lifetime, url);
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success() && errors.contains(expected), "{errors}");
    }
}
