//! Configurations whose restrictions Forebay does not have in the same form: no route may be more
//! open than the location that nginx applies.

use super::{files_of, import};

/// Each row has directives of `http`, of a server, and the lines that the route of `/` must have.
#[test]
fn addresses_of_clients_behind_proxies_are_the_same_or_refused() {
    let field = "real_ip_header X-Forwarded-For;";
    let list = "location / { allow 192.0.2.1; deny all; proxy_pass http://a; }";
    let allowed = "allow_from = [\"192.0.2.1\"]";
    let refused = "respond = \"403\"";
    for (http, server, wanted) in [
        ("", list.to_owned(), allowed),
        ("", format!("set_real_ip_from 10.0.0.1; {field} {list}"), allowed),
        ("set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For;", list.to_owned(), allowed),
        ("", format!("set_real_ip_from 10.0.0.0/8; real_ip_recursive on; {field} {list}"), allowed),
        // A client in the network could state any address in the field.
        ("", format!("set_real_ip_from 10.0.0.0/8; {field} {list}"), refused),
        ("", format!("set_real_ip_from 10.0.0.1; {list}"), refused),
        (
            "",
            format!("set_real_ip_from 10.0.0.1; real_ip_header CF-Connecting-IP; {list}"),
            refused,
        ),
        ("", format!("listen 80 proxy_protocol; {list}"), refused),
        (
            "set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For;",
            format!("set_real_ip_from 10.0.0.2; {list}"),
            allowed,
        ),
        (
            "server { server_name b; return 204; }",
            format!("set_real_ip_from 10.0.0.1; {field} {list}"),
            refused,
        ),
        (
            "",
            "location / { set_real_ip_from 10.0.0.1; real_ip_header X-Forwarded-For; \
             deny 192.0.2.1; proxy_pass http://a; }"
                .to_owned(),
            refused,
        ),
    ] {
        let text = format!("{http} server {{ server_name a.example; {server} }}");
        let found = import(&text);
        assert!(route(&found.toml, "/").contains(wanted), "{text}:\n{}", found.toml);
        let is_noted = found.notes.iter().any(|note| note.message.contains("behind a proxy"));
        assert_eq!(is_noted, wanted == refused, "{text}: {:?}", found.notes);
    }
}

