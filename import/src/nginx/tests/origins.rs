//! Requests that nginx sends to another origin than the route that would get them, and responses
//! that it does not store.

use super::import;

/// Each row has the locations of a server, a route, and a line that the route must have.
#[test]
fn no_origin_gets_the_requests_of_another() {
    let unavailable = "respond = \"503";
    for (server, heading, wanted) in [
        // Names beyond the end of a prefix.
        (
            "location / { proxy_pass http://a; } location /s { proxy_pass http://b; }",
            "path_regex = '^/s[^/]'",
            "origin = \"http://b\"",
        ),
        (
            "location / { proxy_pass http://a; } location /s { proxy_pass http://b/t; }",
            "path_regex = '^/s[^/]'",
            unavailable,
        ),
        (
            "location / { proxy_pass http://a; } location /s { return 301 /t; }",
            "path_regex = '^/s[^/]'",
            "redirect = \"301 /t\"",
        ),
        // Expressions that are not carried over.
        (
            "location / { proxy_pass http://a; location ~ x { proxy_pass http://b; } }",
            "path_prefix = \"/\"",
            unavailable,
        ),
        (
            "location / { proxy_pass http://a; location ~ x { fastcgi_pass b:9000; } }",
            "path_prefix = \"/\"",
            unavailable,
        ),
        (
            "location / { proxy_pass http://a; location ~ x { proxy_pass http://a; } }",
            "path_prefix = \"/\"",
            "cache = false",
        ),
        (
            "location / { proxy_pass http://a; } location ~ (?=x) { location ~ y { \
             proxy_pass http://b; } }",
            "path_prefix = \"/\"",
            unavailable,
        ),
        // Files that are tried first.
        (
            "location / { try_files $uri @b; proxy_pass http://a; }",
            "path_prefix = \"/\"",
            unavailable,
        ),
        (
            "location / { try_files $uri =404; proxy_pass http://a; }",
            "path_prefix = \"/\"",
            unavailable,
        ),
    ] {
        let found = import(&format!("server {{ server_name a.example; {server} }}"));
        let mut routes = found.toml.split("[[site.route]]").skip(1);
        let route = routes.find(|route| route.contains(&format!("\n{heading}\n")));
        assert!(route.is_some_and(|route| route.contains(wanted)), "{server}:\n{}", found.toml);
        let is_told = wanted != unavailable || !found.notes.is_empty();
        assert!(is_told, "{server}: {:?}", found.notes);
    }
}

/// A server whose names are left out is no site, so the default one would get its hosts.
#[test]
fn a_default_server_does_not_get_the_hosts_of_others() {
    let first = "server { server_name a.example; location / { proxy_pass http://a; } }";
    for (name, wanted) in [
        ("b.example", "names = [\"a.example\", \"*\"]"),
        ("~^b", "names = [\"a.example\"]"),
        ("mail.*", "names = [\"a.example\"]"),
        ("b.example ~^c", "names = [\"a.example\"]"),
    ] {
        for listen in ["", "listen 8080;"] {
            let found = import(&format!(
                "{first} server {{ server_name d.example; {listen} location / {{ \
                 proxy_pass http://a; }} }} server {{ server_name {name}; \
                 location / {{ proxy_pass http://b; }} }}"
            ));
            assert!(found.toml.contains(wanted), "{name} {listen}:\n{}", found.toml);
        }
    }
}

#[test]
fn a_zone_with_variables_may_be_off() {
    let found = import(
        "server { server_name a.example; location / { proxy_cache $zone; proxy_pass http://a; } }",
    );
    assert!(found.toml.contains("cache = false"), "{}", found.toml);
    assert!(
        found.notes.iter().any(|note| note.message.contains("not cached")),
        "{:?}",
        found.notes
    );
}

#[test]
fn rewrites_beside_an_answer_for_all_requests_are_told() {
    let found = import("server { server_name a.example; rewrite ^/a$ /b permanent; return 404; }");
    assert!(found.notes.iter().any(|note| note.directive == "rewrite"), "{:?}", found.notes);
}
