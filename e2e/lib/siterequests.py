"""The requests of the script `import`."""

import base64
import dataclasses

from .threesites import DATE

BEFORE = "Mon, 05 Jan 2015 10:00:00 GMT"


@dataclasses.dataclass(frozen=True)
class SiteRequest:
    """A request. `@TAG@` in a field is the last tag that the server gave the path."""

    host: str
    path: str
    fields: tuple = ()
    method: str = "GET"
    body: bytes = b""
    tls: bool = False
    times: int = 1
    version: str = "1.1"
    # Whether both servers send it to an origin each time.
    is_uncached: bool = False

    def bytes(self, tag):
        lines = [f"{self.method} {self.path} HTTP/{self.version}"]
        lines += [f"Host: {self.host}"] if self.host else []
        lines += [field.replace("@TAG@", tag) for field in self.fields]
        has_length = any(field.lower().startswith(("transfer-encoding", "content-length"))
                         for field in self.fields)
        if (self.body or self.method in ("POST", "PUT")) and not has_length:
            lines.append(f"Content-Length: {len(self.body)}")
        is_upgrade = any(field.startswith("Upgrade:") for field in self.fields)
        lines.append(f"Connection: {'Upgrade' if is_upgrade else 'close'}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body

    def __str__(self):
        fields = "".join(f" [{field}]" for field in self.fields)
        return f"{self.method} {self.host or '-'}{self.path[:60]}{fields[:70]}"


def basic(credentials):
    return "Authorization: Basic " + base64.b64encode(credentials.encode()).decode()


def static():
    def get(path, *fields, **rest):
        return SiteRequest("static.test", path, fields, **rest)

    files = ["/", "/index.html", "/about.html", "/style.css", "/app.js", "/data.json", "/notes.txt",
             "/logo.png", "/archive.tar.gz", "/noextension", "/empty.txt", "/big.bin",
             "/with%20space.html", "/a+b.txt", "/%C3%BCber.html", "/docs/", "/docs/page.html",
             "/link.txt", "/media/short.txt"]
    for path in files:
        yield get(path)
        yield get(path, method="HEAD")
    for path in ("/docs", "/plain", "/plain/", "/missing", "/missing/", "/docs/missing.html",
                 "/index.html/", "/outside.txt", "/.hidden", "/.well-known/security.txt",
                 "/media/", "/media", "/media/missing", "/lan/map.txt", "/lan/", "/lan",
                 "/robots.txt", "/robots.txt?a=1", "/robots.txt/", "/old.html", "/old.html?a=1",
                 "/moved", "/moved?a=1&b=2", "/gone/", "/gone/x", "/gone", "/members",
                 "/INDEX.HTML", "/about.html?version=2", "/docs?x=1", "/plain?x=1"):
        yield get(path)
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "TRACE", "INVENTED"):
        yield get("/about.html", method=method)
    for path in ("/robots.txt", "/gone/", "/old.html"):
        yield get(path, method="POST")
        yield get(path, method="HEAD")
    for ranges in ("0-9", "-5", "5-", "0-0", "99-", "100-", "999999-", "0-9,20-29", "5-2", "x",
                   "0-1000", "-0", "-1000"):
        yield get("/notes.txt", f"Range: bytes={ranges}")
    yield get("/notes.txt", "Range: lines=1-2")
    yield get("/notes.txt", "Range: bytes=0-9", method="HEAD")
    yield get("/big.bin", "Range: bytes=100000-199999")
    for field in ("If-None-Match: @TAG@", "If-None-Match: *", 'If-None-Match: "other"',
                  'If-None-Match: "other", @TAG@', "If-None-Match: W/@TAG@",
                  f"If-Modified-Since: {DATE}", f"If-Modified-Since: {BEFORE}",
                  "If-Modified-Since: yesterday", "If-Match: @TAG@", 'If-Match: "other"',
                  "If-Match: *", f"If-Unmodified-Since: {BEFORE}", f"If-Unmodified-Since: {DATE}"):
        yield get("/notes.txt", field)
    yield get("/notes.txt", "Range: bytes=0-9", "If-Range: @TAG@")
    yield get("/notes.txt", "Range: bytes=0-9", 'If-Range: "other"')
    yield get("/notes.txt", "Range: bytes=0-9", f"If-Range: {DATE}")
    yield get("/notes.txt", "Range: bytes=0-9", f"If-Range: {BEFORE}")
    yield get("/notes.txt", "If-None-Match: @TAG@", method="HEAD")
    for coding in ("gzip", "gzip;q=0", "br", "*", "deflate, gzip;q=0.5", "identity"):
        yield get("/style.css", f"Accept-Encoding: {coding}")
    for path in ("/index.html", "/app.js", "/logo.png", "/data.json", "/about.html"):
        yield get(path, "Accept-Encoding: gzip")
    yield get("/style.css", "Accept-Encoding: gzip", method="HEAD")
    for path in ("//", "//about.html", "/./about.html", "/docs/../about.html", "/../about.html",
                 "/docs/%2e%2e/about.html", "/%61bout.html", "/docs%2fpage.html", "/about.html%00",
                 "/%zz", "/about.html%20", "/docs//page.html", "/docs/./page.html", "/about.html;x",
                 "/?", "/about.html?", "/%2e%2e/%2e%2e/etc/passwd", "/lan/../about.html",
                 "/docs/../lan/map.txt", "/docs/..%2flan/map.txt", "/%6can/map.txt",
                 "/" + "x" * 3000):
        yield get(path)
    for credentials in ("ann:secret", "ann:wrong", "bob:secret", "ann:", "ann"):
        yield get("/members/list.txt", basic(credentials))
    yield get("/members/list.txt")
    yield get("/members/list.txt", "Authorization: Bearer x")
    yield get("/members/list.txt", "Authorization: Basic ???")
    yield get("/members/missing", basic("ann:secret"))
    yield get("/members/", basic("ann:secret"))
    yield get("/members/list.txt", method="POST")