#[test]
fn a_limit_by_address_behind_an_unknown_proxy_is_noted() {
    let found = import(
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s; \
         server { set_real_ip_from 10.0.0.1; limit_req zone=z; \
         location / { proxy_pass http://a; } }",
    );
    let is_noted = found.notes.iter().any(|note| note.message.contains("together"));
    assert!(is_noted && found.toml.contains("rate_limit"), "{:?}", found.notes);
}

/// The server's locations, a path, and a line that the route of the path must have.
type Case = (&'static str, &'static str, &'static str);

const REFUSED: &str = "respond = \"403\"";
const SERVED: &str = "cache = false";

/// Locations with regular expressions that are not carried over, which nginx prefers to prefixes.
const REGEXES: &[Case] = &[
    // Regular expressions that inherit a restriction.
    (
        "allow 10.0.0.1; deny all; location / { allow all; proxy_pass http://a; } \
             location ~ (?=\\.php) { proxy_pass http://a; }",
        "/",
        REFUSED,
    ),
    (
        "allow 10.0.0.1; deny all; location / { proxy_pass http://a; } \
             location ~ (?=\\.php) { proxy_pass http://a; }",
        "/",
        "allow_from = [\"10.0.0.1\"]",
    ),
    (
        "location / { proxy_pass http://a; } location ~ (?=x) { location ~ y { deny all; } }",
        "/",
        REFUSED,
    ),
    ("location / { proxy_pass http://a; } location ~ (?=x) { return 302 /login; }", "/", REFUSED),
    ("location / { proxy_pass http://a; } location ~ (?=x) { return 301 /moved; }", "/", SERVED),
    // Below `^~`, nginx does not look for those of the server, but for its own.
    (
        "location / { return 204; } location ~ (?=x) { deny all; } \
             location ^~ /a/ { proxy_pass http://a; }",
        "/a/",
        SERVED,
    ),
    (
        "location ~ (?=x) { deny all; } \
             location /a/ { location ^~ /a/b/ { proxy_pass http://a; } }",
        "/a/b/",
        REFUSED,
    ),
    (
        "location ~ (?=x) { deny all; } \
             location ^~ /a/ { location /a/b/ { proxy_pass http://a; } }",
        "/a/b/",
        SERVED,
    ),
    ("location ^~ /a/ { proxy_pass http://a; location ~ (?=x) { deny all; } }", "/a/", REFUSED),
    (
        "location /b/ { location ~ (?=x) { deny all; } } location /a/ { proxy_pass http://a; }",
        "/a/",
        SERVED,
    ),
];

/// Prefixes that end within a name.
const OPEN_ENDS: &[Case] = &[
    // Otherwise, these names have a route.
    (
        "location / { proxy_pass http://a; } location /wp-login { deny all; } \
             location /wp-login-old { }",
        "/",
        REFUSED,
    ),
    ("location ^~ / { proxy_pass http://a; } location /.ht { deny all; }", "/", REFUSED),
    (
        "location / { proxy_pass http://a; } location /a { location ~ x { deny all; } } \
             location /ab { }",
        "/",
        REFUSED,
    ),
    (
        "location / { proxy_pass http://a; } location /a/ { proxy_pass http://a; } \
             location /a/b { allow 10.0.0.1; deny all; proxy_pass http://a/; }",
        "/a/",
        SERVED,
    ),
    (
        "location / { proxy_pass http://a; } location /a/ { proxy_pass http://a; } \
             location /a/b { allow 10.0.0.1; deny all; proxy_pass http://a; }",
        "/",
        SERVED,
    ),
    (
        "deny 10.0.0.1; location / { proxy_pass http://a; } \
             location /a { proxy_pass http://a; }",
        "/",
        "deny_from = [\"10.0.0.1\"]",
    ),
    ("root @FILES@; location /wp-login { deny all; location /wp-login-x/ { } }", "/", REFUSED),
    // A location whose path a route cannot have.
    ("location / { proxy_pass http://a; } location /ä/ { deny all; }", "/", REFUSED),
    (
        "proxy_cache z; location / { proxy_pass http://a; } \
             location /account { proxy_cache off; proxy_pass http://a; } location /accounts { }",
        "/",
        "cache = false",
    ),
];

#[test]
fn the_route_of_a_prefix_is_as_closed_as_the_location_that_nginx_prefers() {
    for (server, path, wanted) in REGEXES.iter().chain(OPEN_ENDS) {
        let text = files_of(&format!("server {{ server_name a.example; {server} }}"));
        let found = import(&text).toml;
        let route = route(&found, path);
        assert!(route.contains(wanted), "{text}:\n{found}");
        assert_eq!(*wanted == REFUSED, route.contains(REFUSED), "{text}:\n{found}");
    }
}

#[test]
fn a_server_at_internal_addresses_is_not_served_at_others() {
    let admin = "server_name admin.example; location / { proxy_pass http://a; }";
    let shop = "server_name shop.example; location / { proxy_pass http://b; }";
    for (listen, other, is_refused) in [
        ("listen 127.0.0.1:80;", "listen 80;", true),
        ("listen 10.0.0.5:80;", "listen 80;", true),
        ("listen [::1]:80; listen 10.0.0.5:80;", "listen 80;", true),
        ("listen [::1]:80;", "listen 80;", false),
        ("listen 127.0.0.1:80;", "listen 192.0.2.1:80;", false),
        ("listen 127.0.0.1:443 ssl;", "listen 443 ssl;", true),
        ("listen 127.0.0.1:80;", "listen 127.0.0.1:80;", false),
        ("listen 127.0.0.1:80; listen 80;", "listen 80;", false),
        ("listen 192.0.2.1:80;", "listen 80;", false),
    ] {
        let text = format!("server {{ {listen} {admin} }} server {{ {other} {shop} }}");
        let found = import(&text);
        let site = found.toml.split("[[site]]").find(|site| site.contains("admin.example"));
        let site = site.expect("the site");
        assert_eq!(site.contains("respond = \"403\""), is_refused, "{text}:\n{}", found.toml);
        assert!(found.toml.contains("origin = \"http://b\""), "{text}:\n{}", found.toml);
        let is_noted = found.notes.iter().any(|note| note.message.contains("internal addresses"));
        assert_eq!(is_noted, is_refused, "{text}: {:?}", found.notes);
    }
    // Another port may be closed for clients outside.
    let text = format!("server {{ listen 8443 ssl; {admin} }} server {{ listen 443 ssl; {shop} }}");
    let found = import(&text).toml;
    assert!(found.contains("listen = [\"0.0.0.0:8443\"]"), "{found}");
}

/// Each row has directives of `http` or of the server, and whether `/` is refused.
#[test]
fn directives_of_other_modules_close_all_locations_inside() {
    for (around, inside, is_refused) in [
        ("access_by_lua_block { return }", "", true),
        ("access_by_lua_file a.lua;", "", true),
        ("server_rewrite_by_lua_block { return }", "", true),
        ("auth_gss on;", "", true),
        ("shib_request on;", "", true),
        ("auth_jwt x;", "", true),
        ("auth_jwt x;", "auth_jwt off;", false),
        ("auth_pam x;", "", true),
        ("js_access a.b;", "", true),
        ("modsecurity on;", "", true),
        ("modsecurity on; modsecurity_rules_file x;", "modsecurity off;", false),
        ("naxsi_mode_of_the_future strict;", "", true),
        ("ssl_reject_handshake on;", "", true),
        ("proxy_pass_request_headers off;", "", true),
        ("auth_request /a;", "auth_request off;", false),
        ("log_by_lua_block { return }", "", false),
        ("brotli on; more_set_headers x; geoip_country x;", "", false),
        ("if ($cookie_session = \"\") { return 302 /login; }", "", true),
        ("if ($cookie_session = \"\") { rewrite ^ /login redirect; }", "", true),
        ("if ($http_x_user = \"\") { return 301 https://sso.example/; }", "", true),
        ("if ($uri !~ ^/public) { return 301 https://b.example/; }", "", true),
        ("if ($uri ~ ^/private) { return 302 https://b.example/; }", "", true),
        ("if ($host = b.example) { return 302 /login; }", "", true),
        ("if ($host = b.example) { return 301 https://a.example$request_uri; }", "", false),
        ("if ($scheme != https) { return 302 https://$host$request_uri; }", "", false),
        ("if ($request_uri ~ ^/old) { return 301 /new; }", "", false),
        ("if ($request_method = OPTIONS) { return 204; }", "", false),
        ("if ($request_method = TRACE) { return 405; }", "", true),
        ("rewrite ^ /login redirect;", "", false),
        ("rewrite (.*) /login?to=$1 redirect;", "", true),
        ("rewrite ^/private/(.*)$ /login?to=$1 redirect;", "", false),
    ] {
        for is_outer in [true, false] {
            let (outer, inner) = if is_outer { (around, "") } else { ("", around) };
            if is_outer && (around.starts_with("if") || around.starts_with("rewrite")) {
                continue;
            }
            let text = format!(
                "{outer} server {{ server_name a.example; {inner} \
                 location / {{ {inside} proxy_pass http://a; }} }}"
            );
            let found = import(&text).toml;
            let is_closed = found.contains("respond = \"403\"")
                && (route(&found, "/").is_empty()
                    || route(&found, "/").contains("respond = \"403\""));
            assert_eq!(is_closed, is_refused, "{text}:\n{found}");
        }
    }
}

#[test]
fn an_outer_location_closes_the_locations_inside() {
    for around in [
        "access_by_lua_block { return }",
        "auth_jwt x;",
        "auth_request /a;",
        "allow 10.0.0.1; deny 10.0.0.0/8;",
    ] {
        let text = format!(
            "server {{ location / {{ proxy_pass http://a; }} location /a/ {{ {around} \
             location /a/b/ {{ proxy_pass http://a; }} }} }}"
        );
        let found = import(&text).toml;
        assert!(route(&found, "/a/b/").contains("respond = \"403\""), "{text}:\n{found}");
    }
}

#[test]
fn rewrites_to_a_login_close_the_paths_that_they_match() {
    let text = "server { rewrite ^/private/(.*)$ /login?to=$1 redirect; \
                location / { proxy_pass http://a; } \
                location = /private/x { proxy_pass http://a; } }";
    let found = import(text).toml;
    for path in ["/private/", "/private/x"] {
        assert!(route(&found, path).contains("respond = \"403\""), "{path}:\n{found}");
    }
    for (pattern, prefix) in [
        ("^/a/b/?$", "/a/"),
        ("^/a/?b", "/"),
        ("^/a/|/b", "/"),
        ("/a/", "/"),
        ("^/a/(.*)$", "/a/"),
        ("^(.*)$", "/"),
        ("^", "/"),
        ("^/a\\.b/", "/"),
    ] {
        assert_eq!(super::super::condition::prefix_of(pattern), prefix, "{pattern}");
    }
}

/// An origin may believe a field that nginx always sets.
#[test]
fn fields_that_state_rights_are_not_left_to_clients() {
    for (field, is_refused) in [
        ("X-Remote-User $remote_user", true),
        ("X-User $jwt_claim_sub", true),
        ("X-Verify \"$ssl_client_verify\"", true),
        // A rule sets these.
        ("X-Remote-User \"\"", false),
        ("X-Internal false", false),
        ("X-User $remote_user", true),
        ("X-Forwarded-Port $server_port", false),
        ("X-Scheme ${scheme}", false),
        ("Cookie \"\"", false),
        ("X-From edge-1", false),
    ] {
        let text =
            format!("server {{ location / {{ proxy_set_header {field}; proxy_pass http://a; }} }}");
        let found = import(&text).toml;
        let is_closed = route(&found, "/").contains("respond = \"403\"");
        assert_eq!(is_closed, is_refused, "{text}:\n{found}");
    }
}

/// Otherwise a client could choose any site of the origin.
#[test]
fn unknown_hosts_do_not_reach_an_origin_that_got_one_that_is_not_carried_over() {
    for (names, fields, is_open) in [
        ("server_name a.example;", "proxy_set_header Host $host;", true),
        ("server_name a.example;", "proxy_set_header Host b.example;", true),
        ("server_name a.example;", "proxy_set_header Host $http_x;", false),
        ("server_name a.example;", "", true),
        ("", "", true),
    ] {
        let text = format!(
            "server {{ {names} location / {{ location /a/ {{ {fields} proxy_pass http://a; }} }} }}"
        );
        let found = import(&text).toml;
        assert_eq!(found.contains("\"*\""), is_open, "{text}:\n{found}");
    }
}

/// The settings of the route with this path.
fn route<'t>(toml: &'t str, path: &str) -> &'t str {
    let has = |name: &str, route: &str| route.contains(&format!("\n{name} = \"{path}\"\n"));
    let mut routes = toml.split("[[site.route]]").skip(1);
    routes.find(|route| has("path", route) || has("path_prefix", route)).unwrap_or_default()
}

#[test]
fn the_note_about_signed_links_names_the_setting_for_signed_urls() {
    for directive in ["secure_link $arg_md5,$arg_expires;", "secure_link_md5 x;"] {
        let text = format!("server {{ location / {{ {directive} proxy_pass http://a; }} }}");
        let notes = import(&text).notes;
        let message = &notes.iter().find(|note| note.directive.starts_with("secure")).unwrap();
        assert!(message.message.contains("signed_urls"), "{message}");
    }
}
