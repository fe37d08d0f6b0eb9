"""Proof that a server serves as a workload assumes: from its cache, or from the origin."""

import time

from lib import rulesets
from lib.errors import Broken

SIZES = {"0": 0, "1k": 1024, "64k": 65_536}
# Some caches store a response only after they have sent it, so the first tries may miss.
TRIES = 20


def check(server, origin, workload):
    """Fills the cache and proves that it serves, or proves that the origin gets every request."""
    if workload.served_by == "both":
        return  # The client distinguishes hits from misses, and counts both.
    if workload.served_by == "origin":
        _check_passes(server, origin, workload)
    else:
        _check_hits(server, origin, workload)
        if kind_and_count := rulesets.settings_of(server.spec):
            check_rules(server, workload.targets[0], *kind_and_count)


def _fetch_checked(server, workload):
    want = SIZES[workload.folder.rsplit("/", 1)[1]]
    for target, body in zip(workload.targets, server.fetch(workload.targets)):
        if len(body) != want:
            raise Broken(f"{server.name} answered {target} with {len(body)} bytes, not {want}")


def _check_hits(server, origin, workload):
    for _ in range(TRIES):
        before = origin.count()
        _fetch_checked(server, workload)
        if origin.count() == before:
            return
        time.sleep(0.1)
    raise Broken(f"{server.name} does not serve {workload.folder} from its cache: "
                 f"the origin still sees requests after {TRIES} tries")


def _check_passes(server, origin, workload):
    for _ in range(2):
        before = origin.count()
        _fetch_checked(server, workload)
        seen = origin.count() - before
        if seen != workload.urls:
            raise Broken(f"{server.name} passed {seen} of {workload.urls} requests for "
                         f"{workload.folder} to the origin: it must pass all")


def check_rules(server, target, kind, count):
    """Fails unless exactly the rules that hold for a request show in the answer."""
    for fields in (rulesets.REQUEST_FIELDS, {}, {"X-Agent": "somebot-7.x/"}):
        if kind == "eqd" and len(fields) == 1:
            continue  # The test does not compute which rules of this kind hold for such a request.
        (_, answer), = server.fetch_whole([target], fields)
        seen = sorted((name.lower(), value) for name, value in answer
                      if name.lower().startswith("x-rule-"))
        holds = rulesets.expected(kind, count, fields)
        want = sorted((rulesets.field(i).lower(), rulesets.value(i)) for i in holds)
        if seen != want:
            raise Broken(f"{server.name} has {count} rules: its answer to a request with {fields} "
                         f"shows {len(seen)} of them or other values, not the expected {len(want)}")
