"""Typical configurations of nginx, for the script `import-typical`."""

import pathlib
import tempfile

from .answers import Side
from .reasons import GENERAL, Reason, forwarded, is_odd, whole
from .servers import free_port
from .siterequests import SiteRequest, basic
from .threesites import DATE, NginxSites, Origins, write_files
from .typical import FOLDER, Typical, compare, filled, imported, is_installed


def nginx(checks):
    """nginx: its Debian default and typical sites answer as the imported Forebay does."""
    if not is_installed(checks, "nginx"):
        return
    for typical in (DEBIAN, ONE_APP, WORDPRESS, SINGLE_PAGE, BALANCER, SEVERAL_SITES):
        checks.topic(f"nginx: {typical.name}")
        run(checks, typical)


def run(checks, typical):
    """Compares one configuration; both servers have the same origins and files."""
    with (tempfile.TemporaryDirectory(prefix="forebay-e2e-typical-") as folder,
          Origins(3) as origins):
        root, ports = pathlib.Path(folder), [free_port(), free_port()]
        write_files(root)
        sides = []
        for port in ports:
            words = {"PORT": port, "ROOT": folder, "USER": "user root;",
                     "APP_1": origins.ports[0], "APP_2": origins.ports[1],
                     "APP_3": origins.ports[2]}
            etc = root / f"etc-{port}"
            (etc / "sites-enabled").mkdir(parents=True)
            (etc / "conf.d").mkdir()
            for name, target in (("nginx.conf", "nginx.conf"),
                                 (f"{typical.name}.conf", "sites-enabled/site")):
                text = (FOLDER / "nginx" / name).read_text(encoding="utf-8")
                (etc / target).write_text(filled(text, words), encoding="utf-8")
            sides.append(etc)
        toml = root / "forebay.toml"
        notes = imported(checks, "nginx", [sides[1] / "nginx.conf"], toml)
        checks.that(len(notes) <= typical.notes_max,
                    f"{typical.name}: the list has at most {typical.notes_max} entries", len(notes))
        with NginxSites(sides[0], ports[0]):
            theirs = Side(ports[0], 0, origins)
            compare(checks, typical, theirs, toml, [*GENERAL, *FILES, *USUAL], origins)


def to(host):
    """A function that makes requests to this host."""
    def get(path, *fields, **rest):
        return SiteRequest(host, path, fields, **rest)
    return get


# Reasons for files, beside those of `GENERAL`.
FILES = [
    Reason("files: another form of tag (docs/files.md)",
           lambda d: d.part == "etag" and d.theirs and d.ours),
    Reason("files: text is UTF-8 (files_types)",
           lambda d: d.part == "content-type" and d.ours == f"{d.theirs}; charset=utf-8"),
    Reason("files: scripts have the type of RFC 9239 (files_types)",
           lambda d: (d.part == "content-type" and d.theirs == "application/javascript"
                      and str(d.ours).startswith("text/javascript"))),
]

# Reasons for any of the typical configurations.
USUAL = [
    Reason("X-Forwarded-For and -Proto are always set, and clients cannot state them "
           "(docs/proxies.md)", forwarded),
    Reason("paths that may belong to another route are refused (docs/sites.md)",
           whole(("200", "400"), ("401", "400"), ("403", "400"), ("404", "400"), when=is_odd)),
    Reason("names of fields in Vary are in lower case",
           lambda d: d.part == "vary" and str(d.theirs).lower() == d.ours),
    Reason("a response that is not stored is not compressed (docs/compression.md)",
           lambda d: d.part == "vary" and (d.theirs, d.ours) == ("Accept-Encoding", None)),
    Reason("Cache-Control takes the place of Expires, which rules do not write (docs/import.md)",
           lambda d: d.part == "expires" and d.ours is None and "cache-control" in d.forebay),
]


