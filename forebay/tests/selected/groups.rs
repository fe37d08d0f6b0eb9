//! RFC 9875: cache groups, and their invalidation by unsafe requests.

use crate::common::{ask, builder, origin, start, store, stored};

const PAGES: &[(&str, &str)] = &[
    ("http://shop.test/a", "\"a\""),
    ("http://shop.test/ab", "\"a\", \"b\""),
    ("http://shop.test/b", "\"b\""),
    ("http://shop.test/A", "\"A\""),
    ("http://shop.test/none", ""),
    ("http://shop.test:81/a", "\"a\""),
    ("http://www.shop.test/a", "\"a\""),
    ("http://other.test/a", "\"a\""),
];

// RFC: 9875-3-1
#[test]
fn an_unsafe_request_invalidates_the_groups_that_its_answer_names_at_its_origin() {
    let (_origin, server) = start();
    let all: Vec<_> = PAGES.iter().map(|(url, _)| *url).collect();
    // Method, status, the field's value, and the pages that are invalidated.
    let cases: &[(&str, &str, &str, &[usize])] = &[
        ("POST", "200 OK", "\"a\"", &[0, 1]),
        ("DELETE", "202 Accepted", "\"a\", \"c\"", &[0, 1]),
        ("PATCH", "303 See Other", "\"b\";x=1", &[1, 2]),
        ("POST", "200 OK", "\"a\", \"b\", \"A\"", &[0, 1, 2, 3]),
        ("POST", "200 OK", "\"c\"", &[]),
        ("POST", "200 OK", "a", &[]),
        ("POST", "200 OK", "\"a\",", &[]),
        ("POST", "400 Bad Request", "\"a\"", &[]),
        ("POST", "500 Internal Server Error", "\"a\"", &[]),
        ("GET", "200 OK", "\"a\"", &[]),
        ("OPTIONS", "200 OK", "\"a\"", &[]),
    ];
    for (method, status, field, gone) in cases {
        for (url, groups) in PAGES {
            store(&server, url, &[&format!("Cache-Groups: {groups}")]);
        }
        let fields = [
            &format!("X-Answer: Cache-Group-Invalidation: {field}")[..],
            "X-Answer: Cache-Control: no-store",
            &format!("X-Status: {status}"),
            "Content-Length: 0",
        ];
        ask(&server, method, "http://shop.test/form", &fields);
        let left = stored(&server, &all);
        let found: Vec<_> = (0..all.len()).filter(|number| !left.contains(all[*number])).collect();
        assert_eq!(found, *gone, "{method} {status} {field}");
    }
    let gone: usize = cases.iter().map(|(_, _, _, gone)| gone.len()).sum();
    assert_eq!(server.stat("invalidated_total"), gone as f64);
}

#[test]
fn groups_that_are_not_read_invalidate_nothing_and_many_go_at_once() {
    let origin = origin();
    let without = builder(&origin, "tag_fields = [\"cache-tag\"]").start();
    let url = "http://shop.test/a";
    let invalidation = ["X-Answer: Cache-Group-Invalidation: \"a\"", "Content-Length: 0"];
    store(&without, url, &["Cache-Groups: \"a\"", "Cache-Tag: a"]);
    ask(&without, "POST", "http://shop.test/form", &invalidation);
    assert_eq!(stored(&without, &[url]).len(), 1);

    let server = builder(&origin, "").start();
    let urls: Vec<_> = (0..130).map(|number| format!("http://shop.test/{number}")).collect();
    for (number, url) in urls.iter().enumerate() {
        store(&server, url, &[&format!("Cache-Groups: \"group {number}\"")]);
    }
    let groups: Vec<_> = (0..129).map(|number| format!("\"group {number}\"")).collect();
    let field = format!("X-Answer: Cache-Group-Invalidation: {}", groups.join(", "));
    ask(&server, "POST", "http://shop.test/form", &[&field, "Content-Length: 0"]);
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    assert_eq!(stored(&server, &urls), [urls[129]].into());
    assert_eq!(server.stat("origins_invalidated_total"), 0.0);
}

// RFC: 9875-2-1, 9875-3-2
#[test]
fn as_many_groups_as_the_rfc_demands_are_read() {
    let (_origin, server) = start();
    let groups = |names: std::ops::Range<usize>| {
        let names: Vec<_> = names.map(|number| format!("\"{number:032}\"")).collect();
        names.join(", ")
    };
    let urls = ["http://shop.test/32", "http://shop.test/last", "http://shop.test/other"];
    for (url, names) in urls.iter().zip([0..32, 63..64, 64..65]) {
        store(&server, url, &[&format!("Cache-Groups: {}", groups(names))]);
    }
    for (names, left) in [(32..64, &[urls[0], urls[2]][..]), (31..32, &urls[2..])] {
        let field = format!("X-Answer: Cache-Group-Invalidation: {}", groups(names));
        ask(&server, "POST", "http://shop.test/form", &[&field, "Content-Length: 0"]);
        assert_eq!(stored(&server, left), left.iter().copied().collect());
        assert_eq!(stored(&server, &urls).len(), left.len());
    }
}

#[test]
fn an_answer_with_too_many_groups_invalidates_its_whole_origin() {
    let (_origin, server) = start();
    let all: Vec<_> = PAGES.iter().map(|(url, _)| *url).collect();
    all.iter().for_each(|url| store(&server, url, &["Cache-Groups: \"z\""]));
    let groups: Vec<_> = (0..300).map(|number| format!("\"{number}\"")).collect();
    let field = format!("X-Answer: Cache-Group-Invalidation: {}", groups.join(", "));
    ask(&server, "POST", "http://shop.test/form", &[&field, "Content-Length: 0"]);
    // Pages of another port or host remain.
    assert_eq!(stored(&server, &all), all[5..].iter().copied().collect());
    assert_eq!(server.stat("origins_invalidated_total"), 1.0);
}
