//! Locations that serve files.

use super::{files_of, import};

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
        ("root @FILES@; location /app { proxy_pass http://a/; }", "respond = \"503"),
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
