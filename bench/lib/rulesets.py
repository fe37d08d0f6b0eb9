"""Header rules of each server, in its own language: `python3 -m lib.rulesets SERVER KIND N [PART]`.

N rules set N different fields of the response, `X-Rule-007: value-007-abcdef`. The kinds:

    set   sets its field always
    eq    sets it if the request's X-Test is `yes` (all rules have this condition)
    eqd   sets it if X-Test or X-Agent is greater than a value; all values differ, all rules hold
    rx    sets it if a regex matches X-Agent; all regexes differ, and none matches
    four  adds two fields and sets two, whatever N is (Forebay and Traffic Server only)
"""

import sys

from lib.errors import Usage

KINDS = ("set", "eq", "eqd", "rx", "four")
AGENT = ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/126.0.0.0 Safari/537.36")
# The fields of requests in all runs, with rules and without.
REQUEST_FIELDS = {"X-Test": "yes", "X-Agent": AGENT}
COUNT_OF_FOUR = 4


def field(i):
    return f"X-Rule-{i:03d}"


def value(i):
    return f"value-{i:03d}-abcdef"


def regex(i):
    """A regex that begins with three alternatives and matches nowhere in AGENT."""
    return f"(bot|spider|crawler)-{i}[.x]"


def different(i):
    """A request field, and a value that is less than the field's value."""
    return ("X-Test", f"ye{i:03d}") if i % 2 == 0 else ("X-Agent", f"Mozilla/4.{i:03d}")


def expected(kind, count, fields=None):
    """The numbers of the rules that an answer shows if the request has these fields."""
    fields = REQUEST_FIELDS if fields is None else fields
    if kind == "rx":
        agent = fields.get("X-Agent", "")
        return [i for i in range(count) if agent.startswith(f"somebot-{i}.")]
    if kind == "four":
        return list(range(COUNT_OF_FOUR)) if count else []
    if kind == "eq" and "X-Test" not in fields or kind == "eqd" and not fields:
        return []
    return list(range(count))


def header_rewrite(kind, count, _part):
    """The rules of Forebay and Traffic Server."""
    if kind == "four":
        steps = [f'{"add" if i < 2 else "set"}-header {field(i)} "{value(i)}"'
                 for i in range(COUNT_OF_FOUR if count else 0)]
        return [line for step in steps for line in ("cond %{SEND_RESPONSE_HDR_HOOK}", step, "")]
    lines = []
    for i in range(count):
        name, less = different(i)
        condition = {"eq": "cond %{CLIENT-HEADER:X-Test} =yes",
                     "eqd": f"cond %{{CLIENT-HEADER:{name}}} >{less}",
                     "rx": f"cond %{{CLIENT-HEADER:X-Agent}} /{regex(i)}/"}.get(kind)
        lines += ["cond %{SEND_RESPONSE_HDR_HOOK}", *([condition] if condition else []),
                  f'set-header {field(i)} "{value(i)}"', ""]
    return lines


def nginx(kind, count, part):
    """The rules of nginx: `part` is maps or rules."""
    if part == "maps":
        match = {"eq": lambda i: ("x_test", "yes"), "rx": lambda i: ("x_agent", f'"~{regex(i)}"')}
        if kind not in match:
            return []
        pairs = [match[kind](i) for i in range(count)]
        return [f'map $http_{name} $rule_{i} {{ default ""; {text} "{value(i)}"; }}'
                for i, (name, text) in enumerate(pairs)]
    return [f'add_header {field(i)} ' + (f'"{value(i)}";' if kind == "set" else f"$rule_{i};")
            for i in range(count)]


def haproxy(kind, count, _part):
    """HAProxy's response rules do not see the request: a variable keeps the field for them."""
    kept = {"eq": "  http-request set-var(txn.t) req.hdr(x-test)",
            "rx": "  http-request set-var(txn.a) req.hdr(x-agent)"}.get(kind)
    condition = {"eq": lambda i: " if { var(txn.t) -m str yes }",
                 "rx": lambda i: f" if {{ var(txn.a) -m reg {regex(i)} }}"}.get(kind)
    return ([kept] if kept and count else []) + [
        f"  http-after-response set-header {field(i)} {value(i)}"
        + (condition(i) if condition else "") for i in range(count)]


def varnish(kind, count, _part):
    condition = {"eq": lambda i: 'if (req.http.X-Test == "yes") ',
                 "rx": lambda i: f'if (req.http.X-Agent ~ "{regex(i)}") '}.get(kind)
    return [f'  {condition(i) if condition else ""}{{ set resp.http.{field(i)} = "{value(i)}"; }}'
            for i in range(count)]


LANGUAGES = {"forebay": header_rewrite, "trafficserver": header_rewrite, "nginx": nginx,
             "haproxy": haproxy, "varnish": varnish}


def kinds_of(server):
    """The kinds of rules that the server's language can express."""
    return KINDS if LANGUAGES.get(server) is header_rewrite else ("set", "eq", "rx")


def rules(server, kind, count, part=""):
    """The lines of N rules for one server."""
    if server not in LANGUAGES or kind not in kinds_of(server):
        raise Usage(f"{server!r} has no rules of kind {kind!r}")
    return LANGUAGES[server](kind, count, part)


def settings_of(spec):
    """The kind and the number of rules in a server's settings, or None."""
    settings = spec.settings
    return (settings["KIND"], int(settings.get("N", 0))) if "KIND" in settings else None


if __name__ == "__main__":
    print("\n".join(rules(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
