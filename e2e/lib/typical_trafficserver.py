"""Typical configurations of Traffic Server, for the script `import-typical`."""

import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

from .answers import Side
from .reasons import Reason, own_page
from .servers import Forebay, binary
from .siterequests import SiteRequest
from .threesites import DATE, Origins, Program
from .trafficserver import TrafficServer, is_installed
from .typical import FOLDER, Typical, compare, filled, imported

# One thread, so that a stored response is found at once.
RECORDS = {
    "exec_thread.autoconfig": "INT 0", "exec_thread.autoconfig.enabled": "INT 0",
    "exec_thread.limit": "INT 1", "exec_thread.affinity": "INT 0", "exec_thread.listen": "INT 1",
    "accept_threads": "INT 0", "http.wait_for_cache": "INT 1", "log.logging_enabled": "INT 0",
    # Parents on loopback are not this server.
    "http.parent_proxy.self_detect": "INT 0",
}


def trafficserver(checks):
    """Traffic Server: its Debian default and typical sites answer as the imported Forebay does."""
    if not is_installed():
        if checks.args.case:
            checks.that(False, "traffic_server is installed")
        else:
            checks.note("left out: traffic_server is not installed")
        return
    for typical in (DEBIAN, ONE_APP, SITES, PATHS, PARENTS, CACHE):
        checks.topic(f"trafficserver: {typical.name}")
        run(checks, typical)
    checks.topic("trafficserver: random rules")
    random_rules(checks)


def run(checks, typical):
    """Compares one configuration; both servers have origins of the same kind."""
    with (tempfile.TemporaryDirectory(prefix="forebay-e2e-typical-") as folder,
          Origins(2, App) as their_origins, Origins(2, App) as our_origins):
        folders = []
        for name, origins in (("theirs", their_origins), ("ours", our_origins)):
            etc = pathlib.Path(folder) / name
            etc.mkdir()
            for path in (FOLDER / "trafficserver" / typical.name).iterdir():
                words = {"APP_1": origins.ports[0], "APP_2": origins.ports[1]}
                (etc / path.name).write_text(filled(path.read_text(encoding="utf-8"), words))
            folders.append(etc)
        toml = pathlib.Path(folder) / "forebay.toml"
        notes = imported(checks, "trafficserver", [folders[1]], toml)
        checks.that(len(notes) <= typical.notes_max,
                    f"{typical.name}: the list has at most {typical.notes_max} entries", len(notes))
        with FolderServer(folders[0]) as server:
            if typical is PARENTS:
                their_origins.stop(0)
                our_origins.stop(0)
            compare(checks, typical, Side(server.port, 0, their_origins), toml, COMMON, our_origins)


def random_remap(source, ports):
    """Lines of a remap.config for two hosts, in any order, some with filters."""
    paths = ["", "", "a", "a/", "ab", "ab/", "a/b", "a/b/", "b/c", "b/", "a/b/c/"]
    targets = [*paths, "x/", "x", ""]
    filters = [*[""] * 6, "@action=deny @src_ip=127.0.0.1", "@action=allow @src_ip=10.0.0.1",
               "@action=deny @method=post", "@action=allow @method=get",
               "@action=deny @src_ip=127.0.0.0/8 @method=post @method=put",
               "@action=allow @src_ip=127.0.0.1 @method=get"]
    lines, known = [".definefilter readers @action=allow @method=get"], set()
    for _ in range(source.randint(2, 9)):
        host = source.choice(["http://a.test", "http://a.test", "http://b.test", ""])
        path, port = source.choice(paths), source.choice(ports)
        target = path if source.random() < 0.5 else source.choice(targets)
        kind = source.choice(["map"] * 5 + ["redirect", ".activatefilter", ".deactivatefilter"])
        if kind.startswith("."):
            lines.append(f"{kind} readers")
            continue
        if (kind, host, path) in known:
            # Traffic Server refuses a rule that is there twice.
            continue
        known.add((kind, host, path))
        if kind == "redirect":
            lines.append(f"redirect {host or 'http://c.test'}/{path} http://d.test/{target}")
        else:
            lines.append(f"map {host}/{path} http://127.0.0.1:{port}/{target} "
                         f"{source.choice(filters)}".strip())
    return lines