def api():
    def get(path, *fields, **rest):
        return SiteRequest("api.test", path, fields, **rest)

    for method in ("GET", "HEAD", "DELETE", "OPTIONS", "PATCH"):
        yield get("/echo", method=method)
    yield get("/echo", method="POST", body=b"some data")
    yield get("/echo", method="POST")
    yield get("/echo", method="PUT", body=b"x" * 65_536)
    yield get("/echo", method="POST", body=b"x" * 65_537)
    yield get("/echo", "Transfer-Encoding: chunked", method="POST",
              body=b"4\r\nfour\r\n3\r\nsix\r\n0\r\n\r\n")
    yield get("/echo", "Content-Type: application/json", method="POST", body=b"{}")
    yield get("/echo?a=1&b=%20", "X-Own: 1", "Cookie: a=1")
    yield get("/echo", "Authorization: Bearer token")
    yield get("/echo", "X-Forwarded-For: 192.0.2.1")
    yield get("/echo", "X-Forwarded-Proto: https")
    yield get("/echo/%7Euser/a%20b?x=%2F")
    yield get("/api/1")
    yield get("/api/1", method="HEAD")
    yield get("/api/1", "If-None-Match: @TAG@")
    yield get("/api/1", 'If-None-Match: "other"')
    yield get("/api/1", "Range: bytes=0-9")
    yield get("/api/1", "Accept-Encoding: gzip")
    for status in (200, 201, 202, 204, 301, 400, 401, 403, 404, 405, 409, 410, 418, 422, 429, 500,
                   501, 502, 503, 504):
        yield get(f"/status/{status}")
    for path in ("/moved", "/cookie", "/private", "/chunked", "/missing", "/chunked?a"):
        yield get(path)
    for path in ("/metrics/", "/metrics/x", "/metrics", "/metrics?a=1", "/local/", "/local/x"):
        yield get(path)
    for path in ("/which", "/events/which", "/events/x/which", "/events", "/limited/which"):
        yield get(path)
    for fields in ((), ("Accept-Encoding: gzip",), ("Accept-Encoding: br",),
                   ("Accept-Encoding: gzip;q=0",), ("Range: bytes=0-9",)):
        yield get("/packed/1", *fields)
        yield get("/packed/1", *fields, method="HEAD")
    yield get("/limited/x", times=9)
    yield get("/limited")
    key = base64.b64encode(b"sixteen bytes ok").decode()
    upgrade = ("Upgrade: websocket", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13")
    yield get("/live/", *upgrade)
    yield get("/live/room?name=1", *upgrade)
    yield get("/live/")
    yield get("/live")
    for host in ("API.test", "api.test:80", "api.test.", "unknown.test", "", "api.test, b.test"):
        yield SiteRequest(host, "/echo")
    yield SiteRequest("", "/echo", version="1.0")
    yield SiteRequest("api.test", "/echo", version="1.0")
    yield get("http://api.test/echo")
    yield SiteRequest("api.test", "/echo", ("Host: other.test",))
    yield get("*", method="OPTIONS")
    yield get("/echo", "Bad Field: 1")
    yield get("/echo", "Content-Length: 4", "Content-Length: 5", method="POST", body=b"data")
    yield get("/echo", "Content-Length: x", method="POST", body=b"data")


def shop():
    def get(path, *fields, **rest):
        return SiteRequest("shop.test", path, fields, tls=True, **rest)

    for path in ("/", "/page/1", "/page/2?a=1", "/missing/1", "/private", "/cookie", "/moved"):
        yield get(path, times=2)
    yield get("/page/1", method="HEAD")
    yield get("/page/1", "If-None-Match: @TAG@")
    yield get("/page/1", f"If-Modified-Since: {DATE}")
    yield get("/page/1", "Range: bytes=0-9")
    yield get("/page/3", "Accept-Encoding: gzip", times=2)
    yield get("/page/3", times=2)
    yield get("/page/1", "Cookie: session=1", is_uncached=True)
    yield get("/echo", "Cookie: session=1", is_uncached=True)
    yield get("/echo", "Cookie: other=1; session=2", is_uncached=True)
    yield get("/echo", method="POST", body=b"order")
    yield get("/impressum")
    yield get("/impressum?a=1")
    yield get("/impressum/")
    yield get("/admin")
    yield get("/admin?a=1")
    yield get("/admin/")
    yield get("/admin/echo", basic("ann:secret"))
    yield get("/admin/echo", basic("ann:wrong"))
    yield get("/admin/echo", basic("eve:secret"))
    yield get("/admin/echo", "Authorization: Digest x")
    yield get("/admin/echo", basic("ann:secret"), method="POST", body=b"x")
    yield get("/%61dmin/echo")
    yield get("/page/../admin/echo")
    yield get("//admin/echo")
    yield get("/adminx")
    yield get("/status/500")
    yield SiteRequest("www.shop.test", "/page/1", tls=True)
    yield SiteRequest("SHOP.test", "/page/1", tls=True)
    for host in ("shop.test", "www.shop.test"):
        yield SiteRequest(host, "/page/1?a=1")
        yield SiteRequest(host, "/admin/")
    yield SiteRequest("shop.test", "/", method="POST")


REQUESTS = [*static(), *api(), *shop()]
