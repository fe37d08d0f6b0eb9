//! `forebay purge`.

use std::collections::BTreeSet;

use crate::common::{ask, list, purge, said, start, store, stored};

/// URLs and the tags of their stored responses.
const STORED: &[(&str, &str)] = &[
    ("http://shop.test/", "home"),
    ("http://shop.test/a", "a x"),
    ("http://shop.test/ab", "b x"),
    ("http://shop.test:8080/a", "a"),
    ("http://www.shop.test/a", "a www"),
    ("http://img.www.shop.test/a", "a img"),
    ("http://workshop.test/a", "a x"),
    ("http://10.0.0.1/a", ""),
];

#[test]
fn selected_responses_go_and_all_others_stay() {
    let (origin, server) = start();
    let cases: &[(&[&str], &[usize])] = &[
        (&["--host", "shop.test"], &[0, 1, 2, 3]),
        (&["--host", "SHOP.test:80"], &[0, 1, 2]),
        (&["--host", "shop.test:8080"], &[3]),
        (&["--host", "*.shop.test"], &[4, 5]),
        (&["--host", "*.www.shop.test"], &[5]),
        (&["--host", "*.test"], &[0, 1, 2, 3, 4, 5, 6]),
        (&["--host", "10.0.0.1"], &[7]),
        (&["--host", "*"], &[0, 1, 2, 3, 4, 5, 6, 7]),
        (&["--host", "*", "--site", "other"], &[6, 7]),
        (&["--host", "nobody.test"], &[]),
        (&["--prefix", "http://shop.test/a"], &[1, 2]),
        (&["--prefix", "http://shop.test/ab"], &[2]),
        (&["--prefix", "http://shop.test"], &[0, 1, 2]),
        (&["--prefix", "http://shop.test:8080"], &[3]),
        (&["--prefix", "http://shop.test/a", "--site", "other"], &[]),
        (&["--tag", "a"], &[1, 3, 4, 5, 6]),
        (&["--tag", "A"], &[]),
        (&["--tag", "a and not (www or img)"], &[1, 3, 6]),
        (&["--tag", "a and x"], &[1, 6]),
        (&["--tag", "home or \"b\""], &[0, 2]),
        (&["--tag", "not a"], &[0, 2, 7]),
        (&["--tag", "x", "--site", "other"], &[6]),
        (&["--tag", "x", "--host", "shop.test"], &[1, 2]),
        (&["--tag", "a", "--prefix", "http://www.shop.test/"], &[4]),
        (&["http://shop.test/a"], &[1]),
        (&["http://shop.test/a", "--site", "other"], &[]),
    ];
    let urls: Vec<_> = STORED.iter().map(|(url, _)| *url).collect();
    for (flags, expected) in cases {
        for (url, tags) in STORED {
            store(&server, url, &[&format!("Surrogate-Key: {tags}")]);
        }
        let dropped = purge(&server, flags)["purged"].clone();
        assert_eq!(dropped, expected.len(), "{flags:?}");
        let left = stored(&server, &urls);
        let gone = urls.iter().enumerate().filter(|(_, url)| !left.contains(*url));
        let gone: BTreeSet<_> = gone.map(|(number, _)| number).collect();
        assert_eq!(gone, expected.iter().copied().collect(), "{flags:?}");
    }
    assert_eq!(origin.faults(), Vec::<String>::new());
    let dropped: usize = cases.iter().map(|(_, gone)| gone.len()).sum();
    assert_eq!(server.stat("purged_total"), dropped as f64);
}

