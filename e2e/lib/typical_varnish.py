"""Typical configurations of Varnish, for the script `import-typical`."""

import contextlib
import pathlib
import subprocess
import tempfile
import time

from .answers import Side
from .reasons import Reason, forwarded, own_page, same_gzip, whole
from .servers import OtherServer, free_port, wait_for_port
from .siterequests import SiteRequest
from .threesites import Origins
from .typical import FOLDER, Typical, compare, filled, imported, is_installed
from .wire import Wire

START_S_MAX = 30


class Varnish(OtherServer):
    """varnishd with this VCL, in a directory of its own."""

    def __init__(self, vcl):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-varnish-")
        path = pathlib.Path(self.dir.name) / "test.vcl"
        path.write_text(vcl, encoding="utf-8")
        self.port = free_port()
        with open(f"{self.dir.name}/output", "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                ["varnishd", "-F", "-j", "none", "-n", f"{self.dir.name}/work",
                 "-a", f"127.0.0.1:{self.port},HTTP", "-f", str(path), "-s", "malloc,32m"],
                start_new_session=True, stdout=output, stderr=output)
        try:
            wait_for_port(self.port, START_S_MAX, lambda: self.process.poll() is None)
        except Exception as error:
            output = pathlib.Path(f"{self.dir.name}/output").read_text(encoding="utf-8")
            self.kill()
            raise RuntimeError(f"varnishd did not start: {output}") from error

    def wait_for_backend(self):
        """Waits until a backend is healthy."""
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until:
            with contextlib.suppress(OSError), Wire(self.port) as wire:
                answer = wire.get("/warm", "Cookie: warm=1")
                if answer is not None and answer.status < 500:
                    return
            time.sleep(0.1)
        raise TimeoutError("no backend of varnishd is healthy")


def varnish(checks):
    """Varnish: its Debian default and typical VCLs answer as the imported Forebay does."""
    if not is_installed(checks, "varnishd"):
        return
    for typical in (DEBIAN, NEWS, WORDPRESS, DRUPAL, POOL, API):
        checks.topic(f"Varnish: {typical.name}")
        run(checks, typical)


def run(checks, typical):
    """Compares one VCL; both servers have origins of the same kind."""
    with (tempfile.TemporaryDirectory(prefix="forebay-e2e-typical-") as folder,
          Origins(2) as their_origins, Origins(2) as our_origins):
        text = (FOLDER / "varnish" / f"{typical.name}.vcl").read_text(encoding="utf-8")
        texts = [filled(text, {"APP_1": origins.ports[0], "APP_2": origins.ports[1]})
                 for origins in (their_origins, our_origins)]
        vcl = pathlib.Path(folder) / f"{typical.name}.vcl"
        vcl.write_text(texts[1], encoding="utf-8")
        toml = pathlib.Path(folder) / "forebay.toml"
        notes = imported(checks, "varnish", [vcl], toml)
        checks.that(len(notes) <= typical.notes_max,
                    f"{typical.name}: the list has at most {typical.notes_max} entries", len(notes))
        with Varnish(texts[0]) as server:
            server.wait_for_backend()
            compare(checks, typical, Side(server.port, 0, their_origins), toml, COMMON,
                    our_origins)


def get(path, *fields, host="www.test", **rest):
    return SiteRequest(host, path, fields, **rest)


def twice(*paths, host="www.test", fields=()):
    """Each path two times: the second answer shows whether the first one was stored."""
    return [get(path, *fields, host=host, times=2) for path in paths]


COMMON = [
    Reason("Forebay's own answers are lines of text, those of Varnish pages of HTML (error_pages)",
           own_page),
    Reason("Forebay's own answers must not be stored",
           lambda d: d.part == "cache-control" and (d.theirs, d.ours) == (None, "no-store")),
    Reason("Varnish's own answers say Retry-After: 5",
           lambda d: d.part == "retry-after" and (d.theirs, d.ours) == ("5", None)),
    Reason("Forebay tells the origin the scheme, too (docs/proxies.md)", forwarded),
    Reason("Varnish adds Accept-Ranges to responses that it stores",
           lambda d: d.part == "accept-ranges"),
    Reason("a HEAD that was not stored has the origin's length",
           lambda d: d.request.method == "HEAD" and d.part == "content-length"),
    Reason("another encoder, or another length of compressed bodies", same_gzip),
    Reason("a response of which a compressed form exists varies",
           lambda d: d.part == "vary" and str(d.ours).lower() == "accept-encoding"),
    Reason("a purge has an answer in JSON (docs/purging.md)",
           lambda d: d.request.method in ("PURGE", "BAN") and d.part in (
               "body", "content-length", "content-type")),
    Reason("304 has Last-Modified only if there is no tag (RFC 9110 section 15.4.5)",
           lambda d: d.part == "last-modified" and d.is_same_status(304, 304)),
    Reason("TRACE is not implemented in Forebay, which says so by 501",
           whole(("200", "501"), ("405", "501"), when=lambda d: d.request.method == "TRACE")),
    Reason("paths that may belong to another route are refused (docs/sites.md)",
           whole(("200", "400"), ("403", "400"),
                 when=lambda d: "%" in d.path or "//" in d.path or "/." in d.path)),
]