def debian():
    get = to("www.test")
    for path in ("/", "/index.html", "/about.html", "/style.css", "/app.js", "/big.bin",
                 "/data.json", "/notes.txt", "/logo.png", "/empty.txt", "/docs/", "/docs",
                 "/docs/page.html", "/plain/", "/missing", "/link.txt"):
        yield get(path)
    for path in ("/", "/missing"):
        yield get(path, method="HEAD")
    yield get("/", method="POST")
    yield get("/notes.txt", "Range: bytes=0-9")
    yield get("/notes.txt", "Range: bytes=200-")
    yield get("/notes.txt", "If-None-Match: @TAG@")
    yield get("/notes.txt", f"If-Modified-Since: {DATE}")
    yield get("/", "Accept-Encoding: gzip")
    yield get("/style.css", "Accept-Encoding: gzip")
    yield to("other.test")("/about.html")
    yield to("127.0.0.1")("/")


def one_app():
    get = to("www.test")
    for path in ("/page/1", "/page/2?a=1", "/missing/1", "/private", "/cookie", "/moved",
                 "/page/style.css", "/page/logo.PNG", "/status/500", "/echo"):
        yield get(path, times=2)
    yield get("/page/1", method="HEAD")
    yield get("/page/1", "If-None-Match: @TAG@")
    yield get("/page/1", "Cookie: session=1", times=2)
    yield get("/page/1", basic("ann:secret"))
    yield get("/page/3", "Accept-Encoding: gzip", times=2)
    yield get("/admin/echo")
    yield get("/admin/echo?a=1", method="POST", body=b"data")
    yield get("/admin")
    yield get("/app/echo")
    yield get("/app/echo/a?b=1", method="PUT", body=b"data")
    yield get("/app/")
    yield get("/app")
    yield get("/echo", method="POST", body=b"x" * 16_384)
    yield get("/echo", method="POST", body=b"x" * 16_385)
    yield get("/echo", "X-Real-IP: 192.0.2.1", method="POST")
    yield get("/admin/echo", "X-Real-IP: 192.0.2.1")
    yield to("other.test")("/admin/echo")


def wordpress():
    get = to("blog.test")
    for path in ("/", "/page/hello", "/page/hello?preview=true", "/missing/post"):
        yield get(path, times=2)
    yield get("/page/hello", "Cookie: wordpress_logged_in=1", times=2)
    for path in ("/docs/page.html", "/docs/missing.html", "/docs/", "/media/short.txt",
                 "/media/missing.txt", "/robots.txt", "/favicon.ico", "/xmlrpc.php",
                 "/xmlrpc.php?rsd", "/.env", "/.git/config", "/page/.htaccess",
                 "/.well-known/echo", "/media/evil.php", "/media/EVIL.PHP", "/docs/x.php",
                 "/index.php", "/page/x.php", "/page/x.php?a=1", "/wp-admin/echo",
                 "/wp-admin/x.php", "/wp-admin", "/wp-login.php", "/wp-login.php/x",
                 "/index.php/echo", "/page/x.phps"):
        yield get(path)
    yield get("/wp-login.php", method="POST", body=b"log=ann")
    yield get("/wp-admin/echo", method="POST", body=b"data")
    yield get("/xmlrpc.php", method="POST", body=b"<x/>")
    for path in ("/docs/../xmlrpc.php", "/%2eenv", "/media/evil.ph%70", "//xmlrpc.php"):
        yield get(path)


def single_page():
    get = to("spa.test")
    for path in ("/", "/index.html", "/settings", "/users/7/edit?tab=a", "/docs/", "/docs",
                 "/plain/", "/about.html", "/style.css", "/missing.css", "/app.js", "/logo.png",
                 "/a/b/missing.js", "/api/1", "/api/echo", "/api", "/v1/echo", "/v1/page/1",
                 "/v1/", "/v1", "/notes.txt", "/.env", "/.git/config"):
        yield get(path)
    yield get("/settings", method="HEAD")
    yield get("/settings", method="POST")
    yield get("/settings", "If-None-Match: @TAG@")
    yield get("/style.css", "Accept-Encoding: gzip", times=2)
    yield get("/api/echo", method="POST", body=b"{}")
    yield get("/v1/echo", method="DELETE")
    yield get("/v1/moved")
    yield get("/v1/echo", "X-Client-Key: other")
    yield get("/live/", *UPGRADE)
    yield get("/live/")
    yield to("other.test")("/settings")


