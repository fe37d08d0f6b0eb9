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


@dataclasses.dataclass(frozen=True)
class Workload:
    """The requests of a workload, and the settings of the servers during it."""

    name: str
    about: str
    tool: str  # wrk, rate or mixed
    folder: str = ""  # targets of the origin are FOLDER/0, FOLDER/1, ...
    urls: int = 1
    unique: bool = False  # a URL that was never requested before for each request
    connections: int = 64
    close: bool = False  # a connection for each request
    per_second: int = 0  # requests per second; only for the tool rate
    fields: tuple = ()  # fields of the request, as pairs; only for the tool wrk
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

    def unable(self, spec):
        """The reason why this server cannot serve the workload, or None."""
        if spec.is_bare and (self.served_by != "cache" or self.files or self.coding):
            return "only ready-made answers"
        if self.files and spec.name in WITHOUT_FILES:
            return "cannot serve a directory of files"
        return None

    @property
    def profile(self):
        """The settings of the servers. Workloads with different profiles need a restart."""
        return {"ACCESS_LOG": str(int(self.access_log)), "CACHE_MIB": str(self.cache_mib),
                "ORIGINS": str(self.origins), "FILES": str(files.FOLDER) if self.files else "",
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
    for close in (False, True):
        yield Workload(
            name="rules" + ("-close" if close else ""), tool="wrk", folder="/1k", close=close,
            fields=tuple(rulesets.REQUEST_FIELDS.items()),
            about="1k hits with the two request fields that header rules look at, 64 connections, "
            + ("one request each" if close else "keep-alive"))
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


WORKLOADS = {w.name: w for w in [*_hits(), *_others(), *_sites()]}

GROUPS = {
    "core": ["1k-u1-c64", "1k-u1-c640", "1k-u64-c64", "64k-u1-c64", "1k-u1-c64-close", "rate-20k",
             "pass-1k", "mixed"],
    "hits": [w.name for w in _hits()],
    "keepalive": [w.name for w in _hits() if not w.close],
    "close": [w.name for w in _hits() if w.close],
    "rules": ["rules", "rules-close"],
    "sites": [w.name for w in _sites()],
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
