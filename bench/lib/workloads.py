"""The table of workloads."""

import dataclasses
import fnmatch

from lib import files, origins, rulesets
from lib.errors import Usage

RATE_PER_SECOND = 20_000
RATE_CONNECTIONS = 200
# The length of a body, by the name of its folder.
BYTES = {"0": 0, "1k": 1024, "64k": 65_536, "1m": 2**20, "text": 10_240}
# The servers that answer from the files of no directory.
WITHOUT_FILES = ("haproxy", "varnish", "trafficserver")
BROWSER_FIELDS = (
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/142.0.0.0 Safari/537.36"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
     "image/apng,*/*;q=0.8"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Referer", "https://www.example.org/articles/2026/11/a-long-title-of-a-page?page=2"),
    ("Sec-Ch-Ua", '"Chromium";v="142", "Not_A Brand";v="99"'),
    ("Sec-Ch-Ua-Platform", '"Linux"'),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Cookie", "session=4f1c0d8a2b6e9735; consent=yes; theme=dark"),
)
RULE_FIELDS = tuple(rulesets.REQUEST_FIELDS.items())
ABOUT_RULES = "1k hits with the two request fields that header rules look at, 64 connections"


@dataclasses.dataclass(frozen=True)
class Workload:
    """The requests of a workload, and the settings of the servers during it."""

    name: str
    about: str
    tool: str  # wrk, h2load, rate, handshakes or mixed
    folder: str = ""  # targets of the origin are FOLDER/0, FOLDER/1, ...
    urls: int = 1
    unique: bool = False  # a URL that was never requested before for each request
    connections: int = 64
    close: bool = False  # a connection for each request
    per_second: int = 0  # requests per second; only for the tool rate
    fields: tuple = ()  # fields of the request, as pairs; only for the tools wrk and h2load
    protocol: str = "h1"  # h1, h2c, tls-h1 or tls-h2
    exchange: str = "x25519"  # key exchange of the tool handshakes: x25519 or mlkem
    resume: bool = False  # whether the tool handshakes resumes sessions
    streams: int = 1  # requests at a time on each connection; only for the tool h2load
    served_by: str = "cache"  # cache (the origin must get no request), origin (all), or both
    access_log: bool = False
    cache_mib: int = 256
    origins: int = 1  # addresses of the origin, among which the server balances
    files: bool = False  # the server answers from the files of a directory
    coding: str = ""  # the content coding with which the server compresses

    @property
    def folders(self):
        """The folder, or below each group of origins the folder that this group serves."""
        return [prefix + self.folder for prefix in origins.prefixes(self.origins)]

    @property
    def targets(self):
        return self.targets_from(0)

    def targets_from(self, first):
        """As many targets as the workload has URLs; their numbers begin with `first`."""
        folders = self.folders
        return [f"{folders[i % len(folders)]}/{i}" for i in range(first, first + self.urls)]

    @property
    def body_bytes(self):
        return BYTES[self.folder.rsplit("/", 1)[1]]

    @property
    def is_tls(self):
        return self.protocol.startswith("tls")

    def unable(self, spec):
        """The reason why this server cannot serve the workload, or None."""
        if spec.is_bare and (self.served_by != "cache" or self.files or self.coding
                             or self.protocol != "h1"):
            return "only ready-made answers"
        if self.files and spec.name in WITHOUT_FILES:
            return "cannot serve a directory of files"
        if spec.name == "h2o" and (self.served_by != "cache" or self.coding):
            return "serves only files"
        if self.is_tls and spec.name == "varnish":
            return "has no TLS"
        if self.protocol == "h2c" and spec.name == "trafficserver":
            return "has HTTP/2 over TLS only"
        return None

    @property
    def profile(self):
        """The settings of the servers. Workloads with different profiles need a restart."""
        return {"ACCESS_LOG": str(int(self.access_log)), "CACHE_MIB": str(self.cache_mib),
                "ORIGINS": str(self.origins), "FILES": str(files.FOLDER) if self.files else "",
                "PROTOCOL": "tls" if self.is_tls else self.protocol,
                "COMPRESS": self.coding}


def _hits():
    for size in ("0", "1k", "64k"):
        for urls in (1, 64):
            for connections in (64, 640):
                for close in (False, True):
                    yield Workload(
                        name=f"{size}-u{urls}-c{connections}" + ("-close" if close else ""),
                        about=f"hits of {size} bytes, {urls} URL(s), {connections} connections, "
                        + ("one request each" if close else "keep-alive"),
                        tool="wrk", folder=f"/{size}", urls=urls,
                        connections=connections, close=close)