#[test]
fn a_softly_purged_response_is_validated_before_its_next_use() {
    let (origin, server) = start();
    for flags in [&["--tag", "a"][..], &["--host", "shop.test"], &["http://shop.test/1"]] {
        store(&server, "http://shop.test/1", &["Surrogate-Key: a"]);
        let before = origin.request_count();
        assert_eq!(purge(&server, &[flags, &["--soft"]].concat())["purged"], 1, "{flags:?}");
        let line = &list(&server, &[])[0];
        assert_eq!((&line["soft"], &line["tags"][0]), (&true.into(), &"a".into()), "{flags:?}");
        let response = ask(&server, "GET", "http://shop.test/1", &[]);
        assert_eq!((response.status, response.text()), (200, "body".into()));
        let asked = origin.requests_since(before);
        assert_eq!(asked.len(), 1, "{flags:?}");
        assert!(
            asked[0].head.has("if-none-match"),
            "{flags:?}: the response was fetched as a whole"
        );
        let line = &list(&server, &[])[0];
        // A 304 without tags leaves the tags of the stored response unchanged.
        assert_eq!((&line["soft"], &line["tags"][0]), (&false.into(), &"a".into()), "{flags:?}");
        ask(&server, "GET", "http://shop.test/1", &[]);
        assert_eq!(origin.request_count(), before + 1, "{flags:?}: the response is fresh again");
    }
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let (_origin, server) = start();
    for number in 0..30 {
        store(&server, &format!("http://shop.test/p/{number:02}"), &["Surrogate-Key: p"]);
    }
    for flags in [&["--prefix", "http://shop.test/p/"][..], &["--tag", "p"]] {
        for soft in [&[][..], &["--soft"]] {
            let value = purge(&server, &[flags, soft, &["--dry-run"]].concat());
            assert_eq!(value["would_purge"], 30, "{value}");
            assert!(value["bytes"].as_u64().is_some_and(|bytes| bytes > 30 * 100), "{value}");
            let sample = value["sample"].as_array().expect("a sample");
            let urls: Vec<_> = sample.iter().map(|one| one["url"].as_str()).collect();
            let expected: Vec<_> =
                (0..10).map(|number| format!("http://shop.test/p/{number:02}")).collect();
            assert_eq!(urls, expected.iter().map(|url| Some(url.as_str())).collect::<Vec<_>>());
        }
    }
    let of_url = |url| purge(&server, &[url, "--dry-run"])["would_purge"].clone();
    assert_eq!(of_url("http://shop.test/p/07"), 1);
    assert_eq!(of_url("http://shop.test/p/0"), 0);
    assert!(list(&server, &[]).iter().all(|line| line["soft"] == false));
    assert_eq!((list(&server, &[]).len(), server.stat("purged_total")), (30, 0.0));
    let output = server.command(&["purge", "--tag", "p", "--dry-run"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("30 stored responses would be purged ("), "{text}");
    assert!(text.contains("\n  http://shop.test/p/09\n"), "{text}");
}

#[test]
fn all_variants_of_a_selected_response_go() {
    let (_origin, server) = start();
    for language in ["de", "en", "fr"] {
        let fields = [
            &format!("Accept-Language: {language}")[..],
            "X-Answer: Vary: Accept-Language",
            &format!("X-Answer: Surrogate-Key: all {language}"),
        ];
        ask(&server, "GET", "http://shop.test/v", &fields);
    }
    assert_eq!(list(&server, &[])[0]["variants"], 3);
    // Each tag belongs to a single variant.
    assert_eq!(purge(&server, &["--tag", "de"])["purged"], 1);
    assert_eq!(list(&server, &[])[0]["variants"], 2);
    assert_eq!(purge(&server, &["--host", "shop.test"])["purged"], 2);
    assert!(list(&server, &[]).is_empty());
}

#[test]
fn an_invalid_selection_is_refused_with_its_position() {
    let (_origin, server) = start();
    store(&server, "http://shop.test/a", &["Surrogate-Key: a"]);
    for (flags, parts) in [
        (&["--tag", "a and"][..], &["--tag: ", "\n  a and\n       ^\n"][..]),
        (&["--tag", "(a or b"], &["--tag: ", "\n  (a or b\n"]),
        (&["--tag", "a", "--site", "x"], &["--site: there is no site with this name: x"]),
        (&["--host", "http://a"], &["--host: ", "*.example.org"]),
        (&["--tag", "a,b"], &["--tag: write `or` or `and` between tags", "\n  a,b\n   ^\n"]),
        (&["--prefix", "http://shop.test/*"], &["--prefix: leave out the *"]),
        (&["http://shop.test/*"], &["http://shop.test/*: ", "`--prefix URL`"]),
        (&["--prefix", "shop.test/"], &["--prefix: ", "begins with http://"]),
        (&["http://shop.test/a", "--site", "x"], &["--site: there is no site"]),
    ] {
        for command in ["purge", "ls"] {
            if command == "ls" && !flags[0].starts_with("--") {
                continue;
            }
            let output = server.command(&[&[command], flags].concat());
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{command} {flags:?}: {said}");
            assert!(parts.iter().all(|part| said.contains(part)), "{command} {flags:?}: {said}");
        }
    }
    for flags in [
        &["purge"][..],
        &["purge", "--site", "shop"],
        &["purge", "http://a/", "--host", "a"],
        &["purge", "--host", "a", "--prefix", "http://a/"],
        &["purge", "--host", "a", "--sofd"],
        &["ls", "--limit", "x"],
    ] {
        assert_eq!(server.command(flags).status.code(), Some(2), "{flags:?}");
    }
    assert_eq!(list(&server, &[]).len(), 1);
}
