"""The origins of a server, in the language of each server.

`python3 -m lib.origins SERVER PORT COUNT PART` prints PART of the configuration of SERVER for COUNT
origins: 127.0.0.1, 127.0.0.2 and so on, all on PORT. Up to GROUP origins take all requests in turn.
Of more origins, each path /group/0, /group/1 and so on has a group of GROUP origins, because a list
of Forebay has at most 16; all servers have the same groups. The first origin takes all other paths.
"""

import sys

GROUP = 10


def addresses(count):
    return [f"127.0.0.{i + 1}" for i in range(count)]


def groups(count):
    """Pairs of a path and its addresses; the path of the first pair is empty: all other paths."""
    every = addresses(count)
    if count <= GROUP:
        return [("", every)]
    parts = [every[i:i + GROUP] for i in range(0, count, GROUP)]
    return [("", every[:1]), *((f"/group/{i}", part) for i, part in enumerate(parts))]


def prefixes(count):
    """The paths below which a workload requests its targets, so that each origin gets a share."""
    return [path for path, _ in groups(count) if path] or [""]


def name(path):
    return "origin" + path.replace("/group/", "")


def _forebay(port, count, _):
    yield from ("[[site]]", 'name = "main"', 'names = ["*"]')
    for path, members in groups(count):
        if path:
            yield from ("[[site.route]]", f'path_prefix = "{path}"')
        urls = ", ".join(f'"http://{address}:{port}"' for address in members)
        yield f"origin = [{urls}]"


def _nginx(port, count, part):
    for path, members in groups(count):
        if part == "upstreams":
            yield f"upstream {name(path)} {{"
            yield from (f"  server {address}:{port};" for address in members)
            yield from ("  keepalive 1024;", "  keepalive_requests 1000000000;",
                        "  keepalive_timeout 600s;", "}")
        elif path:
            yield f"location {path}/ {{ proxy_pass http://{name(path)}; }}"


def _haproxy(port, count, part):
    for path, members in groups(count):
        if part == "backends":
            yield from (f"backend {name(path)}", "  balance roundrobin",
                        "  http-request cache-use memory", "  http-response cache-store memory",
                        "  http-reuse always")
            yield from (f"  server {address} {address}:{port}" for address in members)
        elif path:
            yield f"  use_backend {name(path)} if {{ path_beg {path}/ }}"


def _varnish(port, count, part):
    backends = {address: "b" + address.replace(".", "_") for address in addresses(count)}
    for path, members in groups(count) if count > 1 else []:
        if part == "backends" and not path:
            yield from (f'backend {backend} {{ .host = "{address}"; .port = "{port}"; }}'
                        for address, backend in backends.items())
        elif part == "directors":
            yield f"  new {name(path)} = directors.round_robin();"
            yield from (f"  {name(path)}.add_backend({backends[address]});" for address in members)
        elif part == "choice":
            use = f"set req.backend_hint = {name(path)}.backend();"
            yield f'  if (req.url ~ "^{path}/") {{ {use} }}' if path else f"  {use}"


def _trafficserver(port, count, part):
    for path, members in reversed(groups(count)):
        if part == "remap":
            host = f"127.0.0.1:{port}" if count == 1 else name(path)
            yield f"map {path}/ http://{host}{path}/"
        elif count > 1:
            parents = ";".join(f"{address}:{port}" for address in members)
            yield (f'dest_host={name(path)} parent="{parents}" round_robin=strict '
                   "go_direct=false parent_is_proxy=false")


LANGUAGES = {"forebay": _forebay, "nginx": _nginx, "haproxy": _haproxy, "varnish": _varnish,
             "trafficserver": _trafficserver}


def lines(server, port, count, part=""):
    return list(LANGUAGES[server](port, count, part))


if __name__ == "__main__":
    print("\n".join(lines(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])))