UNSEEN = Reason(
    "vcl_deliver does not see answers of vcl_synth; rules see all answers (docs/rules.md)",
    lambda d: d.part in ("x-cache", "x-frame-options") and d.theirs is None)

DEBIAN = Typical("debian-default", [
    *twice("/", "/page/1", "/page/2?a=1", "/missing/1", "/private", "/cookie", "/moved", "/chunked"),
    *twice("/page/3", fields=("Cookie: a=1",)),
    *twice("/page/4", fields=("Authorization: Basic YTpi",)),
    *twice("/status/500", "/status/503", "/status/410", "/status/302", "/status/405"),
    get("/page/1", method="HEAD"), get("/page/1", "If-None-Match: @TAG@"),
    get("/page/1", 'If-None-Match: "other"'), get("/page/1", "Range: bytes=0-9"),
    get("/page/1", "Cache-Control: no-cache"), get("/echo?post", method="POST", body=b"x"),
    get("/echo", method="PUT", body=b"data"), get("/echo", method="DELETE"),
    get("/echo", method="OPTIONS"), get("/echo", method="PURGE"),
    get("/page/1", host="other.test"), get("/page/1", host="127.0.0.1"),
], notes_max=0)

NEWS = Typical("news", [
    *twice("/page/1", "/page/2?b=2&a=1", "/ticker/x.html", "/static/a.css", "/static/a.css?v=1",
           "/page/logo.png", "/cookie", "/private", "/missing/1", "/status/500"),
    get("/page/2?a=1&b=2"), get("/page/1", "Cookie: reader=7"), get("/page/9", "Cookie: a=1"),
    get("/page/9", "Cookie: b=2"), get("/page/5?utm_source=x&id=1"), get("/page/5?id=1"),
    get("/page/6?fbclid=abc"), get("/page/6"),
    *twice("/editor/page", "/login", "/login?next=/", "/internal/x", "/loginx"),
    get("/internal/x", "Cookie: a=1"), get("/internal/", method="POST", body=b"x"),
    get("/%69nternal/x"), get("/page/../internal/x"), get("//internal/x"),
    get("/page/1", "If-None-Match: @TAG@"), get("/page/1", method="HEAD"),
    get("/page/1", "Authorization: Basic YTpi"), get("/echo", method="POST", body=b"x"),
], notes_max=0, reasons=[UNSEEN], fields=("x-cache",))

WORDPRESS = Typical("wordpress", [
    *twice("/page/1", "/page/2?b=2&a=1", "/wp-admin/", "/wp-login.php", "/wp-login.php?a=1",
           "/cart", "/checkout/pay", "/xmlrpc.php", "/XMLRPC.php", "/page/style.css",
           "/page/style.css?ver=6", "/page/photo.JPG", "/missing/1", "/cookie", "/private"),
    get("/page/2?a=1&b=2"), *twice("/page/3?preview=true", "/page/3?p=1&preview=1"),
    *twice("/page/4", fields=("Cookie: wordpress_logged_in_ab12=x",)),
    *twice("/page/5", fields=("Cookie: a=1; comment_author_9=x",)),
    *twice("/page/6", fields=("Cookie: _ga=GA1.2; wp-settings-1=x",)),
    *twice("/page/7", fields=("Authorization: Basic YTpi",)),
    *twice("/page/a.png", fields=("Cookie: wordpress_logged_in_ab12=x",)),
    get("/echo?post", method="POST", body=b"x"), get("/page/1", method="HEAD"),
    get("/page/1", method="PURGE"), *twice("/page/1"), get("/page/1", "If-None-Match: @TAG@"),
    get("/xmlrpc.php", method="POST", body=b"x"), get("/wp-admin/", method="PUT", body=b"x"),
    get("/wp-cron.php"),
    get("/page/1", method="POST", body=b"x"), *twice("/page/1"),
], notes_max=2, reasons=[
    Reason("a POST invalidates the stored response (RFC 9111 section 4.4)",
           lambda d: d.part == "asked" and d.ours and d.path == "/page/1", "wordpress"),
])

