//! Locations that serve files.

use super::{files_of, import};

/// Each row has directives of a server, and whether its first route has the page.
#[test]
fn files_are_pages_of_errors() {
    let exact = "location = /index.html { root @FILES@/html; }";
    let proxied = "location / { proxy_pass http://a; }";
    for (server, is_own, is_of_origin) in [
        (format!("error_page 502 504 /index.html; {exact} {proxied}"), true, false),
        (
            format!("error_page 502 504 /index.html; proxy_intercept_errors on; {exact} {proxied}"),
            true,
            true,
        ),
        ("error_page 502 504 /index.html; root @FILES@/html;".to_owned(), true, true),
        (
            "error_page 502 504 /index.html; root @FILES@/html; location / { }".to_owned(),
            true,
            true,
        ),
        (format!("error_page 502 =200 /index.html; {exact} {proxied}"), false, false),
        (format!("error_page 502 /missing.html; {exact} {proxied}"), false, false),
        (
            format!(
                "error_page 502 /index.html; location = /index.html {{ deny all; \
                 root @FILES@/html; }} {proxied}"
            ),
            false,
            false,
        ),
        (format!("error_page 502 https://b.example/; {proxied}"), false, false),
        (format!("error_page 502 /index.html; root @FILES@/html; {proxied}"), false, false),
    ] {
        let text = files_of(&format!("server {{ server_name a.example; {server} }}"));
        let found = import(&text);
        let route = found.toml.split("[[site.route]]").find(|one| one.contains("path_prefix"));
        let pages = files_of(
            "error_pages = [\"502=@FILES@/html/index.html\", \"504=@FILES@/html/index.html\"]",
        );
        let route = route.unwrap_or_default();
        assert_eq!(route.contains(&format!("\n{pages}")), is_own, "{text}:\n{}", found.toml);
        let is_written = route.contains(&format!("\norigin_{pages}"));
        assert_eq!(is_written, is_of_origin, "{text}:\n{}", found.toml);
        let is_noted = found.notes.iter().any(|note| note.directive == "error_page");
        assert_eq!(is_noted, !is_own, "{text}: {:?}", found.notes);
    }
}

/// Each row has directives of a server, and a line of the route of `/` or `/a/`, the last one.
#[test]
fn files_are_served_as_nginx_serves_them_or_not_at_all() {
    for (server, wanted) in [
        ("root @FILES@; location / { try_files $uri $uri/ =404; }", "files = \"@FILES@\""),
        ("root @FILES@; location / { try_files $uri =404; }", "files = \"@FILES@\""),
        ("root @FILES@; location / { }", "heuristic_percent = 0"),
        ("root @FILES@;", "files = \"@FILES@\""),
        ("root @FILES@/; index a.html a.php;", "files_index = [\"a.html\"]"),
        ("root @FILES@; gzip on; gzip_static on;", "files_precompressed = true"),
        ("root @FILES@; gzip on;", "compress = [\"gzip\"]"),
        ("location /a/ { alias @FILES@/; }", "files_strip_prefix = true"),
        ("location /static/ { alias @FILES@/static/; }", "files = \"@FILES@\"\nheur"),
        ("location = /users { alias @FILES@/users; }", "files = \"@FILES@\"\nheur"),
        ("location = /u { alias @FILES@/users; }", "respond = \"503"),
        ("location /a/ { alias @FILES@; }", "respond = \"503"),
        ("root /no/such/directory;", "respond = \"503"),
        ("root html;", "respond = \"503"),
        ("root @FILES@/$host;", "respond = \"503"),
        ("root @FILES@; location / { try_files $uri /index.php; }", "respond = \"503"),
        ("root @FILES@; location / { try_files $uri.html /a.html; }", "respond = \"503"),
        ("root @FILES@; location / { try_files $uri @app; }", "respond = \"503"),
        ("root @FILES@; location / { ssi on; }", "respond = \"503"),
        ("root @FILES@; location / { mp4; }", "respond = \"503"),
        ("root @FILES@; disable_symlinks on;", "respond = \"503"),
        ("root @FILES@; disable_symlinks off;", "files = \"@FILES@\""),
        // Otherwise clients would get the source of programs.
        ("root @FILES@; location ~ (?=x)x { fastcgi_pass a; }", "respond = \"503"),
        ("root @FILES@; location ~ (?=x)x { proxy_pass http://a; }", "respond = \"503"),
        (
            "root @FILES@; location ^~ / { } location /app { proxy_pass http://a/; }",
            "respond = \"503",
        ),
        ("root @FILES@; location ~ \\.css$ { expires 1d; }", "files = \"@FILES@\""),
        ("root @FILES@; location ~ (?=x)x { root /b; }", "respond = \"503"),
        ("root @FILES@; location ~ ^/old { return 301 /new; }", "files = \"@FILES@\""),
        ("root @FILES@; location ^~ / { } location ~ x { root /b; }", "files = \"@FILES@\""),
        ("root @FILES@; location / { deny all; }", "respond = \"403\""),
        ("root @FILES@; auth_request /a;", "respond = \"403\""),
    ] {
        let text = files_of(&format!("server {{ server_name a.example; {server} }}"));
        let found = import(&text).toml;
        let mut routes = found.split("[[site.route]]").skip(1);
        assert!(routes.any(|route| route.contains(&files_of(wanted))), "{text}:\n{found}");
        let is_served = found.contains("files = ");
        assert_eq!(is_served, !wanted.starts_with("respond"), "{text}:\n{found}");
    }
}
