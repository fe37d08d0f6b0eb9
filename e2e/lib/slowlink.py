"""A relay of TCP connections that passes a limited number of bytes a second to the clients."""

import contextlib
import socket
import threading
import time

PIECE_BYTES = 8192
# Small buffers, so that the bytes wait at the server.
BUFFER_BYTES = 32_768


class SlowLink:
    """Listens on a port of its own and relays to `target_port`; all connections share the rate."""

    def __init__(self, target_port, bytes_per_s):
        self.target_port, self.bytes_per_s = target_port, bytes_per_s
        self.lock, self.free_at = threading.Lock(), 0.0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
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
                client, _ = self.listener.accept()
                server = socket.socket()
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
                server.connect(("127.0.0.1", self.target_port))
                for source, target, slow in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._relay, args=(source, target, slow),
                                     daemon=True).start()

    def _relay(self, source, target, slow):
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE_BYTES):
                if slow:
                    self._wait(len(data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _wait(self, count):
        with self.lock:
            start = max(time.monotonic(), self.free_at)
            self.free_at = start + count / self.bytes_per_s
        time.sleep(max(0, start - time.monotonic()))
