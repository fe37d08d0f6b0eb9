//! Locations with regular expressions, and the requests that nginx answers by them.

use super::super::pattern::{may_match_directory, may_match_file, translate};
use super::super::syntax::parse;
use super::{files_of, import};

fn translated(location: &str) -> Result<String, String> {
    let directives = parse(&format!("location {location} {{ }}"), "nginx.conf").expect("valid");
    translate(&directives[0])
}

#[test]
fn expressions_are_those_of_nginx_or_left_out() {
    for (location, wanted) in [
        (r"~ \.php$", Ok(r"\.php$")),
        (r"~* \.(jpg|png)$", Ok(r"(?i)\.(jpg|png)$")),
        (r"~ ^/(?:a|b)/", Ok("^/(?:a|b)/")),
        (r"~ /\.(?!ab)", Ok(r"/\.(?:(?:$|[^a])|a(?:$|[^b]))")),
        (r"~ /\.(?!a-).*", Ok(r"/\.(?:(?:$|[^a])|a(?:$|[^\-]))")),
        (r"~ (?!a)b", Err("look-around")),
        (r"~ (a)\1", Err("back-references")),
        (r"~ a++", Err("possessive")),
        ("~ 'a b'", Err("visible ASCII")),
        ("~ \u{e4}", Err("visible ASCII")),
        ("~ (a", Err("unclosed")),
    ] {
        let found = translated(location);
        match wanted {
            Ok(wanted) => assert_eq!(found.as_deref(), Ok(wanted), "{location}"),
            Err(reason) => {
                let message = found.expect_err(location);
                assert!(message.contains(reason), "{location}: {message}");
            }
        }
    }
}

/// A false answer must be certain, since the index of a directory is served then.
#[test]
fn an_expression_may_match_the_index_of_a_directory() {
    for (pattern, file, directory) in [
        (r"\.php$", false, false),
        (r"(?i)\.(?:JPG|css)$", false, false),
        (r"/\.ht", false, true),
        (r"^/(a|b)\.php$", false, false),
        (r"/\.", false, true),
        (r"/\.(?:(?:$|[^a])|a(?:$|[^b]))", false, true),
        (r"(^|/)\.", false, true),
        (r"(^|/)i", true, true),
        (r"(^|/)/i", true, true),
        (r"^/api/v[0-9]+/", false, true),
        (r"^/admin/.*", false, true),
        (r"^/admin/.*$", false, true),
        (r"/i.*", true, true),
        (r"\.*", true, true),
        (r"x(a|/ind)", true, true),
        (r"x+(a/|b/)", false, true),
        (r"/i(?:(?:$|[^a])|a(?:$|[^b]))", true, true),
        (r"/\.(?:(?:$|[^a])|a(?:$|[^/]))", true, true),
        (r"^/admin", false, true),
        (r"\.html$", true, false),
        (r"\.(php|html?)$", true, true),
        (r"(?i)INDEX", true, true),
        ("/ind", true, true),
        ("/a/ind", true, true),
        ("html", true, true),
        ("/$", false, true),
        ("x|html$", true, true),
        ("e.*", true, true),
        (r"[^/]+$", true, true),
        (r"/index\.html$", true, false),
        (r"/a/index\.html$", true, false),
    ] {
        assert_eq!(may_match_file(pattern, "index.html"), file, "{pattern}");
        assert_eq!(may_match_directory(pattern), directory, "{pattern}");
    }
}