DRUPAL = Typical("drupal", [
    *twice("/page/1", "/page/2?a=1", "/admin/", "/admin/x", "/user/1", "/page/ajax/1",
           "/status.php", "/cron.php", "/secret/x", "/missing/1", "/cookie", "/private",
           "/static/a.css", "/page/logo.svg?v=1"),
    *twice("/page/3", fields=("Cookie: SESSab12=x",)),
    *twice("/page/4", fields=("Cookie: _ga=1; SSESSab12=x",)),
    *twice("/page/5", fields=("Cookie: _ga=1; has_js=1",)),
    *twice("/page/6", fields=("Cookie: NO_CACHE=Y",)),
    *twice("/page/7", fields=("Authorization: Basic YTpi",)),
    *twice("/page/8", fields=("Accept-Encoding: gzip",)), get("/page/8"),
    get("/page/1", method="PURGE"), get("/page/1"), get("/echo?post", method="POST", body=b"x"),
    get("/page/1", method="BAN"), get("/%73ecret/x"), get("/page/1", method="HEAD"),
], notes_max=1, fields=("x-cache", "x-generator"), reasons=[
    UNSEEN,
    Reason("what Varnish has compressed, it sends with a weak tag to all clients",
           lambda d: d.part == "etag" and d.theirs == f"W/{d.ours}", "drupal"),
    Reason("Forebay compresses only responses that it stores (docs/compression.md)",
           lambda d: d.part in ("vary", "content-length") and None in (d.theirs, d.ours), "drupal"),
    Reason("Forebay stores a response for each coding; Varnish unpacks its only one",
           lambda d: d.part in ("asked", "x-cache") and d.path == "/page/8", "drupal"),
    Reason("a BAN without tags is malformed (docs/purging.md)", whole(("403", "400")), "drupal"),
])

POOL = Typical("pool", [
    *twice("/page/1", "/page/2?a=1", "/report/which", "/echo", "/private", "/cookie",
           "/missing/1", "/status/500", "/status/503", "/moved"),
    *twice("/page/3", fields=("Cookie: a=1",)), *twice("/echo?b", fields=("Cookie: a=1",)),
    *twice("/page/4", fields=("Authorization: Basic YTpi",)),
    *twice("/page/5", fields=("X-Device: phone",)), *twice("/page/5", fields=("X-Device: tv",)),
    *twice("/page/5"), get("/page/1", method="HEAD"), get("/echo?post", method="POST", body=b"x"),
    get("/report/1", method="POST", body=b"x"), get("/page/1", "If-None-Match: @TAG@"),
], notes_max=2)

UPGRADE = ("Upgrade: websocket", "Sec-WebSocket-Key: c2l4dGVlbiBieXRlcyBvaw==",
           "Sec-WebSocket-Version: 13")
API = Typical("api", [
    *twice("/echo", "/api/1", "/which", host="api.test"), get("/live/", *UPGRADE, host="api.test"),
    get("/echo", host="api.test", method="PUT", body=b"x"),
    get("/echo", host="api.test", method="PATCH", body=b"x"),
    get("/echo", host="api.test", method="DELETE"), get("/echo", host="API.test"),
    *twice("/static/a.css", "/static/a.css?b=2&a=1", "/static/page/1", "/page/1", "/page/2?b=2&a=1",
           "/missing/1", "/private", "/which"),
    get("/page/2?a=1&b=2"), *twice("/static/x", fields=("Cookie: a=1",)),
    *twice("/page/3", fields=("Cookie: a=1",)),
    *twice("/static/y", fields=("Authorization: Basic YTpi",)),
    *twice("/page/a?b=1", host="old.test"), get("/", host="old.test"),
    *twice("/start", host="shop.test"), get("/start", host="www.shop.test"),
    get("/page/1", host="shop.test"), get("/start"),
    get("/page/1", "User-Agent: BadBot/1.0"), get("/echo", "User-Agent: badbot", host="api.test"),
    get("/page/1", "User-Agent: curl/8"), get("/page/1", method="PATCH", body=b"x"),
    get("/page/1", method="INVENTED"), get("/echo?post", method="POST", body=b"x"),
    get("/page/1", method="HEAD"), get("/start", host="old.test", method="POST", body=b"x"),
], notes_max=0, fields=("x-frame-options",), reasons=[
    UNSEEN,
    Reason("hosts ignore the case of letters", lambda d: d.request.host == "API.test", "api"),
])
