//! Tags from the origin's answer to the store.

use forebay_testkit::{Signal, eventually};

use crate::common::{ask, builder, list, origin, purge, start, store, stored};

const URL: &str = "http://shop.test/t";

fn tags_of(server: &forebay_testkit::Server, url: &str) -> Vec<String> {
    let lines = list(server, &["--prefix", url]);
    let tags = lines.first().map(|line| line["tags"].as_array().cloned()).unwrap_or_default();
    tags.unwrap_or_default().iter().map(|tag| tag.as_str().unwrap_or("?").to_owned()).collect()
}

#[test]
fn every_field_brings_its_tags_and_clients_see_only_the_standards() {
    let answer = [
        "Surrogate-Key: s1 s2",
        "Cache-Tag: c1, c 2",
        "xkey: x1",
        "xkey: x2",
        "Cache-Groups: \"g1\";p=1, \"g 2\"",
    ];
    let all = ["c 2", "c1", "g 2", "g1", "s1", "s2", "x1", "x2"];
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("", &all, &["cache-groups"]),
        ("tags_shown = true", &all, &["surrogate-key", "cache-tag", "xkey", "cache-groups"]),
        ("tag_fields = [\"xkey\"]", &["x1", "x2"], &["surrogate-key", "cache-tag", "cache-groups"]),
        ("tag_fields = []", &[], &["surrogate-key", "cache-tag", "xkey", "cache-groups"]),
    ];
    for (top, expected, shown) in cases {
        let origin = origin();
        let server = builder(&origin, top).start();
        let fields: Vec<_> = answer.iter().map(|field| format!("X-Answer: {field}")).collect();
        let mut fields: Vec<_> = fields.iter().map(String::as_str).collect();
        let names = ["surrogate-key", "cache-tag", "xkey", "cache-groups"];
        // The requests make a miss, a hit, a 304, and answers that are not stored.
        let condition = [&fields[..], &["If-None-Match: \"v\""]].concat();
        for (method, fields) in
            [("GET", &fields), ("GET", &fields), ("GET", &condition), ("POST", &fields)]
        {
            let response = ask(&server, method, URL, fields);
            for name in names {
                let is_there = response.head.has(name);
                // A 304 has only the fields that the client's copy needs.
                let is_expected = shown.contains(&name) && response.status == 200;
                assert_eq!(is_there, is_expected, "{top} {method}: {response:?}");
            }
            if method == "GET" {
                assert_eq!(tags_of(&server, URL), *expected, "{top}");
            }
        }
        fields.push("X-Answer: Cache-Control: no-store");
        let response = ask(&server, "GET", "http://shop.test/never", &fields);
        for name in names {
            assert_eq!(response.head.has(name), shown.contains(&name), "{top}: {response:?}");
        }
        assert_eq!(origin.faults(), Vec::<String>::new());
    }
}

#[test]
fn a_304_brings_more_tags_and_takes_none_away() {
    let (_origin, server) = start();
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["Surrogate-Key: a b"], &[], &["a", "b"]),
        (&["Surrogate-Key: a b"], &["Surrogate-Key: c b"], &["a", "b", "c"]),
        (&["Surrogate-Key: a b"], &["Surrogate-Key:"], &["a", "b"]),
        (&[], &["xkey: c"], &["c"]),
        (&["Surrogate-Key: a", "xkey: x"], &["xkey: y"], &["a", "x", "y"]),
    ];
    for (number, (first, second, expected)) in cases.iter().enumerate() {
        let url = format!("http://shop.test/{number}");
        store(&server, &url, first);
        purge(&server, &[&url, "--soft"]);
        let before = server.stat("validated_total");
        store(&server, &url, second);
        assert_eq!(server.stat("validated_total"), before + 1.0, "{first:?}");
        assert_eq!(tags_of(&server, &url), *expected, "{first:?} {second:?}");
    }
    assert_eq!(purge(&server, &["--tag", "x and y and a"])["purged"], 1);
}

#[test]
fn a_response_stored_before_a_tag_field_was_set_gets_its_tags_with_a_304() {
    let origin = origin();
    let server = builder(&origin, "tag_fields = [\"cache-tag\"]").start();
    store(&server, URL, &["xkey: a", "Cache-Tag: b"]);
    let path = server.path("forebay.toml");
    let config = std::fs::read_to_string(&path).expect("it was written");
    let config = config.replacen("[\"cache-tag\"]", "[\"xkey\", \"cache-tag\"]", 1);
    std::fs::write(&path, config).expect("the folder is writable");
    assert!(server.command(&["reload"]).status.success());
    assert_eq!(tags_of(&server, URL), ["b"]);
    // The first 304 also removes the field from the stored response.
    for _ in 0..2 {
        purge(&server, &[URL, "--soft"]);
        store(&server, URL, &[]);
        assert_eq!(tags_of(&server, URL), ["a", "b"]);
    }
    assert_eq!(server.stat("validated_total"), 2.0);
    assert_eq!(purge(&server, &["--tag", "a"])["purged"], 1);
}

