//! `PURGE` requests from clients.

use forebay_testkit::ServerBuilder;

use crate::common::{ask, builder, list, origin, store, stored};

const FIRST: &str = "http://shop.test/1";
const SECOND: &str = "http://shop.test/2";
const OTHER: &str = "http://other.test/1";

#[test]
fn an_allowed_client_purges_a_url_or_tags_of_its_site() {
    let origin = origin();
    let server = builder(&origin, "purge_from = [\"127.0.0.0/8\"]").start();
    let all = [FIRST, SECOND, OTHER];
    let cases: &[(&str, &[&str], &[&str], u64)] = &[
        (FIRST, &[], &[SECOND, OTHER], 1),
        ("http://shop.test/none", &[], &all, 0),
        ("http://shop.test/", &["Surrogate-Key: a"], &[OTHER], 2),
        (FIRST, &["Surrogate-Key: one x"], &[SECOND, OTHER], 1),
        (SECOND, &["xkey: one,two"], &[OTHER], 2),
        (OTHER, &["Cache-Tag: a, b"], &[FIRST, SECOND], 1),
        (OTHER, &["xkey: nothing"], &all, 0),
    ];
    for (url, fields, left, count) in cases {
        store(&server, FIRST, &["Surrogate-Key: a one"]);
        store(&server, SECOND, &["Surrogate-Key: a two"]);
        store(&server, OTHER, &["Surrogate-Key: a one"]);
        let before = origin.request_count();
        let response = ask(&server, "PURGE", url, fields);
        assert_eq!(response.status, 200, "{url} {fields:?}");
        assert_eq!(response.text(), format!("{{\"purged\":{count},\"fetches\":0}}\n"), "{url}");
        assert_eq!(response.field("content-type"), Some("application/json"));
        assert_eq!(origin.request_count(), before, "the purge went to the origin");
        assert_eq!(stored(&server, &all), left.iter().copied().collect(), "{url} {fields:?}");
    }
    let purged: u64 = cases.iter().map(|(.., count)| count).sum();
    assert_eq!(server.stat("purged_total"), purged as f64);
    assert_eq!(server.stat("purge_requests_total"), cases.len() as f64);
}

#[test]
fn a_soft_purge_keeps_what_it_marks() {
    let origin = origin();
    let server = builder(&origin, "purge_from = [\"127.0.0.1\"]").start();
    for tags in [&[][..], &["Surrogate-Key: a"]] {
        store(&server, FIRST, &["Surrogate-Key: a"]);
        let response = ask(&server, "PURGE", FIRST, &[tags, &["Fastly-Soft-Purge: 1"]].concat());
        assert!(response.text().contains("\"purged\":1"), "{response:?}");
        assert_eq!(list(&server, &[])[0]["soft"], true, "{tags:?}");
        store(&server, FIRST, &[]);
        assert_eq!(list(&server, &[])[0]["soft"], false);
    }
    assert_eq!(server.stat("validated_total"), 2.0);
    let response = ask(&server, "PURGE", FIRST, &["Fastly-Soft-Purge: 0"]);
    assert!(response.text().contains("\"purged\":1") && list(&server, &[]).is_empty());
}

#[test]
fn other_clients_are_refused_and_a_site_without_purging_forwards_it() {
    let origin = origin();
    let top = "purge_from = [\"192.0.2.0/24\", \"::1\"]";
    let server = builder(&origin, top).start();
    store(&server, FIRST, &[]);
    let response = ask(&server, "PURGE", FIRST, &["Surrogate-Key: a"]);
    assert_eq!(response.status, 403);
    assert!(response.text().contains("not allowed to purge"), "{response:?}");
    assert_eq!(stored(&server, &[FIRST]).len(), 1);
    assert_eq!((origin.count("/1"), server.stat("purged_total")), (1, 0.0));
    assert_eq!(server.stat("requests_refused_total"), 1.0);

    let server = builder(&origin, "").start();
    store(&server, FIRST, &[]);
    let before = origin.request_count();
    assert_eq!(ask(&server, "PURGE", FIRST, &[]).text(), "body");
    assert_eq!(origin.requests_since(before)[0].method, "PURGE");
    // The forwarded request invalidates the page, like any method that is not known to be safe (RFC
    // 9111 §4.4).
    assert!(stored(&server, &[FIRST]).is_empty());
}

