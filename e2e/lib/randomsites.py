"""Random servers of nginx, whose locations restrict requests in many ways, and paths for them."""

import random

PREFIXES = ("/", "/a", "/a/", "/ab", "/ab/", "/a/b", "/a/b/", "/a/bc", "/admin", "/admin/", "/x.php",
            "/a/x.php", "/.ht", "/admin-old/", "/index.html", "/docs/")
REGEXES = (r"\.php$", "^/a", "/b", "^/admin", r"/\.", "c/?$", "^/ab/(.*)$", r"\.(?:html|txt)$",
           r"/\.(?!well-known)", "^/(admin|b)/", "[^/]+$", "^/a[^/]", "(?=b)b", "INDEX")
NAMES = ("a", "ab", "abc", "b", "bc", "admin", "admin-old", "adminx", "x.php", "xphp", ".htaccess",
         "%61", "%61dmin", "..", ".", "", "a;x", "%2e%2e", "B", "index.html", "x.ph%70", "docs",
         "adm%69n", "x.php%00", "notes.txt", ".well-known")

# Lines of a server or of any location.
RESTRICTIONS = ("deny all;", "allow 127.0.0.1; deny all;", "allow 10.0.0.0/8; deny all;",
                "deny 127.0.0.1;", "allow all;",
                'auth_basic "x"; auth_basic_user_file @ROOT@/users;', "auth_basic off;",
                "deny 10.0.0.1; allow 127.0.0.0/8; deny all;", "satisfy any;",
                "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;",
                "set_real_ip_from 127.0.0.0/8;")
# Lines of a server or a location that say how its own requests are answered.
CONDITIONS = ("if ($uri ~ b) { return 403; }", "if ($http_x_user = '') { return 302 /login; }",
              "if ($request_method = POST) { return 405; }", "if ($uri ~ ^/ab) { return 301 /new; }",
              "rewrite ^/a/b/(.*)$ /login?to=$1 redirect;", "rewrite ^/ab$ /moved permanent;")
ANSWERS = ("proxy_pass http://127.0.0.1:@API@;",) * 10 + (
    "", "return 403;", "return 410;", "return 301 /moved;", "return 302 /login;",
    "internal; proxy_pass http://127.0.0.1:@API@;", "try_files $uri =404;",
    "limit_except GET { deny all; } proxy_pass http://127.0.0.1:@API@;")
# Those that only prefixes can have.
PREFIX_ANSWERS = ("proxy_pass http://127.0.0.1:@API@/;", "proxy_pass http://127.0.0.1:@API@/b/;",
                  "try_files $uri /index.html;", "try_files $uri $uri/ /index.html;",
                  "try_files $uri /b/x.php;")


class RandomSites:
    """The same configurations for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, lines, chance):
        return self.random.choice(lines) if self.random.random() < chance else ""

    def location(self, outer, depth):
        """A location inside another one, whose prefix is `outer`; `None` for regular expressions."""
        prefixes = [path for path in PREFIXES if outer is not None and path.startswith(outer)]
        kind = self.random.choice(("",) * 8 + ("=", "^~", "^~", self.random.choice(("~", "~*"))))
        is_regex = kind.startswith("~") or not prefixes
        path = self.random.choice(REGEXES if is_regex else prefixes)
        if is_regex:
            kind = kind if kind.startswith("~") else "~"
        inner = ""
        if depth < 2 and kind != "=" and self.random.random() < 0.3:
            below = None if is_regex else path
            inner = "".join(self.location(below, depth + 1)
                            for _ in range(self.random.randint(1, 2)))
        answers = ANSWERS if is_regex else ANSWERS + PREFIX_ANSWERS
        lines = (self.some(RESTRICTIONS, 0.25), self.some(CONDITIONS, 0.04),
                 self.random.choice(answers), inner)
        return f"location {kind} {path} {{ {' '.join(lines)} }}\n"

    def server(self):
        count = self.random.randint(1, 5)
        locations = "".join(self.location("/", 0) for _ in range(count))
        root = self.some(("root @ROOT@/static;",), 0.4)
        lines = (root, self.some(RESTRICTIONS, 0.2), self.some(CONDITIONS, 0.04))
        return f"{' '.join(lines)}\n{locations}"

    def paths(self, count):
        for _ in range(count):
            names = [self.random.choice(NAMES) for _ in range(self.random.randint(1, 3))]
            yield "/" + "/".join(names)


CONF = """daemon off; pid nginx.pid; error_log error.log; user root;
events { worker_connections 64; }
http {
    access_log off; client_body_temp_path body; proxy_temp_path temp; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    proxy_http_version 1.1; proxy_set_header Host $host;
    server {
        listen 127.0.0.1:@PORT@;
        server_name e2e.test;
@SERVER@
    }
}
"""