def random_rules(checks):
    """Random rules: Forebay serves no request that Traffic Server refuses, and the same content."""
    source, paths = random.Random(5), ["/", "/a", "/a/", "/ab", "/abc", "/ab/", "/ab/c", "/a/b",
                                       "/a/bc", "/a/b/c", "/a/b/c/d", "/b/c", "/b/", "/b", "/x/y"]
    opened, other, served, unavailable, count = [], [], 0, 0, 0
    with Origins(2, App) as origins, tempfile.TemporaryDirectory() as folder:
        for turn in range(12):
            etc = pathlib.Path(folder) / str(turn)
            etc.mkdir()
            lines = random_remap(source, origins.ports)
            (etc / "remap.config").write_text("\n".join([*lines, ""]), encoding="utf-8")
            (etc / "records.config").write_text("", encoding="utf-8")
            toml = etc / "forebay.toml"
            imported_quietly(etc, toml)
            with FolderServer(etc, ("remap.config", "records.config")) as server, \
                    Forebay("--config", str(toml)) as forebay:
                for host in ("a.test", "b.test", "c.test"):
                    for path in paths:
                        for method in ("GET", "POST"):
                            request = get(path, host=host, method=method)
                            theirs, ours = (Side(port).ask(request)
                                            for port in (server.port, forebay.port))
                            count += 1
                            served += theirs.status == 200
                            unavailable += ours.status == 503
                            if ours.status < 400 and theirs.status >= 400:
                                opened.append((turn, str(request), theirs.status, ours.status))
                            elif ours.status != 503 and is_other(theirs, ours):
                                other.append((turn, str(request), theirs.status, ours.status,
                                              theirs.body[:30], ours.body[:30], lines))
    checks.same(opened[:5], [], f"none of {count} random requests is served that was refused")
    checks.same(other[:3], [], "the others have the same answer, or 503")
    checks.that(served > count // 5, f"{served} requests were served by Traffic Server")
    checks.that(unavailable < count // 5, f"{unavailable} requests get 503")


def is_other(theirs, ours):
    """Whether two answers differ in status, content or target. The import lists that the target of
    the rule itself may lose or gain its final slash."""
    bodies = [answer.body.replace(b"/ 127.0.0.1", b" 127.0.0.1") for answer in (theirs, ours)]
    targets = [answer.fields.get("location", "").rstrip("/") for answer in (theirs, ours)]
    return (theirs.status != ours.status or theirs.status == 200 and bodies[0] != bodies[1]
            or targets[0] != targets[1])


def imported_quietly(etc, toml):
    """Runs `forebay import trafficserver`."""
    done = subprocess.run([binary(), "import", "trafficserver", str(etc), "--output", str(toml)],
                          capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise RuntimeError(f"the import failed: {done.stderr}")


class FolderServer(TrafficServer):
    """A running Traffic Server with the files of a folder, or only those with some names."""

    def __init__(self, folder, names=None):
        self.folder, self.names = folder, names
        super().__init__(())

    def _write(self, run, remaps, plugins):
        super()._write(run, remaps, plugins)
        user = "trafficserver" if os.geteuid() == 0 else "#-1"
        records = {**RECORDS, "http.server_ports": f"STRING {self.port}:ip-in=127.0.0.1",
                   "admin.user_id": f"STRING {user}"}
        for path in self.folder.iterdir():
            if self.names and path.name not in self.names:
                continue
            text = path.read_text(encoding="utf-8")
            if path.name == "records.config":
                lines = [line for line in text.splitlines() if not line.startswith("#")
                         and line.split()[1].removeprefix("proxy.config.") not in records]
                lines += [f"CONFIG proxy.config.{name} {value}" for name, value in records.items()]
                text = "\n".join([*lines, ""])
            if path.name == "storage.config":
                text = f"{run}/store 64M\n"
            (run / "etc" / path.name).write_text(text)
        if os.geteuid() == 0:
            for path in (run / "etc").rglob("*"):
                shutil.chown(path, "trafficserver")


class App(Program):
    """An application whose lifetimes depend on the path. It says what it is asked for; its own
    port, which differs between the two servers, has a name."""

    def answer(self):
        with self.server.lock:
            self.server.count += 1
        data = self.body()
        path = self.path.split("?")[0]
        host = self.headers.get("Host", "").replace(str(self.server.server_address[1]), "APP")
        text = (f"{self.server.number} {self.command} {self.path} {host} {len(data)}\n"
                + "x" * 200 + "\n").encode()
        tag = f'"{hashlib.sha256(text).hexdigest()[:8]}"'
        fields = [("Content-Type", "text/html"), ("X-Powered-By", "App")]
        if "moved" in path:
            here = f"http://127.0.0.1:{self.server.server_address[1]}/page"
            return self.send(302, b"", ("Location", here), *fields)
        if "status" in path:
            return self.send(int(path.rsplit("/", 1)[1]), text, *fields)
        if "cached" in path:
            fields += [("Cache-Control", "max-age=600"), ("ETag", tag), ("Last-Modified", DATE)]
        if "private" in path:
            fields.append(("Cache-Control", "private, max-age=600"))
        if "nostore" in path:
            fields.append(("Cache-Control", "no-store"))
        if "dated" in path:
            fields.append(("Last-Modified", DATE))
        if "setcookie" in path:
            fields.append(("Set-Cookie", "a=1"))
        if "vary" in path:
            fields.append(("Vary", "X-Kind"))
        if self.headers.get("If-None-Match") == tag:
            return self.send(304, b"", *fields)
        return self.send(200, text, *fields)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PURGE = do_PUSH = answer


def get(path, *fields, host="www.test", **rest):
    return SiteRequest(host, path, fields, **rest)


def twice(*paths, **rest):
    return [get(path, times=2, **rest) for path in paths]


# Reasons that hold for each configuration.
COMMON = [
    Reason("Forebay's own answers are lines of text, those of Traffic Server pages of HTML "
           "(error_pages)", own_page),
    Reason("Forebay's own answers to redirects may be stored as RFC 9111 says",
           lambda d: d.part == "cache-control" and d.is_same_status(300, 399)),
    Reason("a 206 and a 416 say that ranges work",
           lambda d: d.part == "accept-ranges" and d.ours == "bytes"),
    Reason("405 has Allow, as RFC 9110 section 15.5.6 demands",
           lambda d: d.part == "allow" and d.is_same_status(405, 405)),
]

def is_port_only(difference):
    """Whether a Location names the origins, which have different ports."""
    values = [str(value) for value in (difference.theirs, difference.ours)]
    is_origin = all(value.startswith("http://127.0.0.1:") for value in values)
    paths = {value.rsplit("/", 1)[-1] for value in values}
    return difference.part == "location" and is_origin and len(paths) == 1


DEBIAN = Typical("debian-default", [
    *(get(path, host=host) for host in ("www.test", "localhost", "127.0.0.1", "a.b.test")
      for path in ("/", "/index.html", "/a/b?c=d", "/a%20b")),
    get("/", method="HEAD"), get("/", method="POST", body=b"a=1"), get("/", method="DELETE"),
    get("/", method="OPTIONS"), get("/", "Cookie: a=1"),
], notes_max=0)

PAGES = ["/", "/cached/1", "/cached/2?a=1", "/cached/2?a=2", "/dated/1", "/none/1", "/private/1",
         "/nostore/1", "/cached/vary", "/status/404", "/status/500", "/status/503"]

ONE_APP = Typical("one-app", [
    *twice(*PAGES), *twice("/cached/cookie", "/none/cookie"),
    get("/cached/3", method="HEAD"), get("/cached/1", method="HEAD"),
    get("/form", method="POST", body=b"a=1", times=2),
    get("/cached/1", method="POST", body=b"a=1"), get("/cached/1"),
    get("/put", method="PUT", body=b"x" * 100), get("/cached/1", method="DELETE"),
    get("/cached/4", "Cookie: session=1", times=2), get("/cached/4"),
    get("/cached/5", "Authorization: Basic YTpi", times=2), get("/cached/5"),
    get("/cached/2?a=1", "If-None-Match: @TAG@"),
    get("/cached/2?a=1", f"If-Modified-Since: {DATE}"),
    get("/cached/2?a=1", "Range: bytes=0-9"), get("/cached/2?a=1", "Range: bytes=900-"),
    get("/cached/1", "Cache-Control: no-cache", times=2),
    get("/cached/vary", "X-Kind: b", times=2),
    get("/moved"), get("/", host="other.test"), get("/", host="www.test."),
], notes_max=0, reasons=[
    Reason("a response to a request with Authorization is stored only if it permits that (RFC 9111 "
           "section 3.5)",
           lambda d: d.path == "/cached/5" and d.part == "asked" and d.ours, "one-app"),
    Reason("a 416 has the length (RFC 9110 section 15.5.17)",
           lambda d: d.part == "content-range" and d.is_same_status(416, 416), "one-app"),
    Reason("a changed Location is a path; Traffic Server writes the URL of reverse_map",
           lambda d: d.part == "location" and d.theirs == f"http://www.test{d.ours}", "one-app"),
])

SITES = Typical("sites", [
    *(get(path, host=host) for host in ("example.test", "example.other", "www.example.other")
      for path in ("/", "/a/b?c=d")),
    *twice("/", "/cached/1", "/secret/1", "/secret", host="www.example.test"),
    get("/cached/1", host="www.example.test", method="HEAD"),
    *(get(path, host="shop.example.test", method=method)
      for path in ("/cached/a", "/admin/", "/admin/x", "/read/cached/1", "/read")
      for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS")),
    get("/cached/1", host="a.img.example.test", times=2),
    *(get(path, host="old.example.test")
      for path in ("/shop/", "/shop/a?b=c", "/shop", "/page", "/page?x=1", "/pages", "/else")),
    get("/", host="none.test"),
], notes_max=0, fields=("x-frame-options", "x-powered-by"))

PATHS = Typical("paths", [
    *twice("/api/", "/api/cached/1", "/api/a?b=c", "/api", "/static/cached/1", "/static/",
           "/static", "/blog", "/blog/", "/blog/cached/1", "/blogs", "/blogs/cached/1",
           "/old/cached/1", "/old/", "/old", "/never/x", "/cached/1", "/"),
    get("/api/moved"), get("/api/x", method="POST", body=b"a"),
    get("/api/private/1", times=2), *twice("/", "/cached/1", "/a/", host="app.test"),
], notes_max=1, reasons=[
    Reason("the URL of an origin in Location stays as it is outside the path of the target; the "
           "origins of both servers have ports of their own", is_port_only, "paths"),
])

PARENTS = Typical("parents", [
    *twice(*PAGES), *twice(*(f"/none/{number}" for number in range(10))),
    get("/form", method="POST", body=b"a=1", times=2),
], notes_max=0)

CACHE = Typical("cache", [
    *twice("/account", "/account/cached", "/accounts/cached", "/cached/1", "/none/a.gif",
           "/nostore/a.gif", "/none/a.gif?x", "/none/agif", "/pages/1", "/pages/private",
           "/pages/setcookie", "/none/1"),
    get("/cached/1", method="PURGE", times=2), get("/cached/1", times=2),
    get("/cached/1", method="DELETE"), get("/cached/1", method="PUT", body=b"a"),
    get("/pages/1", method="PURGE"), get("/pages/1", times=2), get("/missing", method="PURGE"),
    get("/form", method="POST", body=b"a=1"),
], notes_max=3, reasons=[
    Reason("a route to which never-cache may apply is not cached (docs/import.md)",
           lambda d: d.path.startswith("/none/a.gif") and d.part == "asked"
           and (d.theirs, d.ours) == (False, True), "cache"),
    Reason("ttl-in-cache stores what the origin forbids to store; override_freshness_s does not",
           lambda d: (d.path in ("/nostore/a.gif", "/pages/private", "/pages/setcookie")
                      and d.part in ("asked", "set-cookie")), "cache"),
    Reason("the answer to PURGE says how many responses it has removed, also if there are none "
           "(docs/purging.md)",
           lambda d: d.request.method == "PURGE" and d.statuses in (("200", "200"), ("404", "200")),
           "cache"),
])
