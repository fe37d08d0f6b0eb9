//! Purges as the plugins of content management systems send them.

use crate::common::{ask, builder, listed, origin, store, stored};

const TOP: &str = "purge_from = [\"127.0.0.1\"]";

#[test]
fn wordpress_purges_urls_and_prefixes_of_its_host() {
    let origin = origin();
    let server = builder(&origin, TOP).start();
    let (news, item) = ("http://www.shop.test/news", "http://www.shop.test/news/2?p=1");
    let (page, other) = ("http://www.shop.test/page", "http://blog.shop.test/news");
    let all = [news, item, page, other];
    let (default, exact) = (["X-Purge-Method: default"], ["X-Purge-Method: exact"]);
    let regex = ["X-Purge-Method: regex"];
    let cases: &[(&str, &[&str], &[&str], u64)] = &[
        ("http://www.shop.test/news", &default, &[item, page, other], 1),
        ("http://www.shop.test/news/2?p=1", &exact, &[news, page, other], 1),
        ("http://www.shop.test/news.*", &regex, &[page, other], 2),
        ("http://www.shop.test/news/.*", &[], &[news, page, other], 1),
        ("http://www.shop.test/.*", &regex, &[other], 3),
        ("http://none.shop.test/.*", &regex, &all, 0),
    ];
    for (url, fields, left, count) in cases {
        all.iter().for_each(|url| store(&server, url, &[]));
        let response = ask(&server, "PURGE", url, fields);
        assert_eq!(response.status, 200, "{url} {fields:?}");
        assert!(response.text().starts_with(&format!("{{\"purged\":{count},")), "{response:?}");
        assert_eq!(stored(&server, &all), left.iter().copied().collect(), "{url} {fields:?}");
    }
    store(&server, news, &[]);
    let soft = ask(&server, "PURGE", "http://www.shop.test/.*", &["Fastly-Soft-Purge: 1"]);
    assert_eq!(soft.status, 200);
    store(&server, news, &[]);
    assert_eq!(server.stat("validated_total"), 1.0, "a soft purge keeps the response");
}

#[test]
fn drupal_and_magento_purge_by_their_tags() {
    let origin = origin();
    let server = builder(&origin, TOP).start();
    let (first, second) = ("http://shop.test/1", "http://shop.test/2");
    let (third, other) = ("http://shop.test/3", "http://other.test/1");
    let all = [first, second, third, other];
    let root = "http://shop.test/";
    let pattern = "X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cms(,|$))";
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("BAN", &["Cache-Tags: node:1"], &[second, third, other]),
        ("BAN", &["Cache-Tags: node:1|node:2"], &[third, other]),
        ("BAN", &["Purge-Cache-Tags: node:2 none"], &[first, third, other]),
        ("PURGE", &["X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))"], &[first, second, other]),
        ("PURGE", &[pattern], &[first, second, other]),
        ("PURGE", &["X-Magento-Tags-Pattern: .*"], &[other]),
    ];
    for (method, fields, left) in cases {
        store(&server, first, &["Cache-Tags: node:1 node_list"]);
        store(&server, second, &["Purge-Cache-Tags: node:2"]);
        store(&server, third, &["X-Magento-Tags: cat_c,cat_p_1"]);
        store(&server, other, &["Cache-Tags: node:1", "X-Magento-Tags: cat_p_1"]);
        let before = origin.request_count();
        assert_eq!(ask(&server, method, root, fields).status, 200, "{method} {fields:?}");
        assert_eq!(origin.request_count(), before, "the purge went to the origin");
        assert_eq!(stored(&server, &all), left.iter().copied().collect(), "{method} {fields:?}");
    }
    let response = ask(&server, "GET", other, &[]);
    assert_eq!((response.field("cache-tags"), response.field("x-magento-tags")), (None, None));
}