#[test]
fn a_response_whose_tags_cannot_be_stored_passes_unstored() {
    let (_origin, server) = start();
    let many = |count: usize| {
        let tags: Vec<_> = (0..count).map(|number| format!("t{number}")).collect();
        format!("Surrogate-Key: {}", tags.join(" "))
    };
    let long = |bytes: usize| format!("Cache-Tag: {}", "x".repeat(bytes));
    let doubled = format!("xkey: {}", "same ".repeat(200));
    let cases = [
        (many(64), true),
        (many(65), false),
        (long(250), true),
        (long(251), false),
        (doubled, true),
    ];
    for (number, (field, is_stored)) in cases.iter().enumerate() {
        let url = format!("http://shop.test/{number}");
        store(&server, &url, &[field]);
        assert_eq!(stored(&server, &[&url]).contains(url.as_str()), *is_stored, "{field:.40}");
        purge(&server, &["--host", "*"]);
    }
    assert_eq!(server.stat("tags_refused_total"), 2.0);
    eventually("the refused tags are in the log", || server.errors().contains("tags_refused"));
    assert!(
        server.errors().contains("/1: a response can have at most 64 tags"),
        "{}",
        server.errors()
    );
    // The next clients fetch by themselves, and their responses are not stored either.
    for _ in 0..3 {
        store(&server, "http://shop.test/again", &[&many(65)]);
    }
    assert_eq!(server.stat("tags_refused_total"), 3.0);
    // A 304 with such tags does not make the stored response usable.
    let url = "http://shop.test/304";
    store(&server, url, &["Surrogate-Key: a"]);
    purge(&server, &[url, "--soft"]);
    store(&server, url, &[&many(65)]);
    assert_eq!(server.stat("validated_total"), 0.0);
}

#[test]
fn a_purge_lasts_if_the_server_is_killed_at_once() {
    let origin = origin();
    let builder = builder(&origin, "");
    let dir = builder.path("cache").display().to_string();
    let mut server = builder.flag("--cache-dir", &dir).start();
    let urls: Vec<_> = (0..40).map(|number| format!("http://shop.test/{number}")).collect();
    let all: Vec<_> = urls.iter().map(String::as_str).collect();
    for flags in [&["--tag", "odd"][..], &["--prefix", "http://shop.test/3"], &["--host", "*"]] {
        for (number, url) in urls.iter().enumerate() {
            store(&server, url, &[["Surrogate-Key: even", "Surrogate-Key: odd"][number % 2]]);
        }
        let dropped = purge(&server, flags)["purged"].as_u64().expect("a number");
        server.signal(Signal::KILL);
        server.wait().expect("it ends");
        server = server.again().start();
        let left = stored(&server, &all);
        assert_eq!(left.len() as u64, 40 - dropped, "{flags:?}");
        assert!(dropped > 0 && purge(&server, flags)["purged"] == 0, "{flags:?}");
        // The soft purge must last as well.
        let kept = purge(&server, &["--host", "*", "--soft"])["purged"].clone();
        server.signal(Signal::KILL);
        server.wait().expect("it ends");
        server = server.again().start();
        let lines = list(&server, &[]);
        assert!(lines.iter().all(|line| line["soft"] == true), "{flags:?}");
        assert_eq!(kept, lines.len(), "{flags:?}");
    }
}

#[test]
fn rules_make_tags_and_hosts_and_purges_find_both() {
    let origin = origin();
    let builder = builder(&origin, "");
    std::fs::write(
        builder.path("shop.conf"),
        "cond %{READ_RESPONSE_HDR_HOOK}\nadd-header xkey \"ruled %{STATUS}\"\n\n\
         cond %{REMAP_PSEUDO_HOOK}\ncond %{CLIENT-URL:PATH} =moved\n\
         set-destination HOST inner.test\n",
    )
    .expect("the folder is writable");
    let config = std::fs::read_to_string(builder.path("forebay.toml")).expect("it was written");
    let config = config.replacen("name = \"shop\"", "name = \"shop\"\nrules = \"shop.conf\"", 1);
    let server = builder.config(&config).start();
    let (moved, inner) = ("http://shop.test/moved", "http://inner.test/moved");
    store(&server, moved, &["Surrogate-Key: a"]);
    assert_eq!(tags_of(&server, inner), ["200", "a", "ruled"]);
    // The site no longer serves this host, but still has stored responses for it.
    assert_eq!(purge(&server, &["--host", "inner.test"])["purged"], 1);
    store(&server, moved, &["Surrogate-Key: a"]);
    assert_eq!(purge(&server, &["--prefix", inner, "--tag", "ruled"])["purged"], 1);
    for soft in [&[inner, "--soft"][..], &[inner]] {
        store(&server, moved, &[]);
        assert_eq!(purge(&server, &[inner, "--dry-run"])["would_purge"], 1);
        assert_eq!(purge(&server, soft)["purged"], 1, "{soft:?}");
    }
    assert!(list(&server, &[]).is_empty());
}

#[test]
fn tags_outlive_the_server() {
    let origin = origin();
    let builder = builder(&origin, "");
    let dir = builder.path("cache").display().to_string();
    let mut server = builder.flag("--cache-dir", &dir).start();
    let (first, second) = ("http://shop.test/1", "http://shop.test/2");
    for end in [Signal::TERM, Signal::KILL] {
        store(&server, first, &["Surrogate-Key: a both"]);
        store(&server, second, &["Cache-Groups: \"b\", \"both\""]);
        server.signal(end);
        server.wait().expect("it ends");
        server = server.again().start();
        assert_eq!(tags_of(&server, first), ["a", "both"]);
        assert_eq!(stored(&server, &[first, second]).len(), 2, "after {end:?}");
        assert_eq!(purge(&server, &["--tag", "b"])["purged"], 1);
        assert_eq!(stored(&server, &[first, second]), [first].into());
        assert_eq!(purge(&server, &["--tag", "both"])["purged"], 1);
        assert!(stored(&server, &[first, second]).is_empty());
    }
}
