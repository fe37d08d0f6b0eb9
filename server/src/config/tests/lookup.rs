//! The site that serves a host, and the route of a path.

use super::super::*;

fn sites(names: &[&[&str]]) -> Sites {
    let text: String = names
        .iter()
        .enumerate()
        .map(|(i, names)| {
            format!("[[site]]\nname = \"{i}\"\nnames = {names:?}\norigin = \"http://h\"\n")
        })
        .collect();
    Config::from_toml(&text, "t").unwrap_or_else(|errors| panic!("{errors}")).sites
}

#[test]
fn a_host_finds_the_site_with_the_nearest_name() {
    let sites = sites(&[
        &["example.org", "WWW.Example.org", "[::1]", "10.0.0.1"],
        &["*.example.org", "*.net"],
        &["*.deep.example.org"],
    ]);
    let cases: &[(&str, Option<&str>)] = &[
        ("example.org", Some("0")),
        ("EXAMPLE.ORG", Some("0")),
        ("www.example.org", Some("0")),
        ("[::1]", Some("0")),
        ("10.0.0.1", Some("0")),
        ("img.example.org", Some("1")),
        ("a.b.c.example.org", Some("1")),
        ("deep.example.org", Some("1")),
        ("x.deep.example.org", Some("2")),
        ("x.y.deep.Example.Org", Some("2")),
        ("a.net", Some("1")),
        ("net", None),
        ("notexample.org", None),
        (".example.org", None),
        ("example.org.", None),
        ("example.com", None),
        ("", None),
    ];
    for (host, expected) in cases {
        let found = sites.lookup(host.as_bytes()).map(|site| &*site.name);
        assert_eq!(found, *expected, "{host:?}");
    }
    assert!(sites.lookup(&b"a.".repeat(200)).is_none());
    assert!(sites.lookup(&[0xff; 30]).is_none());
}

#[test]
fn a_star_takes_what_no_other_site_serves() {
    let sites = sites(&[&["*"], &["example.org"], &["*.org"]]);
    let cases = [("example.org", "1"), ("other.org", "2"), ("other.com", "0"), ("", "0")];
    for (host, expected) in cases {
        assert_eq!(sites.lookup(host.as_bytes()).unwrap().name, expected, "{host:?}");
    }
    assert_eq!(sites.lookup(&[b'a'; 300]).unwrap().name, "0");
}

/// Single paths come first, then regular expressions in the order of the file, then prefixes.
#[test]
fn a_path_finds_a_single_path_then_a_regex_then_a_prefix() {
    let routes = "[[site.route]]\npath_prefix = '/static/'\n\
                  [[site.route]]\npath_regex = '\\.(jpg|png)$'\n\
                  [[site.route]]\npath_regex = '^/static/.*\\.jpg$'\n\
                  [[site.route]]\npath_regex = '(?i)\\.PHP$'\n\
                  [[site.route]]\npath_regex = '^/caf(\u{e9}|%C3%A9)/'\n\
                  [[site.route]]\npath = '/static/logo.png'\n\
                  [[site.route]]\npath_prefix = '/own'\nbefore_regex = true\ncache = false\n\
                  [[site.route]]\npath_prefix = '/own/img'\n";
    let text = format!("[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://h\"\n{routes}");
    let config = Config::from_toml(&text, "t").unwrap();
    let site = config.sites.lookup(b"h").unwrap();
    for (path, expected) in [
        ("/", "/"),
        ("/a.jpg", r"\.(jpg|png)$"),
        ("/static/a.jpg", r"\.(jpg|png)$"),
        ("/static/a.css", "/static/"),
        ("/static/a.css?b.jpg", "/static/"),
        ("/a.jpg?b", r"\.(jpg|png)$"),
        ("/a.jpg/b", "/"),
        ("/a.Jpg", "/"),
        ("/index.php", r"(?i)\.PHP$"),
        ("/index.PhP?x", r"(?i)\.PHP$"),
        ("/static/logo.png", "/static/logo.png"),
        ("/static/logo.png?x", "/static/logo.png"),
        ("/static/logo2.png", r"\.(jpg|png)$"),
        ("/caf%C3%A9/x", "^/caf(\u{e9}|%C3%A9)/"),
        ("/own/a.jpg", "/own"),
        ("/own/img/a.jpg", r"\.(jpg|png)$"),
        ("/own/img/a.css", "/own/img"),
        ("*", "/"),
        ("a.jpg", "/"),
    ] {
        assert_eq!(site.route(path.as_bytes()).paths.text(), expected, "{path:?}");
    }
}

#[test]
fn a_path_finds_the_longest_prefix_of_whole_segments() {
    let prefixes = ["/static/", "/static", "/a/b", "/a", "/~user/"];
    let routes: String =
        prefixes.iter().map(|p| format!("[[site.route]]\npath_prefix = \"{p}\"\n")).collect();
    let text = format!("[[site]]\nname = \"s\"\nnames = [\"*\"]\norigin = \"http://h\"\n{routes}");
    let config = Config::from_toml(&text, "t").unwrap();
    let site = config.sites.lookup(b"h").unwrap();
    let cases = [
        ("/", "/"),
        ("/index.html", "/"),
        ("/static", "/static"),
        ("/static?a/b", "/static"),
        ("/static/?a", "/static/"),
        ("/?/static/", "/"),
        ("/static/", "/static/"),
        ("/static/x.css", "/static/"),
        ("/statics", "/"),
        ("/Static/x", "/"),
        ("/a", "/a"),
        ("/a/", "/a"),
        ("/a/bc", "/a"),
        ("/a/b", "/a/b"),
        ("/a/b/c", "/a/b"),
        ("/ab", "/"),
        ("/%7Euser/x", "/"),
        ("/~user/x", "/~user/"),
        ("*", "/"),
        ("", "/"),
    ];
    for (path, expected) in cases {
        assert_eq!(site.route(path.as_bytes()).paths.text(), expected, "{path:?}");
    }
}
