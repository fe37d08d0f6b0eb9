"""Typical configurations of nginx, for the script `import-typical`."""

import pathlib
import tempfile

from .answers import Side
from .reasons import GENERAL, Reason
from .servers import free_port
from .siterequests import SiteRequest
from .threesites import DATE, NginxSites, Origins, write_files
from .typical import FOLDER, Typical, compare, filled, imported, is_installed


def nginx(checks):
    """nginx: its Debian default and typical sites answer as the imported Forebay does."""
    if not is_installed(checks, "nginx"):
        return
    for typical in (DEBIAN,):
        checks.topic(f"nginx: {typical.name}")
        run(checks, typical)


def run(checks, typical):
    """Compares one configuration; both servers have origins and files of the same kind."""
    with (tempfile.TemporaryDirectory(prefix="forebay-e2e-typical-") as folder,
          Origins(2) as their_origins, Origins(2) as our_origins):
        root, ports = pathlib.Path(folder), [free_port(), free_port()]
        write_files(root)
        sides = []
        for port, origins in zip(ports, (their_origins, our_origins)):
            words = {"PORT": port, "ROOT": folder, "USER": "user root;",
                     "APP_1": origins.ports[0], "APP_2": origins.ports[1]}
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
            theirs = Side(ports[0], 0, their_origins)
            compare(checks, typical, theirs, toml, [*GENERAL, *FILES], our_origins)


def get(path, *fields, **rest):
    return SiteRequest("www.test", path, fields, **rest)


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

DEBIAN = Typical("debian-default", [
    *(get(path) for path in ("/", "/index.html", "/about.html", "/style.css", "/app.js", "/big.bin",
                             "/data.json", "/notes.txt", "/logo.png", "/empty.txt", "/docs/",
                             "/docs", "/docs/page.html", "/plain/", "/missing", "/link.txt")),
    get("/", method="HEAD"), get("/missing", method="HEAD"), get("/", method="POST"),
    get("/notes.txt", "Range: bytes=0-9"), get("/notes.txt", "Range: bytes=200-"),
    get("/notes.txt", "If-None-Match: @TAG@"), get("/notes.txt", f"If-Modified-Since: {DATE}"),
    get("/", "Accept-Encoding: gzip"), get("/style.css", "Accept-Encoding: gzip"),
    SiteRequest("other.test", "/about.html"), SiteRequest("127.0.0.1", "/"),
], notes_max=0)
