"""HTTP/2 by raw frames: any frame can be sent, valid or not. Header blocks are literals without
Huffman coding, so a client needs no state to send them. Reading needs the package `hpack`."""

import socket
import ssl

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE,
 CONTINUATION) = range(10)
PRIORITY_UPDATE = 16
ACK = END_STREAM = 1
END_HEADERS = 4
HEADER_TABLE_SIZE, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 3, 4
CANCEL = 8
WINDOW_MAX = 2**31 - 1
FRAME_HEAD_BYTES = 9
PAYLOAD_BYTES_MAX = 16_384


def frame(kind, flags=0, stream=0, payload=b""):
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
            + payload)


def settings(*pairs):
    return frame(SETTINGS, payload=b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big")
                                            for key, value in pairs))


def window_update(stream, count):
    return frame(WINDOW_UPDATE, stream=stream, payload=count.to_bytes(4, "big"))


def reset(stream, code=CANCEL):
    return frame(RST_STREAM, stream=stream, payload=code.to_bytes(4, "big"))


def integer(value, prefix_bits, first=0):
    """An integer of HPACK (RFC 7541 §5.1); `first` has the bits before the prefix."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first | value])
    out = [first | limit]
    value -= limit
    while value >= 128:
        out.append(value % 128 | 128)
        value //= 128
    return bytes([*out, value])


def text(value):
    """A string of HPACK without Huffman coding, from bytes or Latin-1 text."""
    value = value.encode("latin-1") if isinstance(value, str) else value
    return integer(len(value), 7) + value


def literal(name, value, indexed=False):
    """A field line whose name and value are literals; `indexed` adds it to the peer's table."""
    return (b"\x40" if indexed else b"\x00") + text(name) + text(value)


def block(lines):
    return b"".join(literal(name, value) for name, value in lines)


def request_lines(path, *lines, method="GET", scheme="http", authority="a.test"):
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path),
            *lines]


def headers(stream, lines, flags=END_HEADERS | END_STREAM):
    """A HEADERS frame of lines, or of an encoded block."""
    return frame(HEADERS, flags, stream, lines if isinstance(lines, bytes) else block(lines))


class Connection:
    """A client connection of a blocking socket. With `tls`, which may be a context, HTTP/2 is
    chosen by ALPN. With `opens` false, nothing has been sent on it."""

    def __init__(self, port, tls=False, opens=True, timeout_s=10, address="127.0.0.1", first=()):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_s,
                                               source_address=(address, 0))
        if tls:
            context = client_context() if tls is True else tls
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.buffer = b""
        if opens:
            self.send(PREFACE + settings(*first))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def frames(self):
        """Yields kind, flags, stream and payload of each frame until the connection ends.
        Acknowledges SETTINGS and PING, and opens the connection's window again after DATA."""
        for kind, flags, stream, payload in self.plain_frames():
            if kind == DATA and payload:
                self.send(window_update(0, len(payload)))
            yield kind, flags, stream, payload

    def plain_frames(self):
        """As `frames`, but the connection's window is left as it is."""
        while True:
            head = self._exactly(FRAME_HEAD_BYTES)
            if head is None:
                return
            length, stream = int.from_bytes(head[:3], "big"), int.from_bytes(head[5:], "big")
            payload = self._exactly(length)
            if payload is None:
                return
            kind, flags = head[3], head[4]
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.send(frame(kind, ACK, payload=payload if kind == PING else b""))
            yield kind, flags, stream, payload

    def frames_until_end(self, stream):
        """The frames until this stream ends."""
        for kind, flags, of_stream, payload in self.frames():
            yield kind, flags, of_stream, payload
            if of_stream == stream and (kind == RST_STREAM or flags & END_STREAM):
                return

    def http1_answer(self, body_bytes):
        """Whether an answer of HTTP/1.1 with status 200 and a body of this length arrives."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = self._exactly(1)
            if byte is None:
                return False
            head += byte
        return head.startswith(b"HTTP/1.1 200 ") and self._exactly(body_bytes) is not None

    def _exactly(self, count):
        while len(self.buffer) < count:
            try:
                more = self.socket.recv(1 << 16)
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                return None
            self.buffer += more
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data


def client_context(*protocols):
    """TLS that accepts every certificate; the protocols of ALPN are `h2` if none are given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols or ("h2",)))
    return context
