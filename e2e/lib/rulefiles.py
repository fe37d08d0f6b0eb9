"""Rule files with requests in their comments, and the outcomes of running them in a server.

    # What the file shows.
    #! scope both            where the rules run: global, remap or both
    #! with Server Host      compare these fields too, although servers write them themselves
    #! body                  compare the bodies of answers too
    #> GET /path             a request; it is sent twice, so that the second may be a hit
    #> X-Header: value       a field of the request above
    #> Answer: X-Field: v    a field of the origin's answer; without a Cache-Control, the origin
                             adds max-age=60
    #> Answer-Status: 404 Not Found
    #> once GET /other       a request that is sent only once
    #> more GET /next        a request that is sent once, on the connection of the request before it

An outcome is text. For each scope it says whether the file was accepted. For each request it has
the answer and the requests that the origin got, for each time that the request was sent.
"""

import re
import time

from lib.wire import Origin, Wire, response

# Fields that a server writes by itself, or that are different in each run.
OWN_OF_ANSWERS = {"date", "age", "server", "via", "cache-status", "connection", "keep-alive",
                  "proxy-connection", "content-length", "transfer-encoding", "content-language",
                  "cache-control", "content-type"}
OWN_OF_REQUESTS = {"client-ip", "x-forwarded-for", "x-forwarded-proto", "forwarded", "via",
                   "x-request-id", "connection", "keep-alive", "proxy-connection", "answer",
                   "answer-status", "content-length", "transfer-encoding", "user-agent"}
REQUEST_LINE = re.compile(r"(?:(once|more) )?([A-Z]+) (\S+)")
SCOPES = {"global": ["global"], "remap": ["remap"], "both": ["global", "remap"]}
# After this time, an answer is stored.
STORED_S = 0.02


class Request:
    """One request of a rule file."""

    def __init__(self, kind, method, target):
        self.kind, self.method, self.target, self.fields = kind, method, target, []

    def bytes(self, host):
        named = any(field.lower().startswith("host:") for field in self.fields)
        lines = [f"{self.method} {self.target} HTTP/1.1", *([] if named else [f"Host: {host}"]),
                 *self.fields]
        if self.method in ("POST", "PUT"):
            lines.append("Content-Length: 0")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class RuleFile:
    """A rule file: its path, and the settings and requests in its comments."""

    def __init__(self, path):
        self.path, self.name = path, path.stem
        self.scopes, self.also, self.has_body, self.about = [], set(), False, ""
        self.requests = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#!"):
                self._setting(line[2:].split())
            elif line.startswith("#>"):
                self._request(line[2:].strip())
            elif line.startswith("# ") and not self.about:
                self.about = line[2:].strip()
        if not (self.scopes and self.requests and self.about):
            raise ValueError(f"{path}: the file needs a first comment with its purpose, "
                             "`#! scope`, and a request (`#> GET /path`)")

    def _setting(self, words):
        if words[0] == "scope" and words[1:2] and words[1] in SCOPES:
            self.scopes = SCOPES[words[1]]
        elif words[0] == "with":
            self.also |= {word.lower() for word in words[1:]}
        elif words == ["body"]:
            self.has_body = True
        else:
            raise ValueError(f"{self.path}: unknown setting: #! {' '.join(words)}; known are "
                             "`scope global|remap|both`, `with FIELDS` and `body`")

    def _request(self, line):
        if found := REQUEST_LINE.fullmatch(line):
            self.requests.append(Request(found[1] or "twice", found[2], found[3]))
        elif self.requests and ":" in line:
            self.requests[-1].fields.append(line)
        else:
            raise ValueError(f"{self.path}: neither a request line nor a field of a request: "
                             f"#> {line}")


def answer_of(head):
    """The origin's answer to a request: its Answer fields give the answer's fields and status."""
    fields, status = [], "200 OK"
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "answer":
            fields.append(value.strip())
        elif name.lower() == "answer-status":
            status = value.strip()
    if not any(field.lower().startswith("cache-control:") for field in fields):
        fields.append("Cache-Control: max-age=60")
    return response(b"" if head.startswith("HEAD ") else b"page\n", *fields, status=status)


