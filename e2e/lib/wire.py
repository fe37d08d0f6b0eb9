"""Raw HTTP: a client that sends any bytes, and an origin that answers with any bytes."""

import contextlib
import socket
import sys
import threading


class Answer:
    """One response. `lines` are the field lines of its head; `fields` has the last value of each
    name, in lower case; `whole` tells whether the body arrived completely."""

    def __init__(self, head, body, whole):
        self.line, *self.lines = head
        self.status = int(self.line.split(" ")[1])
        self.fields = fields_of(self.lines)
        self.body, self.whole = body, whole

    def __repr__(self):
        state = "" if self.whole else " (cut)"
        return f"<{self.status} {len(self.body)} bytes{state} {self.cache}>"

    @property
    def cache(self):
        return self.fields.get("cache-status", "")


def fields_of(lines):
    """The values of field lines by name in lower case; if a name repeats, its last value."""
    return {name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)}


class Wire:
    """A client connection, from the given address."""

    def __init__(self, port, timeout_s=10, receive_bytes=None, address="127.0.0.1"):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.bind((address, 0))
        self.socket.connect(("127.0.0.1", port))
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def get(self, path, *fields, method="GET"):
        lines = "".join(f"{field}\r\n" for field in fields)
        self.send(f"{method} {path} HTTP/1.1\r\nHost: e2e.test\r\n{lines}\r\n")
        return self.answer(method)

    def answer(self, method="GET"):
        """Reads the next answer; returns None if the connection ends before the answer's head."""
        head = self._until(b"\r\n\r\n")
        if head is None:
            return None
        head = head.decode("latin-1").split("\r\n")[:-2]
        fields, status = fields_of(head[1:]), int(head[0].split(" ")[1])
        if method == "HEAD" or status in (204, 304) or status < 200:
            return Answer(head, b"", True)
        if fields.get("transfer-encoding") == "chunked":
            return Answer(head, *self._chunks())
        if "content-length" in fields:
            body = self._exactly(int(fields["content-length"]))
            whole = len(body) == int(fields["content-length"])
            return Answer(head, body, whole)
        return Answer(head, self.rest(), True)

    def rest(self):
        """Reads all bytes until the connection ends."""
        return self._exactly(sys.maxsize)

    def _more(self):
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            data = b""
        self.buffer += data
        return bool(data)

    def _until(self, end):
        while end not in self.buffer:
            if not self._more():
                return None
        at = self.buffer.index(end) + len(end)
        taken, self.buffer = self.buffer[:at], self.buffer[at:]
        return taken

    def _exactly(self, count):
        pieces, self.buffer = [self.buffer], b""
        missing = count - len(pieces[0])
        while missing > 0 and self._more():
            pieces.append(self.buffer)
            missing -= len(self.buffer)
            self.buffer = b""
        body = b"".join(pieces)
        self.buffer = body[count:] + self.buffer
        return body[:count]

    def _chunks(self):
        body = bytearray()
        while True:
            line = self._until(b"\r\n")
            if line is None:
                return bytes(body), False
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while (line := self._until(b"\r\n")) not in (b"\r\n", None):
                    pass
                return bytes(body), line is not None
            piece = self._exactly(size + 2)
            body += piece[:size]
            if len(piece) < size + 2:
                return bytes(body), False


def get(port, path, *fields, method="GET", timeout_s=10):
    """Sends one request on a new connection; returns the answer."""
    with Wire(port, timeout_s) as wire:
        return wire.get(path, *fields, method=method)


class Origin:
    """An origin that calls `answer(connection, head)` for each request head that arrives.

    `answer` returns the bytes to send, or None to close the connection.
    """

    def __init__(self, answer):
        self.answer = answer
        self.heads = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError):
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    more = connection.recv(1 << 16)
                    if not more:
                        return
                    data += more
                head, data = data.split(b"\r\n\r\n", 1)
                self.heads.append(head.decode("latin-1"))
                answer = self.answer(connection, self.heads[-1])
                if answer is None:
                    return
                connection.sendall(answer)


def response(body=b"", *fields, status="200 OK"):
    """The bytes of a response with Content-Length."""
    body = body.encode() if isinstance(body, str) else body
    lines = "".join(f"{field}\r\n" for field in fields)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
