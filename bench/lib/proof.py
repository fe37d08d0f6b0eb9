"""Proof that a server serves as a workload assumes: from its cache, from files or by the origin."""

import gzip
import time

from lib import files, rulesets
from lib.errors import Broken

# Some caches store a response only after they have sent it, so the first tries may miss.
TRIES = 20
# How many requests each origin gets in the proof of its share.
TURNS = 4
# In a measured run, an origin's share may differ from the mean by this part of it.
SHARE_TOLERANCE = 0.2


def check(server, origin, workload):
    """Fills the cache and proves that it serves, or proves that the origin gets every request."""
    if workload.served_by == "both":
        return  # The client distinguishes hits from misses, and counts both.
    server.protocol = workload.protocol
    if workload.unique:
        _check_misses(server, origin, workload)
    elif workload.served_by == "origin":
        _check_passes(server, origin, workload)
    else:
        _check_hits(server, origin, workload)
    if workload.origins > 1:
        _check_shares(server, origin, workload)
    if workload.files:
        _check_files(server, workload)
    elif workload.coding:
        server.coded_bytes = _check_coding(server, origin, workload)
    elif workload.served_by == "cache":
        if kind_and_count := rulesets.settings_of(server.spec):
            check_rules(server, workload.targets[0], *kind_and_count)


def _fetch_checked(server, workload, targets):
    want = workload.body_bytes
    answers = server.fetch_whole(targets, dict(workload.fields))
    for target, (body, fields) in zip(targets, answers):
        plain = decoded(server.name, target, body, fields, workload.coding)
        if len(plain) != want:
            raise Broken(f"{server.name} answered {target} with {len(plain)} bytes, not {want}")


def decoded(name, target, body, fields, coding):
    """The body without its content coding; raises Broken if it has another than the workload's."""
    seen = [value for field, value in fields if field.lower() == "content-encoding"]
    if seen != ([coding] if coding else []):
        raise Broken(f"{name} answered {target} with the content codings {seen}, not {coding!r}")
    try:
        return gzip.decompress(body) if coding else body
    except (OSError, EOFError) as error:
        raise Broken(f"{name} answered {target} with a bad body of {coding}: {error}") from error


def _check_hits(server, origin, workload):
    for _ in range(TRIES):
        before = origin.count()
        _fetch_checked(server, workload, workload.targets)
        if origin.count() == before:
            return
        time.sleep(0.1)
    raise Broken(f"{server.name} does not serve {workload.folder} from its cache: "
                 f"the origin still sees requests after {TRIES} tries")


def _check_passes(server, origin, workload):
    for _ in range(2):
        before = origin.count()
        _fetch_checked(server, workload, workload.targets)
        seen = origin.count() - before
        if seen != workload.urls:
            raise Broken(f"{server.name} passed {seen} of {workload.urls} requests for "
                         f"{workload.folder} to the origin: it must pass all")


def _check_misses(server, origin, workload):
    """Proves that new URLs are fetched once each, and then served from the cache."""
    targets = workload.targets_from(time.time_ns() // 1000)
    before = origin.count()
    _fetch_checked(server, workload, targets)
    seen = origin.count() - before
    if seen != workload.urls:
        raise Broken(f"{server.name} fetched {seen} of {workload.urls} new URLs from the origin")
    for _ in range(TRIES):
        before = origin.count()
        _fetch_checked(server, workload, targets)
        if origin.count() == before:
            return
        time.sleep(0.1)
    raise Broken(f"{server.name} does not store the responses of {workload.folder}: "
                 f"the origin still sees requests after {TRIES} tries")


def _check_shares(server, origin, workload):
    """Proves that each origin gets some requests, and none gets more than twice its share."""
    targets = []
    while len(targets) < TURNS * workload.origins:
        targets += workload.targets_from(time.time_ns() // 1000 if workload.unique else 0)
    before = origin.counts()
    _fetch_checked(server, workload, targets[:TURNS * workload.origins])
    shares = _since(before, origin.counts())[:workload.origins]
    if not all(1 <= share <= 2 * TURNS for share in shares):
        raise Broken(f"{server.name} does not give each of {workload.origins} origins its share of "
                     f"{TURNS} requests: they got {shares}")


def _since(before, after):
    return [now - then for then, now in zip(before, after)]


def uneven(before, after, count):
    """A description of the shares of the origins in a measured run, if they are uneven."""
    shares = _since(before, after)[:count]
    mean = sum(shares) / count
    if max(abs(share - mean) for share in shares) <= max(1, SHARE_TOLERANCE * mean):
        return []
    return [f"origins got {min(shares)} to {max(shares)} requests"]


def _check_files(server, workload):
    for target, body in zip(workload.targets, server.fetch(workload.targets)):
        if body != files.content(target, workload.body_bytes):
            raise Broken(f"{server.name} answered {target} with other bytes than those of its file")


def _check_coding(server, origin, workload):
    """Proves that the decoded body is the origin's; returns the length of the compressed body."""
    target = workload.targets[0]
    (body, fields), = server.fetch_whole([target], dict(workload.fields))
    plain, = origin.fetch([target])
    if decoded(server.name, target, body, fields, workload.coding) != plain:
        raise Broken(f"{server.name} answered {target} with other bytes than the origin")
    return len(body)


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