def origin():
    return Origin(lambda _, head: answer_of(head))


class Sight:
    """Sends the requests of a rule file to one server, and records what client and origin get."""

    def __init__(self, rules, origin_seen, port, host):
        self.rules, self.origin, self.port, self.host = rules, origin_seen, port, host
        self.wire = None

    def blocks(self):
        """The outcome of each request, as lines."""
        try:
            return [self._request(request) for request in self.rules.requests]
        finally:
            self._close()

    def _close(self):
        if self.wire:
            self.wire.socket.close()
            self.wire = None

    def _request(self, request):
        lines = [f"{request.method} {request.target}", *self._once(request)]
        if request.kind == "twice":
            time.sleep(STORED_S)
            lines += ["again", *self._once(request)]
        return [self._same_everywhere(line) for line in lines]

    def _once(self, request):
        """Sends the request once; returns lines for the answer and for the origin's requests."""
        seen_before = len(self.origin.heads)
        try:
            if request.kind != "more" or not self.wire:
                self._close()
                self.wire = Wire(self.port)
            self.wire.send(request.bytes(self.host))
            answer = self.wire.answer(request.method)
        except ConnectionError:
            answer = None
        heads = self.origin.heads[seen_before:]
        lines = ["  no answer"] if answer is None else self._answer(answer)
        for head in heads:
            line, *fields = head.split("\r\n")
            lines += [f"  origin: {line}", *self._fields(fields, OWN_OF_REQUESTS)]
        return lines

    def _answer(self, answer):
        lines = [f"  {answer.line.partition(' ')[2]}", *self._fields(answer.lines, OWN_OF_ANSWERS)]
        if self.rules.has_body:
            body = answer.body.decode("latin-1")
            lines += [f"    | {line}" for line in body.splitlines()]
        return lines

    def _fields(self, lines, own):
        """The compared fields, sorted by name; fields with the same name keep their order."""
        pairs = [(name.lower(), name, value.strip())
                 for name, _, value in (line.partition(":") for line in lines)]
        kept = [pair for pair in pairs if pair[0] not in own - self.rules.also]
        return [f"    {key}: {value}" for key, _, value in sorted(kept, key=lambda pair: pair[0])]

    def _same_everywhere(self, line):
        for port, name in ((self.origin.port, "ORIGIN"), (self.port, "PROXY")):
            line = re.sub(rf"(?<![0-9]){port}(?![0-9])", name, line)
        return line


def refused():
    return {"load": ["refused"]}


def outcome(rules, origin_seen, port, host):
    """The outcome of a server that has accepted the file: lines by request number, and `load`."""
    blocks = Sight(rules, origin_seen, port, host).blocks()
    return {"load": ["accepted"], **{str(i): block for i, block in enumerate(blocks, 1)}}


def is_of(blocks, rules):
    """Whether the blocks are outcomes of the requests that the file has now."""
    if blocks.get("load", [""])[0] == "refused":
        return len(blocks) == 1
    asked = [f"{request.method} {request.target}" for request in rules.requests]
    return asked == [block[0] for number, block in blocks.items() if number != "load"]


def write(outcomes):
    """Returns outcomes by scope as the text of a recording."""
    lines = []
    for scope, blocks in outcomes.items():
        lines.append(f"== {scope}")
        for number, block in blocks.items():
            lines += [f"-- {number}", *block]
    return "\n".join(lines) + "\n"


def read(text):
    """Returns the outcomes by scope from the text of a recording, as `write` makes it."""
    outcomes = {}
    for line in text.splitlines():
        if line.startswith("== "):
            blocks = outcomes.setdefault(line[3:], {})
        elif line.startswith("-- "):
            block = blocks.setdefault(line[3:], [])
        else:
            block.append(line)
    return outcomes
