//! `forebay ls`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use forebay_testkit::{Origin, Request, Script, Server};

use crate::common::{ask, builder, list, listed, origin, said, start, store};

#[test]
fn stored_responses_are_listed_in_order_with_their_properties() {
    let (_origin, server) = start();
    let urls = [
        "http://other.test/",
        "http://shop.test/a",
        "http://shop.test/a/b",
        "http://shop.test/b",
        "http://a.shop.test/z",
        "http://b.shop.test/a",
        "http://shop.test:81/a",
    ];
    for url in urls.iter().rev() {
        let answer = ["Surrogate-Key: t2 t1", "Cache-Control: max-age=100", "Age: 40"];
        store(&server, url, &answer);
    }
    assert_eq!(listed(&server, &[]), urls);
    assert_eq!(listed(&server, &["--prefix", "http://shop.test/a"]), urls[1..3]);
    assert_eq!(listed(&server, &["--host", "*.shop.test"]), urls[4..6]);
    let of_host = [urls[1], urls[2], urls[3], urls[6]];
    assert_eq!(listed(&server, &["--tag", "t1", "--host", "shop.test"]), of_host);
    assert_eq!(listed(&server, &["--tag", "t3"]), [""; 0]);
    assert_eq!(listed(&server, &["--site", "other"]), urls[..1]);

    ask(&server, "GET", urls[0], &[]);
    let line = &list(&server, &["--site", "other"])[0];
    assert_eq!((&line["site"], &line["soft"]), (&"other".into(), &false.into()), "{line}");
    assert_eq!(line["tags"], serde_json::json!(["t1", "t2"]));
    let number = |name: &str| line[name].as_i64().expect("a number");
    assert!((40..60).contains(&number("age_s")), "{line}");
    assert!((40..=60).contains(&number("fresh_for_s")), "{line}");
    assert!(number("bytes") > 100 && number("uses") == 1 && number("variants") == 0, "{line}");
    let output = server.command(&["ls"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 1 + urls.len(), "{text}");
    let row =
        text.lines().find(|row| row.contains("http://other.test/")).expect("the list has the row");
    assert!(row.contains("  1    0 ") && row.ends_with("t1,t2"), "{text}");

    // The reasons are those of Cache-Status.
    assert!(line["fwd"].is_null() && line["detail"].is_null(), "{line}");
    assert!(server.command(&["purge", "--host", "other.test", "--soft"]).status.success());
    let line = &list(&server, &["--site", "other"])[0];
    assert_eq!(line["fwd"], "stale", "{line}");
}

/// The tag contains U+009B, which starts a terminal control sequence, and U+202E, which reverses
/// the text after it.
#[test]
fn a_tag_does_not_steer_the_terminal() {
    let tag = "a\u{9b}2J\u{202e}b";
    let origin = Origin::start(move |_: &Request| {
        let key = format!("Surrogate-Key: {tag}");
        Script::answer("200 OK", &[&key, "Cache-Control: max-age=600"], b"body")
    });
    let server = builder(&origin, "").start();
    store(&server, "http://shop.test/", &[]);
    assert_eq!(list(&server, &[])[0]["tags"], serde_json::json!([tag]));
    for flags in [&["ls", "--json"][..], &["ls"]] {
        let text = String::from_utf8(server.command(flags).stdout).expect("text");
        assert!(text.contains("2J") && !text.contains(['\u{9b}', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn a_list_goes_on_where_the_last_one_ended() {
    let (_origin, server) = start();
    let mut urls = Vec::new();
    for host in ["a.test", "shop.test", "www.shop.test"] {
        urls.extend((0..10).map(|number| format!("http://{host}/{number}")));
    }
    urls.iter().for_each(|url| store(&server, url, &[]));
    let (found, after) = all_pages(&server, &["--limit", "7"]);
    assert_eq!(found, urls);
    let behind = ["--host", "shop.test", "--after", "shop http://shop.test/7"];
    assert_eq!(listed(&server, &behind), urls[18..20]);
    assert_eq!(listed(&server, &["--host", "a.test", "--after", &after]), [""; 0]);
}

/// A host without a port counts as two selections for each site.
#[test]
fn a_list_of_more_than_one_selection_goes_on_from_any_limit() {
    let (_origin, server) = start();
    let urls = [80, 80, 80, 8080, 81].iter().enumerate();
    let urls: Vec<_> = urls.map(|(n, port)| format!("http://shop.test:{port}/{n}")).collect();
    urls.iter().for_each(|url| store(&server, url, &[]));
    let urls: Vec<_> = urls.iter().map(|url| url.replace(":80/", "/")).collect();
    for limit in 1..=urls.len() {
        let flags = ["--host", "shop.test", "--limit", &limit.to_string()];
        let (found, _) = all_pages(&server, &flags);
        assert_eq!(found, urls, "limit {limit}");
    }
}

/// Returns the URLs of all pages of the list. Each page starts where the previous page ended.
fn all_pages(server: &Server, flags: &[&str]) -> (Vec<String>, String) {
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let after_flags = after.iter().flat_map(|after| ["--after", after]);
        let flags: Vec<_> =
            ["ls", "--json"].into_iter().chain(flags.iter().copied()).chain(after_flags).collect();
        let output = server.command(&flags);
        assert!(output.status.success(), "{output:?}");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            found.push(line["url"].as_str().expect("a URL").to_owned());
        }
        let said = said(&output);
        let Some(rest) = said.trim_end().strip_prefix("there may be more; continue with --after '")
        else {
            assert_eq!(said, "");
            return (found, after.unwrap_or_default());
        };
        after = Some(rest.strip_suffix('\'').expect("a quote").to_owned());
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let (_origin, server) = start();
    // The list is longer than a pipe's buffer.
    for number in 0..800 {
        let url = format!("http://shop.test/{}/{number:04}", "x".repeat(100));
        store(&server, &url, &[]);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["ls", "--json", "--admin"])
        .arg(server.admin())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert!(line.contains("/0000\""), "{line}");
    drop(output);
    let mut errors = String::new();
    let mut stderr = child.stderr.take().expect("the output is piped");
    stderr.read_to_string(&mut errors).expect("text");
    assert_eq!((child.wait().expect("it ends").code(), errors.as_str()), (Some(0), ""));
    assert_eq!(listed(&server, &[]).len(), 800);
}

#[test]
fn a_list_is_reported_as_incomplete_if_the_server_dies() {
    let origin = origin();
    let mut server = builder(&origin, "").start();
    store(&server, "http://shop.test/", &[]);
    server.stop();
    let output = server.command(&["ls"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no answer from the server"), "{output:?}");
}