def balancer():
    get = to("app.test")
    for path in ("/echo", "/page/1", "/echo?a=1", "/status/500", "/status/404",
                 "/health", "/internal/echo", "/internal/a/b", "/internal", "/metrics", "/status",
                 "/metrics/x", "/api/v1/echo", "/api/v12/1", "/api/vx/1", "/legacy/1",
                 "/legacy/echo", "/legacy/", "/legacy", "/chunked", "/cookie"):
        yield get(path)
    yield get("/login", times=5)
    yield get("/echo", method="POST", body=b"data")
    yield get("/api/v1/echo", "X-Api: no", method="POST", body=b"data")
    yield get("/api/v1/echo", method="POST", body=b"x" * 1025)
    yield get("/legacy/echo", method="POST", body=b"data")
    yield get("/health", method="HEAD")
    yield get("/health", method="POST")
    for path in ("/internal/../echo", "/%69nternal/echo", "/internal/..%2fecho", "//metrics"):
        yield get(path)


def several_sites():
    get, files = to("apex.test"), to("files.test")
    yield to("www.apex.test")("/a/b?c=1")
    yield to("www.apex.test")("/", method="POST")
    yield to("unknown.test")("/")
    for path in ("/page/1", "/echo", "/impressum", "/old", "/old?a=1", "/old/", "/blog/7/echo",
                 "/blog/7/which", "/blog/x/echo", "/dump.sql", "/a/b.bak", "/a/b.bakx",
                 "/.git/config", "/x/.SVN/entries", "/members/echo", "/members", "/assets/1",
                 "/assets/x.sql", "/assets/", "/assets", "/status/500"):
        yield get(path)
    yield get("/members/echo", basic("ann:secret"))
    yield get("/members/echo", basic("ann:wrong"))
    yield get("/members/dump.sql", basic("ann:secret"))
    yield get("/echo", method="POST", body=b"data")
    for path in ("/", "/index.html", "/docs/", "/docs/page.html", "/style.css", "/app.js",
                 "/notes.txt", "/secret.txt", "/plain/file.txt", "/plain", "/plainer", "/plain.html",
                 "/missing.html", "/%70lain/file.txt"):
        yield files(path)


UPGRADE = ("Upgrade: websocket", "Sec-WebSocket-Key: c2l4dGVlbiBieXRlcyBvaw==",
           "Sec-WebSocket-Version: 13")
DEBIAN = Typical("debian-default", [*debian()], notes_max=0)
ONE_APP = Typical("one-app", [*one_app()], notes_max=3)
WORDPRESS = Typical("wordpress", [*wordpress()], notes_max=2, reasons=[
    Reason("files: a directory gets its index, whatever try_files says (docs/import.md)",
           whole(("404", "200"), when=lambda d: d.path == "/docs/"), "wordpress")],
                    fields=("x-content-type-options", "x-frame-options"))
SINGLE_PAGE = Typical("single-page", [*single_page()], notes_max=1, reasons=[
    Reason("clients validate the page of files_fallback before each use (docs/files.md)",
           lambda d: (d.part, d.ours) in (("cache-control", "no-cache"), ("last-modified", None))
           and d.path.startswith(("/settings", "/users/")), "single-page")])
BALANCER = Typical("balancer", [*balancer()], notes_max=3, reasons=[
    Reason("a request beyond a rate limit gets 429 with Retry-After (docs/rate-limits.md)",
           whole(("503", "429")), "balancer")])
SEVERAL_SITES = Typical("several-sites", [*several_sites()], notes_max=2, reasons=[
    Reason("an index has the fields of the route of its directory, as the list says",
           lambda d: d.part == "cache-control" and d.path.endswith("/"), "several-sites"),
    Reason("pages of errors have no tag",
           lambda d: d.part == "etag" and d.is_same_status(404, 404), "several-sites")],
                        fields=("referrer-policy", "content-security-policy",
                                "access-control-allow-origin"))
