"""Compares the answers of two servers, and counts the differences by reason."""

import collections
import contextlib
import ssl

from .reasons import Difference
from .wire import Wire

# Fields that are compared; clients and caches act on them.
FIELDS = ("content-type", "content-length", "content-encoding", "content-range", "location",
          "etag", "last-modified", "accept-ranges", "allow", "cache-control", "expires", "vary",
          "set-cookie", "www-authenticate", "strict-transport-security", "retry-after", "upgrade",
          "sec-websocket-accept")


class TlsWire(Wire):
    """A client connection over TLS."""

    def __init__(self, port, host):
        super().__init__(port)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.socket = context.wrap_socket(self.socket, server_hostname=host)


class Side:
    """One of the two servers. `origins`, if it has some of its own, counts their requests."""

    def __init__(self, port, tls_port=0, origins=None):
        self.port, self.tls_port, self.origins, self.tags = port, tls_port, origins, {}

    def ask(self, request):
        """The answer; `None` if the server closes the connection. `is_asked` of an answer says
        whether an origin was asked, and is `None` if that is not known."""
        before = self.origins.count() if self.origins else 0
        host = request.host or "shop.test"
        with TlsWire(self.tls_port, host) if request.tls else Wire(self.port) as wire:
            text = request.bytes(self.tags.get(request.path, '"no-tag"'))
            # A server may answer, and close, before it has the whole body.
            with contextlib.suppress(ConnectionError):
                wire.send(text)
            answer = wire.answer(request.method)
            while answer is not None and answer.status == 100:
                answer = wire.answer(request.method)
        if answer is not None:
            answer.is_asked = self.origins.count() > before if self.origins else None
            if answer.status == 200 and "etag" in answer.fields:
                self.tags[request.path] = answer.fields["etag"]
        return answer


def values(answer, fields=FIELDS):
    """The compared parts of an answer: `status`, `body`, `asked` (whether an origin was asked, if
    that is known), and fields."""
    if answer is None:
        return {"status": "none"}
    parts = {"status": str(answer.status), "body": answer.body}
    if getattr(answer, "is_asked", None) is not None:
        parts["asked"] = answer.is_asked
    for line in answer.lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if name in fields:
            parts[name] = f"{parts[name]}, {value}" if name in parts else value
    return parts


def differences(request, theirs, ours, fields=FIELDS):
    theirs, ours = values(theirs, fields), values(ours, fields)
    return [Difference(request, name, theirs.get(name), ours.get(name), theirs, ours)
            for name in sorted(theirs.keys() | ours.keys())
            if theirs.get(name) != ours.get(name)]


class Table:
    """Counts differences by reason. `fields` are compared in addition to the usual ones."""

    def __init__(self, checks, reasons, fields=()):
        self.checks, self.reasons, self.count = checks, reasons, 0
        self.fields = (*FIELDS, *fields)
        self.found = collections.defaultdict(list)
        self.unexplained, self.opened = [], []

    def compare(self, request, theirs, ours):
        self.count += 1
        is_refused = theirs is not None and theirs.status in (401, 403)
        if is_refused and (ours is None or ours.status < 400):
            self.opened.append(f"{request}: {theirs}, {ours}")
        for difference in differences(request, theirs, ours, self.fields):
            reason = next((reason for reason in self.reasons if reason.applies(difference)), None)
            if reason is None:
                self.unexplained.append(difference)
            else:
                self.found[reason].append(difference)

    def finish(self, names):
        """Prints the table, and checks that it is complete, and that each reason of these cases
        explains a difference."""
        for reason, found in self.found.items():
            requests = {difference.request for difference in found}
            self.checks.note(f"{len(requests):3} requests: {reason.text}")
            self.checks.note(f"             such as {found[0]}")
        self.checks.same(self.opened, [], "no request that the other server refuses is served")
        for difference in self.unexplained:
            self.checks.note(f"no reason: {difference}")
        self.checks.same(len(self.unexplained), 0, f"all differences of {self.count} requests "
                                                   "have a reason")
        unused = [reason.text for reason in self.reasons
                  if reason.case in names and reason not in self.found]
        self.checks.same(unused, [], "all reasons of the list are needed")