def _others():
    yield Workload(
        name="rate-20k", tool="rate", folder="/1k", connections=RATE_CONNECTIONS,
        per_second=RATE_PER_SECOND,
        about="1k hits, constant 20,000/s over 200 connections, latency from the due time")
    for size in ("1k", "64k"):
        yield Workload(
            name=f"pass-{size}", tool="wrk", folder=f"/nocache/{size}", urls=64,
            served_by="origin",
            about=f"responses of {size} bytes that must not be stored, 64 URLs, "
            "64 connections")
    for protocol, over in (("h1", ""), ("tls-h1", ", TLS")):
        for close in (True, False):
            yield Workload(
                name="rules" + ("-tls" if over else "") + ("-close" if close else ""), tool="wrk",
                folder="/1k", close=close, fields=RULE_FIELDS, protocol=protocol,
                about=f"{ABOUT_RULES}{over}, "
                + ("one request each" if close else "keep-alive"))
    yield Workload(
        name="rules-tls-h2", tool="h2load", folder="/1k", streams=10, fields=RULE_FIELDS,
        protocol="tls-h2", about=f"{ABOUT_RULES}, HTTP/2 over TLS, 10 streams at a time on each")
    mixture = "Zipf 1.0 over 100,000 URLs of 1-100 KiB, 10 % never-seen, cache of 512 MiB"
    for name, access_log in (("mixed", True), ("mixed-nolog", False)):
        yield Workload(
            name=name, tool="mixed", served_by="both", access_log=access_log, cache_mib=512,
            about=f"{mixture}, access log {'on' if access_log else 'off'}")


def _sites():
    for count in (1, 10, 100):
        balanced = "1 origin" if count == 1 else f"{count} origins in turn"
        if count > origins.GROUP:
            balanced += f", {origins.GROUP} for each of {count // origins.GROUP} paths"
        yield Workload(
            name=f"pass-1k-o{count}", tool="wrk", folder="/nocache/1k", urls=100,
            served_by="origin", origins=count,
            about="responses of 1k bytes that must not be stored, 100 URLs, 64 connections, "
            + balanced)
        yield Workload(
            name=f"miss-1k-o{count}", tool="wrk", folder="/1k", urls=100, unique=True,
            served_by="origin", origins=count,
            about="responses of 1k bytes that are stored, each with a new URL, 64 connections, "
            + balanced)
    for size, urls in (("1k", 64), ("1m", 8)):
        yield Workload(
            name=f"file-{size}", tool="wrk", folder=f"/{size}", urls=urls, files=True,
            about=f"{urls} files of {size} bytes in a directory, 64 connections")
    yield Workload(
        name="hit-gzip-10k", tool="wrk", folder="/text", urls=64, coding="gzip",
        fields=(("Accept-Encoding", "gzip"),),
        about="hits of a text of 10k bytes, which the server compresses with gzip, 64 URLs, "
        "64 connections")


def _tls_h2():
    for protocol in ("h2c", "tls-h2"):
        over, prefix = ("HTTP/2", "h2") if protocol == "h2c" else ("HTTP/2 over TLS", "tls-h2")
        common = {"tool": "h2load", "protocol": protocol}
        for size, streams in (("1k", 1), ("1k", 10), ("1k", 100), ("64k", 10)):
            yield Workload(
                name=f"{size}-{prefix}-m{streams}", folder=f"/{size}", streams=streams, **common,
                about=f"hits of {size} bytes, 1 URL, {over}, 64 connections, "
                f"{streams} stream(s) at a time on each")
        yield Workload(
            name=f"1k-{prefix}-browser", folder="/1k", urls=200, streams=10, fields=BROWSER_FIELDS,
            about=f"hits of 1k bytes, 200 URLs, requests with the ten fields of a browser, {over}, "
            "64 connections, 10 streams at a time on each", **common)
    for size in ("1k", "64k"):
        yield Workload(
            name=f"{size}-tls", tool="wrk", folder=f"/{size}", protocol="tls-h1",
            about=f"hits of {size} bytes, 1 URL, HTTP/1.1 over TLS, 64 connections, keep-alive")
    for name, exchange, resume, kind in (
            ("close", "x25519", False, "full handshakes with X25519"),
            ("close-mlkem", "mlkem", False, "full handshakes with X25519MLKEM768, or X25519 if the "
             "server does not have it"),
            ("resumed", "x25519", True, "resumed handshakes with X25519")):
        yield Workload(
            name=f"1k-tls-{name}", tool="handshakes", folder="/1k", protocol="tls-h1",
            exchange=exchange, resume=resume,
            about="hits of 1k bytes, 1 URL, HTTP/1.1 over TLS 1.3, 64 connections at a time with "
            f"one request each, {kind}")


WORKLOADS = {w.name: w for w in [*_hits(), *_others(), *_sites(), *_tls_h2()]}

GROUPS = {
    "core": ["1k-u1-c64", "1k-u1-c640", "1k-u64-c64", "64k-u1-c64", "1k-u1-c64-close", "rate-20k",
             "pass-1k", "mixed"],
    "hits": [w.name for w in _hits()],
    "keepalive": [w.name for w in _hits() if not w.close],
    "close": [w.name for w in _hits() if w.close],
    # The five patterns of connections in which rules are compared.
    "rules": ["rules-close", "rules-tls-close", "rules", "rules-tls", "rules-tls-h2"],
    "sites": [w.name for w in _sites()],
    "tls-h2": [w.name for w in _tls_h2()],
    "all": list(WORKLOADS),
}


def select(text):
    """The workloads that a comma-separated list of names, groups and patterns names."""
    names = []
    for word in filter(None, text.split(",")):
        found = GROUPS.get(word) or fnmatch.filter(WORKLOADS, word)
        if not found:
            raise Usage(f"no workload or group is called {word!r}; --list shows them")
        names += found
    return [WORKLOADS[name] for name in dict.fromkeys(names)]
