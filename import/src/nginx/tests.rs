//! Single decisions, and texts that are broken in many ways.

mod access;
mod addresses;
mod files;
mod origins;
mod regex;
mod request_limits;
mod rewriting;

use std::path::{Path, PathBuf};

use super::caching::{duration, size};
use super::redirect::{Names, target};
use super::syntax::{NginxDirective, parse};
use super::translate;
use crate::{Import, ImportOptions};

const SEEDS: &[&str] = &[
    include_str!("../../tests/golden/three-sites.conf"),
    include_str!("../../tests/golden/access.conf"),
    include_str!("../../tests/golden/wordpress.conf"),
];

fn import(text: &str) -> Import {
    let directives = parse(text, "nginx.conf").expect("valid syntax");
    translate(directives, PathBuf::from("/etc/nginx"), &ImportOptions::default())
}

/// The text with the name of a directory that exists.
fn files_of(text: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    text.replace("@FILES@", &folder.display().to_string())
}

fn words(text: &str) -> Vec<String> {
    let directives = parse(text, "nginx.conf").expect("valid syntax");
    let of = |one: &NginxDirective| [vec![one.name.clone()], one.args.clone()].concat();
    directives.iter().flat_map(of).collect()
}

#[test]
fn words_are_read_as_nginx_reads_them() {
    for (text, wanted) in [
        ("a b;", vec!["a", "b"]),
        ("a 'b c' \"d;\";", vec!["a", "b c", "d;"]),
        ("a # b;\n c;", vec!["a", "c"]),
        (r#"a "\"" '\'' \t\;;"#, vec!["a", "\"", "'", "\t\\;"]),
        ("a ${b}c;", vec!["a", "${b}c"]),
        (r"a ~ \.php$;", vec!["a", "~", r"\.php$"]),
        ("a x#y;", vec!["a", "x#y"]),
        ("a \"\";", vec!["a", ""]),
    ] {
        assert_eq!(words(text), wanted, "{text}");
    }
}

#[test]
fn urls_lead_only_to_hosts_that_the_file_names() {
    let names = Names { scheme: Some("http"), name: Some("example.org") };
    for (url, wanted) in [
        ("https://$host$request_uri", Some("https://$host$uri")),
        ("$scheme://$server_name$uri", Some("http://example.org$path")),
        ("https://a.example$uri$is_args$args", Some("https://a.example$uri")),
        ("/b$is_args$args", Some("/b$query")),
        ("$request_uri", None),
        ("//evil", None),
        ("https://$host.evil$uri", Some("https://$host.evil$path")),
        ("https://${host}$request_uri", Some("https://$host$uri")),
        ("https://$hostname$request_uri", None),
        ("https://${host}x/", None),
        ("https://$http_x/", None),
        ("https://a@b/", None),
        ("https://$request_uri", None),
        ("/a b", None),
        ("/$uri", None),
    ] {
        assert_eq!(target(url, &names).as_deref(), wanted, "{url}");
    }
}

#[test]
fn times_and_sizes_have_units() {
    for (text, wanted) in [
        ("10", Some("10s")),
        ("5m", Some("5m")),
        ("2w", Some("14d")),
        ("9y", None),
        ("0", Some("0s")),
        ("90000h", Some("365d")),
        ("1h30m", None),
    ] {
        assert_eq!(duration(text).as_deref(), wanted, "{text}");
    }
    assert_eq!(size("10m"), Some(10 << 20));
    assert_eq!(size("x"), None);
}

/// Rules that refuse requests, or keep answers out of the cache, must never be dropped in silence.
#[test]
fn nothing_becomes_more_open() {
    for (inside, wanted) in [
        ("deny all; proxy_pass http://a;", "respond = \"403\""),
        ("allow 10.0.0.1; deny 10.0.0.0/8; proxy_pass http://a;", "respond = \"403\""),
        (
            "auth_basic x; auth_basic_user_file no-such-file; proxy_pass http://a;",
            "respond = \"403\"",
        ),
        ("satisfy any; allow 10.0.0.1; deny all; proxy_pass http://a;", "respond = \"403\""),
        (
            "access_by_lua_block { if x then return {} end } proxy_pass http://a;",
            "respond = \"403\"",
        ),
        ("limit_except GET { deny all; } proxy_pass http://a;", "respond = \"403\""),
        ("if ($x) { return 403; } proxy_pass http://a;", "respond = \"403\""),
        ("location ~ x { deny all; } proxy_pass http://a;", "respond = \"403\""),
        ("proxy_pass http://a/other;", "respond = \"503"),
        ("internal; proxy_pass http://a;", "respond = \"404\""),
        ("proxy_pass http://a;", "cache = false"),
        ("proxy_cache z; proxy_no_cache $skip; proxy_pass http://a;", "cache = false"),
        ("proxy_cache z; proxy_cache_key $uri$skip; proxy_pass http://a;", "cache = false"),
        ("proxy_cache z; proxy_cache_key a; proxy_pass http://a;", "cache = false"),
        (
            "location ~ x { proxy_pass http://a; } proxy_cache off; proxy_pass http://a;",
            "cache = false",
        ),
        (
            "proxy_cache z; proxy_cache_key $uri$http_x; proxy_pass http://a;",
            "key_fields = [\"x\"]",
        ),
        (
            "proxy_cache z; proxy_no_cache $cookie_s; proxy_pass http://a;",
            "bypass_cookies = [\"s\"]",
        ),
        ("rewrite ^/x/(.*) /$1 break; proxy_pass http://a;", "respond = \"503"),
        ("proxy_pass http://$x;", "respond = \"503"),
    ] {
        let text = format!("server {{ server_name a.example; location / {{ {inside} }} }}");
        let found = import(&text).toml;
        let route = found.split("[[site.route]]").nth(1).unwrap_or_default();
        assert!(route.contains(wanted), "{inside}:\n{found}");
    }
}

#[test]
fn a_rule_of_the_server_or_of_http_refuses_in_each_location() {
    for text in [
        "deny all; server { location / { proxy_pass http://a; } }",
        "server { deny all; location / { proxy_pass http://a; } }",
        "auth_request /a; server { location / { proxy_pass http://a; } }",
        "server { ssl_verify_client on; location / { proxy_pass http://a; } }",
        "server { if ($x) { return 403; } return 301 https://a.example/; }",
    ] {
        let found = import(text).toml;
        assert!(found.contains("respond = \"403\""), "{text}:\n{found}");
    }
}

/// Otherwise `/admin` would get the open route of `/`.
#[test]
fn a_path_without_its_final_slash_is_redirected() {
    let found = import(
        "server { location / { proxy_pass http://a; } \
         location /admin/ { deny all; proxy_pass http://a; } }",
    );
    let wanted = "path = \"/admin\"\nredirect = \"301 /admin/$query\"";
    assert!(found.toml.contains(wanted), "{}", found.toml);
}

/// nginx looks at the extension of the path first.
#[test]
fn a_fixed_answer_has_the_type_of_its_path() {
    let types = "types { text/x-plain txt; } default_type a/b;";
    for (location, wanted) in [
        ("= /robots.txt", "text/x-plain"),
        ("= /robots", "a/b"),
        ("= /a.png", "a/b"),
        ("/robots.txt", "a/b"),
    ] {
        let text = format!("{types} server {{ location {location} {{ return 200 x; }} }}");
        let found = import(&text).toml;
        assert!(found.contains(&format!("respond_type = \"{wanted}\"")), "{text}:\n{found}");
    }
}

/// Each row has directives of a server, and a part of its site.
#[test]
fn each_route_has_the_origins_of_its_location() {
    for (server, wanted) in [
        (
            "location / { proxy_pass http://a; } location /b/ { proxy_pass http://b; }",
            "path_prefix = \"/b/\"\norigin = \"http://b\"",
        ),
        (
            "location / { proxy_pass http://a; } location /b/ { proxy_pass http://g; }",
            "path_prefix = \"/b/\"\nbalance = \"least\"\norigin = [\n    { url = \"http://c\", \
             weight = 2 },\n    { url = \"unix:/run/d.sock\", backup = true },\n]",
        ),
        (
            "location / { proxy_pass http://h; }",
            "origin = [\n    { url = \"http://c\", weight = 3 },\n    { url = \"http://d\" },\n]",
        ),
        (
            "location / { proxy_pass http://a; } location /b/ { deny all; proxy_pass http://b; }",
            "path_prefix = \"/b/\"\nrespond = \"403\"",
        ),
        (
            "location / { proxy_pass http://a; } location /b/ { \
             proxy_set_header X-Remote-User $remote_user; proxy_pass http://b; }",
            "path_prefix = \"/b/\"\nrespond = \"403\"",
        ),
        ("location / { proxy_pass http://unix:/run/a.sock; }", "origin = \"unix:/run/a.sock\""),
        ("location / { proxy_pass http://unix:/run/a.sock:/; }", "origin = \"unix:/run/a.sock\""),
        ("location / { proxy_pass http://unix:/run/a.sock:/b; }", "respond = \"503"),
        ("location / { proxy_pass https://unix:/run/a.sock; }", "respond = \"503"),
    ] {
        let text = format!(
            "upstream g {{ least_conn; server c weight=2; server unix:/run/d.sock backup; }} \
             upstream h {{ server c; server d; server c weight=2; server d backup; }} \
             server {{ server_name a.example; {server} }}"
        );
        let found = import(&text).toml;
        assert!(found.contains(wanted), "{text}:\n{found}");
    }
}

/// HSTS of a server is in its redirects, too.
#[test]
fn redirects_have_hsts() {
    let found = import(
        "server { add_header Strict-Transport-Security max-age=5; rewrite ^/a$ /b permanent; \
         location /c/ { proxy_pass http://a; } location = /d { return 301 /e; } }",
    );
    let count = found.toml.matches("hsts = \"max-age=5\"").count();
    assert_eq!(count, found.toml.matches("[[site.route]]").count(), "{}", found.toml);
}

/// Each text ends with a translation or an error, however broken it is.
#[test]
fn broken_texts_never_stop_the_program() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap_or(0)
    };
    let special = b"{};\"'\\#$ \n~=*()[]/:\x00\xff";
    for turn in 0..2000 {
        let mut text = SEEDS[turn % SEEDS.len()].as_bytes().to_vec();
        if turn % 4 == 0 {
            text = (0..next(300)).map(|_| special[next(special.len())]).collect();
        }
        for _ in 0..=next(4) {
            let at = next(text.len() + 1);
            match next(3) {
                0 => text.truncate(at),
                1 => text.insert(at, special[next(special.len())]),
                _ => {
                    let end = (at + next(40)).min(text.len());
                    text.drain(at..end);
                }
            }
        }
        if let Ok(directives) = parse(&String::from_utf8_lossy(&text), "nginx.conf") {
            translate(directives, PathBuf::from("/etc/nginx"), &ImportOptions::default());
        }
    }
    let deep = "a{".repeat(100_000);
    assert!(parse(&deep, "nginx.conf").is_err());
}

/// Each row has directives of a server, and whether its route decompresses.
#[test]
fn gunzip_holds_for_the_locations_that_have_it() {
    for (server, wanted) in [
        ("gunzip on; location / { proxy_pass http://a; }", true),
        ("location / { gunzip on; proxy_pass http://a; }", true),
        ("gunzip on; location / { gunzip off; proxy_pass http://a; }", false),
        ("location / { proxy_pass http://a; }", false),
    ] {
        let found = import(&format!("server {{ server_name a.example; {server} }}"));
        assert_eq!(found.toml.contains("decompress = true"), wanted, "{server}: {}", found.toml);
        let is_told = found.notes.iter().any(|note| note.to_string().contains("gunzip"));
        assert!(!is_told, "{server}: {:?}", found.notes);
    }
}