#[test]
fn other_expressions_are_refused_and_purge_nothing() {
    let origin = origin();
    let server = builder(&origin, TOP).start();
    let url = "http://shop.test/abc";
    store(&server, url, &["X-Magento-Tags: cat_p_1"]);
    let refused: &[(&str, &str, &[&str])] = &[
        ("PURGE", "/a[bc].*", &["X-Purge-Method: regex"]),
        ("PURGE", "/.*bc.*", &[]),
        ("PURGE", "/abc?x.*", &[]),
        ("PURGE", "/abc", &["X-Purge-Method: regex"]),
        ("PURGE", "/abc", &["X-Purge-Method: wildcard"]),
        ("PURGE", "/.*", &["X-Purge-Method: regex", "X-Purge-Method: exact"]),
        ("PURGE", "/*", &[]),
        ("PURGE", "/.*bc", &[]),
        ("PURGE", "/ab.+", &[]),
        ("PURGE", "/.*?x", &["X-Purge-Method: default"]),
        ("PURGE", "/", &["X-Magento-Tags-Pattern: cat_.*"]),
        ("PURGE", "/", &["X-Magento-Tags-Pattern: .*", "Cache-Tags: a"]),
        ("BAN", "/", &["Cache-Tags: (node:1|node:2)"]),
        ("BAN", "/abc", &["X-Purge-Method: exact"]),
        ("BAN", "/abc", &[]),
        ("BAN", "/.*", &["X-Url: /a.*"]),
        ("BAN", "/", &["X-Host: shop.test", "X-Url: .*", "X-Content-Type: .*"]),
    ];
    for (method, path, fields) in refused {
        let response = ask(&server, method, &format!("http://shop.test{path}"), fields);
        assert_eq!(response.status, 400, "{method} {path} {fields:?}");
        assert!(response.text().contains("this form is unknown"), "{response:?}");
        assert_eq!(stored(&server, &[url]).len(), 1, "{method} {path} {fields:?}");
    }
    assert_eq!(server.stat("requests_refused_total"), refused.len() as f64);
    assert_eq!(server.stat("purge_requests_total"), 0.0);
    let star = "http://shop.test/a*b";
    store(&server, star, &[]);
    let exact = ask(&server, "PURGE", star, &["X-Purge-Method: exact"]);
    assert!(exact.text().starts_with("{\"purged\":1,"), "{exact:?}");
    let server = builder(&origin, &format!("tag_fields = ['xkey']\n{TOP}")).start();
    let pattern = "X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))";
    let response = ask(&server, "PURGE", url, &[pattern]);
    assert_eq!(response.status, 400, "the tags are not read: {response:?}");
}

/// Magento collects the tags of a change in one pattern.
#[test]
fn a_purge_can_name_many_tags() {
    let origin = origin();
    let server = builder(&origin, TOP).start();
    let url = "http://shop.test/last";
    store(&server, url, &["X-Magento-Tags: cat_p_299"]);
    let tags: Vec<_> = (0..300).map(|number| format!("((^|,)cat_p_{number}(,|$))")).collect();
    let pattern = format!("X-Magento-Tags-Pattern: {}", tags.join("|"));
    let response = ask(&server, "PURGE", "http://shop.test/", &[&pattern]);
    assert!(response.text().starts_with("{\"purged\":1,"), "{response:?}");
}

/// A program beside the cache may purge over HTTP without TLS.
#[test]
fn a_purge_reaches_both_schemes() {
    let origin = origin();
    let top = format!("trusted_proxies = ['127.0.0.1']\n{TOP}");
    let server = builder(&origin, &top).start();
    let from = "X-Forwarded-For: 127.0.0.1";
    for (host, path) in [("shop.test", "/1"), ("shop.test:80", "/1"), ("shop.test:80", "/.*")] {
        for scheme in ["http", "https"] {
            let scheme = format!("X-Forwarded-Proto: {scheme}");
            assert_eq!(ask(&server, "GET", "http://shop.test/1", &[from, &scheme]).status, 200);
        }
        assert_eq!(listed(&server, &[]), ["http://shop.test/1", "https://shop.test/1"]);
        let response = ask(&server, "PURGE", &format!("http://{host}{path}"), &[from]);
        assert!(response.text().starts_with("{\"purged\":2,"), "{response:?}");
        assert!(listed(&server, &[]).is_empty(), "{path}");
    }
    // Clients are redirected to TLS; a purge is not.
    let server = builder(&origin, &format!("https_redirect_port = 443\n{top}")).start();
    let https = "X-Forwarded-Proto: https";
    assert_eq!(ask(&server, "GET", "http://shop.test/1", &[from]).status, 308);
    assert_eq!(ask(&server, "GET", "http://shop.test/1", &[from, https]).status, 200);
    let response = ask(&server, "PURGE", "http://shop.test/1", &[from]);
    assert!(response.text().starts_with("{\"purged\":1,"), "{response:?}");
    let response = ask(&server, "PURGE", "http://shop.test/1", &["X-Forwarded-For: 192.0.2.1"]);
    assert_eq!(response.status, 403);
}
