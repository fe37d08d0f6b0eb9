//! `validate_variants`: a request that selects none of the stored variants, or a stale one, carries
//! their entity tags, and the origin's 304 names the variant that answers the request.

use forebay_testkit::{Client, Origin, Request, Response, Script, Server, ServerBuilder};

const FRESH: &str = "Cache-Control: max-age=60";

/// A field value so long that a request for validation does not name the variant with this value.
const LONG: &str = match str::from_utf8(&[b'x'; 1200]) {
    Ok(text) => text,
    Err(_) => "",
};

/// The tags of a request's If-None-Match.
fn tags(request: &Request) -> Vec<&str> {
    request.head.field("if-none-match").map(|list| list.split(", ").collect()).unwrap_or_default()
}

/// An origin with the forms `odd` and `even` of a page, by the number in X-A. A 304 also has the
/// fields `of_304`.
fn origin(of_304: &'static [&'static str]) -> Origin {
    Origin::start(move |request| {
        let number: u32 = request.head.field("x-a").and_then(|a| a.parse().ok()).unwrap_or(0);
        let form = if number % 2 == 1 { "odd" } else { "even" };
        let tag = format!("\"{form}\"");
        let etag = format!("ETag: {tag}");
        if tags(request).contains(&&*tag) {
            let fields = [&["Vary: X-A", "X-New: yes"], of_304].concat().join("\r\n");
            return Script::new().send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n"));
        }
        let listed = format!("X-Listed: {}", tags(request).join(" "));
        let fields = [FRESH, "Vary: X-A", "Surrogate-Key: page", &etag, &listed];
        Script::answer("200 OK", &fields, form.as_bytes())
    })
}

/// The fields of the 304 for the form `odd`.
const NAMES_ODD: &[&str] = &["ETag: \"odd\"", FRESH];

fn start(origin: &Origin) -> Server {
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(origin);
    builder.flag("--validate-variants", "true").flag("--workers", "1").start()
}

fn ask(server: &Server, fields: &[&str]) -> Response {
    Client::connect(server.address()).ask("GET", "/page", fields).expect("it is answered")
}

fn status(response: &Response) -> &str {
    response.field("cache-status").unwrap_or_default()
}

fn is_hit(response: &Response) -> bool {
    status(response).contains("; hit")
}

// RFC: 9111-4.3.1-1, 9111-4.3.4-2
#[test]
fn a_304_picks_the_stored_variant_by_its_tag_and_renews_it() {
    let origin = origin(NAMES_ODD);
    let server = start(&origin);
    assert_eq!(ask(&server, &["X-A: 1"]).text(), "odd");
    let even = ask(&server, &["X-A: 2"]);
    assert_eq!((even.text().as_str(), even.field("x-listed")), ("even", Some("\"odd\"")));
    let named = ask(&server, &["X-A: 3"]);
    assert_eq!((named.status, named.text().as_str()), (200, "odd"));
    for part in ["fwd=vary-miss", "fwd-status=304", "stored"] {
        assert!(status(&named).contains(part), "{part}: {}", status(&named));
    }
    let again = ask(&server, &["X-A: 3"]);
    assert!(is_hit(&again), "the request selects the variant from now on: {}", status(&again));
    for (number, text, new) in
        [("1", "odd", Some("yes")), ("3", "odd", Some("yes")), ("2", "even", None)]
    {
        let hit = ask(&server, &[&format!("X-A: {number}")]);
        assert!(is_hit(&hit), "{number}: {}", status(&hit));
        assert_eq!((hit.text().as_str(), hit.field("x-new")), (text, new), "{number}");
    }
    assert_eq!(server.stat("variants_named_total"), 1.0);
    assert_eq!(server.stat("validated_total"), 1.0);
    let matching = ask(&server, &["X-A: 5", "If-None-Match: \"odd\""]);
    assert_eq!(matching.status, 304, "the client has the variant that the origin named");
    let other = ask(&server, &["X-A: 7", "If-None-Match: \"even\""]);
    assert_eq!((other.status, other.text().as_str()), (200, "odd"), "the client has another one");
}

#[test]
fn a_purge_removes_a_variant_with_all_its_copies() {
    for purge in [&["URL"][..], &["--tag", "page"], &["--prefix", "URL"]] {
        let origin = origin(NAMES_ODD);
        let server = start(&origin);
        for number in [1, 3, 5] {
            assert_eq!(ask(&server, &[&format!("X-A: {number}")]).text(), "odd");
        }
        let url = "http://example.test/page";
        let words = purge.iter().map(|word| if *word == "URL" { url } else { word });
        let words: Vec<_> = ["purge"].into_iter().chain(words).collect();
        let purged = server.command(&words);
        assert!(purged.status.success(), "{purge:?}: {purged:?}");
        let next = ask(&server, &["X-A: 3"]);
        assert!(!is_hit(&next), "{purge:?}: {}", status(&next));
        assert_eq!(next.field("x-listed"), Some(""), "{purge:?}: no variant is left");
    }
}

#[test]
fn a_304_that_names_no_stored_variant_is_followed_by_a_whole_request() {
    let cases: [&[&str]; 4] =
        [&[], &["ETag: \"other\""], &["ETag: W/\"odd\""], &["ETag: \"odd\"", "Vary: X-B"]];
    for of_304 in cases {
        let origin = origin(of_304);
        let server = start(&origin);
        ask(&server, &["X-A: 1"]);
        let answer = ask(&server, &["X-A: 3"]);
        assert_eq!((answer.status, answer.text().as_str()), (200, "odd"), "{of_304:?}");
        assert_eq!(answer.field("x-listed"), Some(""), "{of_304:?}: asked without conditions");
        assert_eq!(server.stat("variants_named_total"), 0.0, "{of_304:?}");
    }
}