#[test]
fn a_field_without_tags_that_are_read_purges_nothing() {
    let origin = origin();
    let top = "purge_from = [\"127.0.0.1\"]\ntag_fields = [\"surrogate-key\", \"cache-groups\"]";
    let server = builder(&origin, top).start();
    store(&server, FIRST, &["Surrogate-Key: a"]);
    let no_tags: &[&[&str]] = &[
        &["Surrogate-Key:"],
        &["Surrogate-Key:  "],
        &["xkey: a"],
        &["Cache-Tag: a"],
        &["Cache-Groups: \"a\""],
        &["Surrogate-Key: b", "xkey: a"],
    ];
    for fields in no_tags {
        let response = ask(&server, "PURGE", FIRST, fields);
        assert_eq!(response.status, 400, "{fields:?}");
        assert!(response.text().contains("no tags in the fields"), "{response:?}");
        assert_eq!(stored(&server, &[FIRST]).len(), 1, "{fields:?}");
    }
    assert_eq!(server.stat("requests_refused_total"), no_tags.len() as f64);
    assert_eq!(server.stat("purge_requests_total"), 0.0);
}

#[test]
fn a_client_allowed_on_one_route_purges_no_other_by_tags() {
    let origin = origin();
    let site = |top: &str, route: &str| {
        let address = origin.address();
        let site =
            format!("[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://{address}\"");
        let route = format!("[[site.route]]\npath_prefix = \"/api\"\n{route}");
        ServerBuilder::new(env!("CARGO_BIN_EXE_forebay"))
            .config(&format!("{top}\n{site}\n{route}\n"))
            .flag("--workers", "1")
    };
    let (page, api) = ("http://shop.test/page", "http://shop.test/api/1");
    let (here, nowhere) = ("purge_from = [\"127.0.0.1\"]", "purge_from = [\"192.0.2.1\"]");
    for top in ["", nowhere] {
        let server = site(top, here).start();
        store(&server, page, &["xkey: a"]);
        store(&server, api, &["xkey: a"]);
        assert_eq!(ask(&server, "PURGE", api, &["xkey: a"]).status, 403, "{top}");
        let below = "http://shop.test/api/.*";
        assert_eq!(ask(&server, "PURGE", below, &[]).status, 403, "{top}");
        assert_eq!(stored(&server, &[page, api]).len(), 2, "{top}");
        assert_eq!(ask(&server, "PURGE", api, &[]).status, 200, "{top}");
        assert_eq!(stored(&server, &[page, api]), [page].into(), "{top}");
    }
    let server = site(here, here).start();
    store(&server, page, &["xkey: a"]);
    assert_eq!(ask(&server, "PURGE", api, &["xkey: a"]).status, 200);
    assert!(stored(&server, &[page]).is_empty());
}

#[test]
fn a_purge_with_a_body_or_with_impossible_tags_does_no_harm() {
    let origin = origin();
    let server = builder(&origin, "purge_from = [\"127.0.0.1\"]").start();
    store(&server, FIRST, &["Surrogate-Key: a"]);
    let long = format!("Surrogate-Key: {}", "x".repeat(251));
    let many: Vec<_> = (0..4097).map(|number| format!("t{number}")).collect();
    for field in [long, format!("xkey: {}", many.join(" "))] {
        assert_eq!(ask(&server, "PURGE", FIRST, &[&field]).status, 400, "{field:.30}");
    }
    assert_eq!(stored(&server, &[FIRST]).len(), 1);
    let response = ask(&server, "PURGE", FIRST, &["Content-Length: 3"]);
    assert_eq!((response.status, response.field("connection")), (200, Some("close")));
    assert!(stored(&server, &[FIRST]).is_empty());
}
