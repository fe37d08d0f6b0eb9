//! Routes with `files`: which files are served, and how, over real sockets.

mod changes;
mod refusals;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use forebay_testkit::{Client, Origin, Response, Script, Server, ServerBuilder, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");

/// A builder, and the path of an empty directory.
fn builder() -> (ServerBuilder, PathBuf) {
    let builder = ServerBuilder::new(PROGRAM).flag("--workers", "1");
    let directory = builder.path("www");
    fs::create_dir(&directory).expect("a new directory");
    (builder, directory)
}

/// Starts a server of one site that serves the directory with these settings.
fn start((builder, directory): (ServerBuilder, &PathBuf), settings: &str) -> Server {
    builder.config(&config(directory, settings)).start()
}

fn config(directory: &Path, settings: &str) -> String {
    let site = "[[site]]\nname = 'a'\nnames = ['*']\npurge_from = ['127.0.0.1']\n";
    format!("{site}files = '{}'\n{settings}", directory.display())
}

fn write(directory: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
    fs::write(path, content).expect("it is written");
}

fn ask(server: &Server, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask(method, target, fields).expect("an answer")
}

fn get(server: &Server, target: &str, fields: &[&str]) -> Response {
    ask(server, "GET", target, fields)
}

/// Whether Cache-Status says that the response was stored.
fn is_hit(response: &Response) -> bool {
    response.field("cache-status").is_some_and(|status| status.contains("; hit"))
}

/// Content whose pieces all differ.
fn content(bytes: usize) -> Vec<u8> {
    (0..).flat_map(|number: u32| number.to_le_bytes()).take(bytes).collect()
}

#[test]
fn a_file_is_stored_on_its_way_and_then_served_from_memory() {
    let (builder, www) = builder();
    write(&www, "a/page.html", "<p>hello");
    write(&www, "a/index.html", "index");
    let server = start((builder, &www), "status_freshness = ['200=1h']\n");
    let first = get(&server, "/a/page.html?x=1", &[]);
    assert_eq!((first.status, &*first.text()), (200, "<p>hello"));
    assert_eq!(first.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(first.field("content-length"), Some("8"));
    assert_eq!(first.field("accept-ranges"), Some("bytes"));
    assert!(first.field("last-modified").is_some() && first.field("date").is_some());
    let tag = first.field("etag").expect("a tag").to_owned();
    assert!(tag.starts_with('"'), "{tag}");
    assert!(server.stat("files_answers_total") == 1.0 && !is_hit(&first));
    holds(|| server.stat("stored_total") == 1.0);
    let hit = get(&server, "/a/page.html?x=1", &[]);
    assert!(is_hit(&hit) && hit.text() == "<p>hello", "{hit:?}");
    assert_eq!(hit.field("etag"), Some(&*tag));
    let known = get(&server, "/a/page.html?x=1", &[&format!("If-None-Match: {tag}")]);
    assert_eq!((known.status, known.body.len()), (304, 0));
    let part = get(&server, "/a/page.html?x=1", &["Range: bytes=3-4"]);
    assert_eq!((part.status, &*part.text()), (206, "he"));
    let head = ask(&server, "HEAD", "/a/page.html?x=1", &[]);
    assert_eq!((head.status, head.field("content-length")), (200, Some("8")));
    assert_eq!(server.stat("files_answers_total"), 1.0);

    // The directory and its file are two URLs.
    assert_eq!(get(&server, "/a/", &[]).text(), "index");
    let moved = get(&server, "/a?x=%2e", &[]);
    assert_eq!((moved.status, moved.field("location")), (301, Some("/a/?x=%2e")));

    // A purge takes effect at once.
    write(&www, "a/page.html", "<p>new");
    assert!(is_hit(&get(&server, "/a/page.html?x=1", &[])));
    assert_eq!(ask(&server, "PURGE", "/a/page.html?x=1", &[]).status, 200);
    assert_eq!(get(&server, "/a/page.html?x=1", &[]).text(), "<p>new");
    let explained = server.command(&["explain", "http://x.org/a/b%20c/"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains(&format!("file {}/a/b c/", www.display())), "{explained}");
}

#[test]
fn a_stale_copy_is_validated_against_the_file() {
    let (builder, www) = builder();
    write(&www, "a.txt", "one");
    let server = start((builder, &www), "status_freshness = ['200=0s']\n");
    assert_eq!(get(&server, "/a.txt", &[]).text(), "one");
    holds(|| server.stat("stored_total") == 1.0);
    let bytes = server.stat("files_bytes_total");
    assert_eq!(get(&server, "/a.txt", &[]).text(), "one");
    assert_eq!(server.stat("validated_total"), 1.0);
    assert_eq!(server.stat("files_bytes_total"), bytes, "a 304 needs no byte of the file");
    // A file of the same length with the same time of modification is another file.
    let time = fs::metadata(www.join("a.txt")).and_then(|data| data.modified()).expect("a time");
    write(&www, "new", "two");
    let new = fs::File::options().write(true).open(www.join("new")).expect("a file");
    new.set_modified(time).expect("a new time");
    fs::rename(www.join("new"), www.join("a.txt")).expect("it is moved");
    assert_eq!(get(&server, "/a.txt", &[]).text(), "two");
    // In place, too: the time at which the inode changed cannot be set.
    write(&www, "a.txt", "six");
    let file = fs::File::options().write(true).open(www.join("a.txt")).expect("a file");
    file.set_modified(time).expect("a new time");
    assert_eq!(get(&server, "/a.txt", &[]).text(), "six");
}

/// A tool that sets times back leaves length and time of modification as they were.
#[test]
fn a_file_that_is_replaced_in_place_with_its_old_time_breaks_off() {
    let (builder, www) = builder();
    let bytes = 8 << 20;
    write(&www, "a.bin", vec![b'1'; bytes]);
    let path = www.join("a.bin");
    let time = fs::metadata(&path).and_then(|data| data.modified()).expect("a time");
    let server = start((builder, &www), "cache = false\n");
    let mut client = Client::connect(server.address());
    client.send("GET /a.bin HTTP/1.1\r\nHost: x.org\r\n\r\n");
    holds(|| server.stat("files_answers_total") == 1.0);
    let file = fs::File::options().write(true).open(&path).expect("a file");
    (&file).write_all(&vec![b'2'; bytes]).expect("it is written");
    file.set_modified(time).expect("the old time");
    let body = client.response("GET").map(|response| response.body).unwrap_or_default();
    assert!(body.len() < bytes, "the client has read nothing, so the file was still being read");
    assert!(!body.contains(&b'2'), "bytes of two versions");
    assert_eq!(server.stat("files_changed_total"), 1.0);
}

#[test]
fn conditions_and_ranges_work_without_the_cache() {
    let (builder, www) = builder();
    let body = content(1 << 20);
    write(&www, "big.bin", &body);
    write(&www, "empty", "");
    let server = start((builder, &www), "cache = false\n");
    let whole = get(&server, "/big.bin", &[]);
    assert!(whole.status == 200 && whole.body == body && whole.is_whole);
    assert_eq!(whole.field("content-type"), Some("application/octet-stream"));
    let (tag, date) = (whole.field("etag"), whole.field("last-modified"));
    let (tag, date) = (tag.expect("a tag"), date.expect("a date"));
    let range = "Range: bytes=300000-900000";
    for (fields, status, bytes) in [
        (vec![range.to_owned()], 206, &body[300_000..=900_000]),
        (vec!["Range: bytes=-1".to_owned()], 206, &body[body.len() - 1..]),
        (vec!["Range: bytes=1048576-".to_owned()], 416, &[][..]),
        (vec!["Range: bytes=0-0,9000-9001".to_owned()], 200, &body[..]),
        (vec![range.to_owned(), format!("If-Range: {tag}")], 206, &body[300_000..=900_000]),
        (vec![range.to_owned(), "If-Range: \"x\"".to_owned()], 200, &body[..]),
        (vec![format!("If-None-Match: W/{tag}")], 304, &[][..]),
        (vec![format!("If-Modified-Since: {date}")], 304, &[][..]),
        (vec![format!("If-Match: {tag}")], 200, &body[..]),
    ] {
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        let answer = get(&server, "/big.bin", &fields);
        assert_eq!(answer.status, status, "{fields:?}");
        assert!(answer.body == bytes && answer.is_whole, "{fields:?}");
        assert_eq!(answer.field("etag"), Some(tag), "{fields:?}");
    }
    let failed = get(&server, "/big.bin", &["If-Match: \"x\""]);
    assert_eq!(failed.status, 412);
    let part = get(&server, "/big.bin", &[range]);
    assert_eq!(part.field("content-range"), Some("bytes 300000-900000/1048576"));
    let unsatisfiable = get(&server, "/big.bin", &["Range: bytes=1048576-"]);
    assert_eq!(unsatisfiable.field("content-range"), Some("bytes */1048576"));
    let head = ask(&server, "HEAD", "/big.bin", &[range]);
    assert_eq!((head.status, head.field("content-length")), (200, Some("1048576")));
    let empty = get(&server, "/empty", &[]);
    assert_eq!((empty.status, empty.field("content-length")), (200, Some("0")));
}

#[test]
fn a_compressed_file_answers_if_the_client_accepts_it() {
    let (builder, www) = builder();
    write(&www, "a.js.br", "as br");
    write(&www, "a.js.gz", "as gzip");
    write(&www, "old.js.br", "older");
    write(&www, "a.js", "plain");
    write(&www, "old.js", "plain");
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for name in ["a.js", "old.js.br"] {
        let file = fs::File::options().write(true).open(www.join(name)).expect("a file");
        file.set_modified(past).expect("a time");
    }
    let settings = "status_freshness = ['200=1h']\nfiles_precompressed = true\n\
                    files_types = ['js=text/x-own']\n";
    let server = start((builder, &www), settings);
    for round in 1..=2 {
        for (target, codings, coding, body) in [
            ("/a.js", "gzip, br", Some("br"), "as br"),
            ("/a.js", "br;q=0, gzip", Some("gzip"), "as gzip"),
            ("/a.js", "identity", None, "plain"),
            ("/a.js", "zstd", None, "plain"),
            ("/old.js", "br", None, "plain"),
            ("/a.js.br", "br", None, "as br"),
        ] {
            let answer = get(&server, target, &[&format!("Accept-Encoding: {codings}")]);
            let found = (answer.field("content-encoding"), &*answer.text());
            assert_eq!(found, (coding, body), "{round} {target} {codings}");
            assert_eq!(answer.field("vary"), Some("accept-encoding"), "{target} {codings}");
            let kind =
                if target.ends_with("js") { "text/x-own" } else { "application/octet-stream" };
            assert_eq!(answer.field("content-type"), Some(kind), "{target} {codings}");
        }
        holds(|| server.stat("stored_total") == 6.0);
    }
    assert_eq!(server.stat("files_answers_total"), 6.0);
}

#[test]
fn routes_with_files_stand_beside_routes_with_an_origin() {
    let origin = Origin::start(|_| Script::answer("200 OK", &[], b"from the origin"));
    let (builder, www) = builder();
    write(&www, "static/a.css", "root");
    write(&www, "a.css", "alias");
    write(&www, "file of icons", "icon");
    let directory = www.display();
    let text = format!(
        "[[site]]\nname = 'a'\nnames = ['*']\norigin = 'http://{}'\n\
         [[site.route]]\npath_prefix = '/static/'\nfiles = '{directory}'\n\
         [[site.route]]\npath_prefix = '/assets/'\nfiles = '{directory}'\n\
         files_strip_prefix = true\n\
         [[site.route]]\npath_prefix = '/static/api'\nfiles = 'off'\n\
         [[site.route]]\npath_prefix = '/static/old'\nredirect = '301 /static/a.css'\n",
        origin.address()
    );
    let server = builder.config(&text).start();
    for (target, status, body) in [
        ("/static/a.css", 200, "root"),
        ("/assets/a.css", 200, "alias"),
        ("/assets/file%20of%20icons", 200, "icon"),
        ("/assets/static", 301, "the directory is at the URL in the field location\n"),
        ("/static/none", 404, "there is no file for this path\n"),
        ("/a.css", 200, "from the origin"),
        ("/static/api/x", 200, "from the origin"),
        ("/static/old", 301, "the page is at the URL in the field location\n"),
    ] {
        let answer = get(&server, target, &[]);
        assert_eq!((answer.status, &*answer.text()), (status, body), "{target}");
    }
    assert_eq!(get(&server, "/assets/static", &[]).field("location"), Some("/assets/static/"));
    // A client of HTTP/1.0 need not name a host.
    let mut client = Client::connect(server.address());
    client.send("GET /static/a.css HTTP/1.0\r\n\r\n");
    assert_eq!(client.response("GET").expect("an answer").text(), "root");
}

#[test]
fn a_directory_can_be_served_without_a_configuration() {
    let (builder, www) = builder();
    write(&www, "index.html", "home");
    let server = builder.flag("--files", &www.display().to_string()).start();
    assert_eq!(get(&server, "/", &[]).text(), "home");
    let listed = server.command(&["cache", "ls"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.is_empty() || listed.contains("file://"), "{listed}");
}

/// Waits until the condition holds.
fn holds(condition: impl Fn() -> bool) {
    eventually("the counters are up to date", condition);
}

#[test]
fn a_missing_file_is_answered_by_the_fallback() {
    let (builder, www) = builder();
    write(&www, "app.html", "<p>program");
    write(&www, "a.txt", "a");
    fs::create_dir(www.join("empty")).expect("a new directory");
    let server = start((builder, &www), "files_fallback = '/app.html'\n");
    for target in ["/b", "/b/c.txt?x=1", "/b/", "/a.txt/"] {
        let found = get(&server, target, &[]);
        assert_eq!((found.status, &*found.text()), (200, "<p>program"), "{target}");
        assert_eq!(found.field("content-type"), Some("text/html; charset=utf-8"), "{target}");
    }
    let statuses = ["/a.txt", "/empty", "/empty/", "/.env", "/b%2fc"]
        .map(|target| (target, get(&server, target, &[]).status));
    let expected =
        [("/a.txt", 200), ("/empty", 301), ("/empty/", 403), ("/.env", 404), ("/b%2fc", 404)];
    assert_eq!(statuses, expected);
    assert_eq!(server.stat("files_fallbacks_total"), 4.0);
    fs::remove_file(www.join("app.html")).expect("it is removed");
    assert_eq!(get(&server, "/other", &[]).status, 404);
    eventually("the event is logged", || server.errors().contains("fallback_missing"));
    assert!(server.errors().contains("/app.html: there is no such file"));
}

#[test]
fn a_fallback_never_hides_a_file_that_is_deployed_later() {
    let (builder, www) = builder();
    write(&www, "app.html", "<p>program");
    let settings = "files_fallback = '/app.html'\nstatus_freshness = ['200=1h']\n";
    let server = start((builder, &www), settings);
    let first = get(&server, "/new.css", &[]);
    let tag = format!("If-None-Match: {}", first.field("etag").expect("a tag"));
    let asked: [&[&str]; 5] = [&[], &["Range: bytes=0-3"], &[&tag], &["Cookie: a=b"], &[]];
    for fields in asked {
        let page = get(&server, "/new.css", fields);
        let case = format!("{fields:?}: {:?}", page.head);
        let expected = if fields == [&*tag] { 304 } else { 200 };
        assert!(page.status == expected || page.status == 206, "{case}");
        assert_eq!(page.field("cache-control"), Some("no-cache"), "{case}");
        let status = page.field("cache-status").expect("a status");
        assert!(status.contains("detail=fallback") || status.contains("declined-"), "{case}");
    }
    assert_eq!(server.stat("stored_total") + server.stat("parts_stored_total"), 0.0);
    write(&www, "new.css", "p {}");
    for is_hit in [false, false, true] {
        let answer = get(&server, "/new.css", &[]);
        assert_eq!((answer.status, &*answer.text()), (200, "p {}"));
        assert_eq!(answer.field("content-type"), Some("text/css; charset=utf-8"));
        assert!(answer.field("cache-control").is_none());
        let status = answer.field("cache-status").expect("a status");
        assert_eq!(status.contains("hit"), is_hit, "{status}");
        holds(|| is_hit || server.stat("stored_total") <= 1.0);
    }
    let explained = server.command(&["explain", "http://example.test/x.css"]);
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("/app.html, which is not stored (files_fallback)"), "{explained}");
}

/// The fallback has the tag of the stored file if both are one file under two names.
#[test]
fn a_304_for_the_fallback_renews_no_stored_file() {
    let (builder, www) = builder();
    write(&www, "app.html", "<p>program");
    fs::create_dir(www.join("old")).expect("a new directory");
    fs::hard_link(www.join("app.html"), www.join("old/a.html")).expect("a second name");
    let settings = "files_fallback = '/app.html'\nstatus_freshness = ['200=0s']\n";
    let server = start((builder, &www), settings);
    assert!(get(&server, "/old/a.html", &[]).field("cache-control").is_none());
    holds(|| server.stat("stored_total") == 1.0);
    fs::rename(www.join("old"), www.join("new")).expect("it is moved");
    for asked in [&[][..], &["Cookie: a=b"], &[]] {
        let page = get(&server, "/old/a.html", asked);
        let case = format!("{asked:?}: {:?}", page.head);
        assert_eq!((page.status, page.field("cache-control")), (200, Some("no-cache")), "{case}");
        assert_eq!(page.text(), "<p>program", "{case}");
    }
    assert_eq!(server.stat("validated_total"), 0.0);
}

#[test]
fn a_fallback_has_no_time_that_could_confirm_another_file() {
    let (builder, www) = builder();
    write(&www, "app.html", "<p>program");
    let settings = "files_fallback = '/app.html'\ncache = false\n";
    let server = start((builder, &www), settings);
    let page = get(&server, "/a.txt", &[]);
    assert!(page.field("last-modified").is_none() && page.field("etag").is_some());
    let since = format!("If-Modified-Since: {}", page.field("date").expect("a date"));
    assert_eq!(get(&server, "/a.txt", &[&since]).status, 200);
    let tag = format!("If-None-Match: {}", page.field("etag").expect("a tag"));
    assert_eq!(get(&server, "/a.txt", &[&tag]).status, 304);
}

#[test]
fn a_fallback_that_names_a_directory_is_its_index() {
    let (builder, www) = builder();
    write(&www, "app/index.html", "<p>program");
    fs::create_dir(www.join("empty")).expect("a new directory");
    let directory = www.display().to_string();
    let server = start((builder, &www), "files_fallback = '/app'\n");
    let found = get(&server, "/b", &[]);
    assert_eq!((found.status, &*found.text()), (200, "<p>program"));
    assert_eq!(found.field("cache-control"), Some("no-cache"));
    let (builder, _) = self::builder();
    let settings = format!("files = '{directory}'\nfiles_fallback = '/empty'\n");
    let site = format!("[[site]]\nname = 'a'\nnames = ['*']\n{settings}");
    let server = builder.config(&site).start();
    assert_eq!(get(&server, "/b", &[]).status, 404);
    eventually("the event is logged", || server.errors().contains("a directory without an index"));
}