/// Each row has directives of a server, and parts of its site.
const ROUTES: &[(&str, &[&str])] = &[
    (
        "location / { proxy_pass http://a; } location ~ \\.php$ { deny all; }",
        &["path_prefix = \"/\"\n", "path_regex = '\\.php$'\nrespond = \"403\""],
    ),
    (
        "location / { proxy_pass http://a; } location ~ x { proxy_pass http://b; } \
         location ^~ /a/ { deny all; } location /b/ { proxy_pass http://a; }",
        &[
            "path_prefix = \"/a/\"\nbefore_regex = true\nrespond = \"403\"",
            "path_prefix = \"/b/\"\nbefore_regex = false\n",
            "path_regex = 'x'\norigin = \"http://b\"",
        ],
    ),
    // Below `^~`, nginx does not look for the expressions of the server.
    (
        "location ~ x { deny all; } location ^~ /a/ { location /a/b/ { proxy_pass http://a; } }",
        &["path_prefix = \"/a/b/\"\nbefore_regex = true\n"],
    ),
    (
        "location ~ x { deny all; } location /a/ { location ^~ /a/b/ { proxy_pass http://a; } }",
        &["path_prefix = \"/a/b/\"\nbefore_regex = false\n"],
    ),
    // An expression that is left out restricts only those behind it.
    (
        "location ~ x { proxy_pass http://a; } location ~ (?=y) { deny all; } \
         location ~ z { proxy_pass http://a; }",
        &[
            "path_regex = 'x'\norigin_host",
            "path_regex = 'z'\nbody_bytes_max = 1048576\ncache = false\nrespond = \"403\"",
        ],
    ),
    // Names beyond the end of a prefix.
    (
        "location / { proxy_pass http://a; } location /adm.in { deny all; }",
        &[
            "path_prefix = \"/adm.in\"\n",
            "path_regex = '^/adm\\.in[^/]'\nrespond = \"403\"",
            "path_prefix = \"/\"\norigin_host = \"origin\"\nbody",
        ],
    ),
    (
        "location ~ x { proxy_pass http://a; } location ^~ /b { deny all; }",
        &["'^/b[^/]'\nrespond = \"403\"\n\n# nginx.conf:1\n[[site.route]]\npath_regex = 'x'"],
    ),
    (
        "location / { proxy_pass http://a; } location /a { deny all; } \
         location ~ ^/a[^/] { deny all; } location ~ ^/a[^/] { proxy_pass http://b; }",
        &["'^/a[^/]'\nrespond = \"403\"", "path_prefix = \"/\"\nbody"],
    ),
    // An internal redirect to the index, or to the last file of `try_files`.
    (
        "root @FILES@; location = /html/index.html { deny all; }",
        &["path_prefix = \"/\"\nrespond = \"403\""],
    ),
    (
        "root @FILES@; location ~ \\.html$ { deny all; }",
        &["path_prefix = \"/\"\nrespond = \"403\""],
    ),
    (
        "root @FILES@; location ~ \\.php$ { fastcgi_pass a; } location ~ /\\.ht { deny all; }",
        &["path_prefix = \"/\"\nfiles = \"@FILES@\"", "path_regex = '\\.php$'\nrespond = \"503"],
    ),
    ("root @FILES@; location /adm { deny all; }", &["path_prefix = \"/\"\nfiles = "]),
    ("root @FILES@; location /ind { deny all; }", &["path_prefix = \"/\"\nrespond = \"403\""]),
    (
        "root @FILES@; index x; location / { try_files $uri /app.html; } \
         location ~ ^/app\\.html$ { deny all; }",
        &["path_prefix = \"/\"\nrespond = \"403\""],
    ),
    (
        "root @FILES@; location / { try_files $uri $uri/ /app.html?$args; }",
        &["files_fallback = \"/app.html\""],
    ),
    (
        "location /a/ { alias @FILES@/; try_files $uri /a/b/app.html; }",
        &["files_fallback = \"/b/app.html\""],
    ),
    ("location /a/ { alias @FILES@/; try_files $uri /app.html; }", &["respond = \"503"]),
    ("location ~ ^/a/ { alias @FILES@/; }", &["respond = \"503"]),
    // A rewrite to a login comes before expressions.
    (
        "rewrite ^/a/(.*)$ /login?to=$1 redirect; location / { proxy_pass http://a; } \
         location ~ x { proxy_pass http://a; } location /a/b/ { proxy_pass http://a; }",
        &[
            "path_prefix = \"/a/b/\"\nbefore_regex = true\n",
            "path_prefix = \"/a/\"\nbefore_regex = true\nrespond = \"403\"",
        ],
    ),
];

#[test]
fn locations_become_routes_of_the_same_precedence() {
    for (server, wanted) in ROUTES {
        let text = files_of(&format!("server {{ server_name a.example; {server} }}"));
        let found = import(&text).toml;
        for wanted in *wanted {
            assert!(found.contains(&files_of(wanted)), "{text}: no {wanted}:\n{found}");
        }
    }
}

/// nginx never applies the inner location: it takes the longest prefix of the server first.
#[test]
fn a_location_that_is_never_applied_is_left_out() {
    let found = import(
        "server { server_name a.example; location / { proxy_pass http://a; } \
         location /a { location /a/b/c/ { proxy_pass http://a; } } location /a/b/ { deny all; } }",
    );
    assert!(!found.toml.contains("/a/b/c/"), "{}", found.toml);
    assert!(found.notes.iter().any(|note| note.message.contains("longer prefix")));
}