#[test]
fn a_304_that_forbids_storing_names_a_variant_for_one_request() {
    let origin = origin(&["ETag: \"odd\"", "Cache-Control: no-store"]);
    let server = start(&origin);
    ask(&server, &["X-A: 1"]);
    for _ in 0..2 {
        let named = ask(&server, &["X-A: 3"]);
        assert_eq!((named.text().as_str(), named.field("x-new")), ("odd", Some("yes")));
        assert!(status(&named).contains("fwd-status=304"), "{}", status(&named));
        assert!(!status(&named).contains("stored"), "{}", status(&named));
    }
    let first = ask(&server, &["X-A: 1"]);
    assert!(is_hit(&first) && first.field("x-new").is_none(), "the variant stays as it was");
}

#[test]
fn only_strong_tags_of_acceptable_short_variants_are_sent() {
    let origin = Origin::start(|request| {
        let kind = request.head.field("x-a").unwrap_or_default();
        let listed = format!("X-Listed: {}", tags(request).join(" "));
        let (field, bytes) = match kind {
            "weak" => ("ETag: W/\"weak\"", 10),
            "none" => ("X-No: tag", 10),
            "coded" => ("ETag: \"coded\"\r\nContent-Encoding: gzip", 10),
            "long" => ("ETag: \"long\"", 200_000),
            "same" => ("ETag: \"weak\"", 10),
            "differs" => ("ETag: \"weak\"", 11),
            "other-differs" => ("ETag: \"other\"", 11),
            "middle-x" | "middle-y" => ("ETag: \"middle\"", 10_000),
            _ => ("ETag: \"other\"", 10),
        };
        let mut body = vec![b'x'; bytes];
        if kind == "middle-y" {
            body[5_000] = b'y';
        }
        Script::answer("200 OK", &[FRESH, "Vary: X-A", field, &listed], &body)
    });
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&["weak"], &[], ""),
        (&["none"], &[], ""),
        (&["long"], &[], ""),
        (&["coded"], &[], ""),
        (&["coded"], &["Accept-Encoding: br"], ""),
        (&["coded"], &["Accept-Encoding: gzip;q=0"], ""),
        (&["coded"], &["Accept-Encoding: gzip, br"], "\"coded\""),
        (&["weak", "same"], &[], "\"weak\""),
        (&["other", "same"], &[], "\"weak\" \"other\""),
        (&["weak", "differs"], &[], ""),
        (&["other", "other-differs"], &[], ""),
        (&["other", "other-differs", "same"], &[], "\"weak\""),
        (&["middle-x"], &[], "\"middle\""),
        (&["middle-x", "middle-y"], &[], ""),
        (&[LONG], &[], ""),
    ];
    for (stored, fields, expected) in cases {
        let server = start(&origin);
        for kind in *stored {
            ask(&server, &[&format!("X-A: {kind}")]);
        }
        let answer = ask(&server, &[&["X-A: new"], *fields].concat());
        assert_eq!(answer.field("x-listed"), Some(*expected), "{stored:?} {fields:?}");
    }
    let server = start(&origin);
    for number in 0..20 {
        ask(&server, &[&format!("X-A: {number}"), "X-Unique: 1"]);
    }
    let builder = ServerBuilder::new(env!("CARGO_BIN_EXE_forebay")).origin(&origin);
    let server = builder.start();
    ask(&server, &["X-A: other"]);
    let answer = ask(&server, &["X-A: new"]);
    assert_eq!(answer.field("x-listed"), Some(""), "the setting is off by default");
}

#[test]
fn a_request_has_the_tags_of_eight_other_variants_at_most() {
    let origin = Origin::start(|request| {
        let etag = format!("ETag: \"{}\"", request.head.field("x-a").unwrap_or_default());
        let count = format!("X-Count: {}", tags(request).len());
        Script::answer("200 OK", &[FRESH, "Vary: X-A", &etag, &count], b"page")
    });
    let server = start(&origin);
    for number in 0..12 {
        let answer = ask(&server, &[&format!("X-A: {number}")]);
        let expected = number.min(8).to_string();
        assert_eq!(answer.field("x-count"), Some(&*expected), "{number}");
    }
}

#[test]
fn a_stale_variant_gives_way_to_the_one_that_the_origin_names() {
    let origin = Origin::start(|request| {
        let listed = format!("X-Listed: {}", tags(request).join(" "));
        let is_known = tags(request).contains(&"\"b\"");
        match request.head.field("x-a") {
            Some("1") if is_known => {
                let fields = format!("ETag: \"b\"\r\nVary: X-A\r\n{FRESH}\r\n{listed}");
                Script::new().send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n\r\n"))
            }
            Some("1") => {
                let fields = [FRESH, "Age: 100", "Vary: X-A", "ETag: \"a\""];
                Script::answer("200 OK", &fields, b"a")
            }
            _ => Script::answer("200 OK", &[FRESH, "Vary: X-A", "ETag: \"b\""], b"b"),
        }
    });
    let server = start(&origin);
    assert_eq!(ask(&server, &["X-A: 1"]).text(), "a");
    assert_eq!(ask(&server, &["X-A: 2"]).text(), "b");
    let named = ask(&server, &["X-A: 1"]);
    assert_eq!(named.text(), "b");
    assert_eq!(named.field("x-listed"), Some("\"a\" \"b\""));
    let hit = ask(&server, &["X-A: 1"]);
    assert!(is_hit(&hit) && hit.text() == "b", "{}", status(&hit));
}
