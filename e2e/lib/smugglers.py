"""Requests over HTTP/2 that would smuggle or split a message after their conversion to HTTP/1.1."""

# The lines of a request that is right; a vector replaces its pseudo-fields, or adds lines.
BASE = {":method": "POST", ":scheme": "http", ":authority": "a.test", ":path": "/p?q"}

# In each vector: the lines that differ from BASE. None removes a pseudo-field.
VECTORS = {
    "a line end, or another control character": [
        [("x", "a\r\nhost: b")], [("x", "a\nhost: b")], [("x", "a\rhost: b")], [("x", "a\0b")],
        [("x", "a\r\n\r\nGET /evil HTTP/1.1\r\nhost: b\r\n\r\n")], [("x", "a\r\n b")],
        [("x", "\r\n")], [("x", "a\r")], [("x", "a\x0b")], [("x", "a\x0cb")], [("x", "\x7f")],
        [("x", "a\x01")], [("cookie", "a=b\r\nx: y")], [("host", "a.test\r\nx: y")],
        [("content-length", "0\r\n")], [("te", "trailers\r\nx: y")], [("x\r\nhost", "b")],
        [("x\r\n\r\nGET /evil", "b")], [("x\nhost", "b")], [("x\0", "b")], [("x: y\r\nz", "b")],
        [(":path", "/ HTTP/1.1\r\nhost: b\r\nx: ")], [(":path", "/\r\n\r\nGET /evil HTTP/1.1")],
        [(":path", "/\n")], [(":path", "/\0")],
        [(":method", "GET / HTTP/1.1\r\nhost: b\r\n\r\nGET")], [(":method", "GET\r\n")],
        [(":method", "GET\0")], [(":authority", "a.test\r\nx: y")], [(":authority", "a.test\n")],
        [(":scheme", "http\r\n")], [(":scheme", "http\0")],
    ],
    "a request line that reads differently": [
        [(":path", path)] for path in (
            "/ HTTP/1.1", "/a b", "/a\tb", "/a#b", "/a\xe9", "/\x80", "", "a", "?q", "*",
            "http://b.test/", "https://b.test/", "\\\\b", "@b.test/", None)
    ] + [
        [(":method", method)] for method in (
            "", "GET /evil HTTP/1.1", "G ET", "GET,POST", "GET/", "G\xe9T", "G:T", None, "CONNECT")
    ] + [
        [(":scheme", scheme)] for scheme in ("ftp", "", "http://b.test/?", "file", None, "http ")
    ],
    "a host that two recipients read differently": [
        [(":authority", authority)] for authority in (
            "", "a.test/", "user@a.test", "a.test:", "a.test:080", "a.test, b.test",
            "a.test b.test", "a.test?", "a.test\\b", " a.test", None)
    ] + [
        [("host", "b.test")], [("host", "a.test:81")], [("host", "")], [("host", "a.test, b.test")],
        [("host", "a.test"), ("host", "a.test")], [("Host", "b.test")],
        [(":authority", None), ("host", "a.test"), ("host", "b.test")],
    ],
    "a body that two recipients read differently": [
        [("transfer-encoding", "chunked")], [("transfer-encoding", "identity")],
        [("transfer-encoding", "")], [("Transfer-Encoding", "chunked")],
        [("transfer-encoding ", "chunked")], [("transfer-encoding\t", "chunked")],
        [(" transfer-encoding", "chunked")], [("transfer-encoding:", "chunked")],
        [("transfer-encoding", "chunked"), ("content-length", "3")],
        [("content-length", "3"), ("content-length", "3")],
        [("content-length", "3"), ("content-length", "4")],
        [("content-length", "3"), ("content-length", "")],
        [("content-length ", "3")], [("content length", "3")],
    ] + [
        [("content-length", length)] for length in (
            "3, 3", "+3", "-3", "0x3", "3.0", "", " 3", "18446744073709551616", "2", "4")
    ],
    "a field that concerns one connection": [
        [("connection", "close")], [("connection", "transfer-encoding")], [("connection", "host")],
        [("proxy-connection", "keep-alive")], [("keep-alive", "timeout=5")],
        [("upgrade", "websocket")], [("upgrade", "h2c")],
        [("http2-settings", "AAMAAABkAAQCAAAAAAIAAAAA")], [("te", "chunked")],
        [("te", "trailers, chunked")], [("te", "")],
    ],
    "a name or a pseudo-field out of place": [
        [("", "x")], [("X", "y")], [("x y", "z")], [("x\xe9", "z")], [("x(", "z")], [("x", " y")],
        [("x", "y\t")], [("x", "y"), (":late", "1")], [(":status", "200")],
        [(":protocol", "websocket")], [(":", "x")], [(":Path", "/")], [(":path ", "/")],
        [("x", "y"), (":path", "/again")], [(":path", "/"), (":path", "/again")],
        [(":method", "GET"), (":method", "POST")],
        [(":authority", "a.test"), (":authority", "b.test")],
    ],
}

# Trailers of a request whose head is right.
TRAILERS = [
    [(":path", "/")], [("content-length", "3")], [("transfer-encoding", "chunked")],
    [("host", "b.test")], [("te", "trailers")], [("trailer", "x")], [("connection", "close")],
    [("X", "y")], [("x\r\n", "y")], [("x", "y\r\nGET /evil HTTP/1.1")],
]


def lines_of(vector, scheme):
    """All lines of a vector's request, over a connection with this scheme. A pseudo-field that the
    vector repeats or has after other lines stays where it is."""
    base = {**BASE, ":scheme": scheme}
    replaced = {}
    rest = []
    for name, value in vector:
        if name in base and name not in replaced and not rest:
            replaced[name] = value
        else:
            rest.append((name, value))
    lines = [(name, replaced.get(name, value)) for name, value in base.items()]
    return [(name, value) for name, value in lines if value is not None] + rest


def vectors(scheme):
    """Pairs of a group's name and the lines of a request; the other scheme is a vector too."""
    other = "http" if scheme == "https" else "https"
    groups = {**VECTORS, "the scheme of another connection": [[(":scheme", other)]]}
    return [(group, lines_of(vector, scheme)) for group, all_of in groups.items()
            for vector in all_of]
