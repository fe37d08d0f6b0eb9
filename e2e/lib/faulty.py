"""Origins with faults, each in a process of its own, and clients that send requests at a steady
pace and record every latency and failure."""

import asyncio
import collections
import contextlib
import multiprocessing
import os
import re
import socket
import struct
import threading
import time

from .wire import Wire

SLOW_S = 0.3
FLAP_S = 0.1
# Closing a socket with this option sends a reset instead of an end.
RESET = struct.pack("ii", 1, 0)


class FaultyOrigin:
    """An origin on a port of its own, with a fault that can be changed at any time:

    `good` answers at once; `hangs` accepts connections and requests and never answers; `resets`
    resets the connection of each request; `slow` answers after 300 ms; `refuses` accepts no
    connection; `flaps` refuses and resets everything for 100 ms, is good for 100 ms, and so on;
    `half` resets every second request.

    Responses must not be stored. Their body is the number of the origin. `/health` is answered like
    any other path, but not counted.
    """

    def __init__(self, number, address="127.0.0.1", port=0):
        self.ours, theirs = multiprocessing.Pipe()
        # This socket keeps the port while the origin does not listen.
        self.reserved = bound((address, port))
        self.port = self.reserved.getsockname()[1]
        self.url = f"http://{address}:{self.port}"
        self.process = multiprocessing.Process(target=_serve, daemon=True,
                                               args=(number, (address, self.port), theirs))
        self.process.start()
        self.ours.recv()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()
        self.reserved.close()

    def set(self, fault):
        self._ask(("set", fault))

    def counts(self):
        """The number of requests that have arrived, of answers sent, and how often each request
        with the field `Id` arrived."""
        return self._ask(("counts",))

    def _ask(self, question):
        self.ours.send(question)
        return self.ours.recv()


def bound(address):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(address)
    return sock


def _serve(number, address, pipe):
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_State(number, address, pipe).run())


class _State:
    """The origin's process."""

    def __init__(self, number, address, pipe):
        self.body, self.address, self.pipe = str(number).encode(), address, pipe
        self.fault, self.server, self.flapper = "good", None, None
        self.requests = self.answers = 0
        self.ids = collections.Counter()
        self.open = set()

    async def run(self):
        self.loop = asyncio.get_running_loop()
        await self.listen()
        self.loop.add_reader(self.pipe.fileno(), lambda: asyncio.ensure_future(self.obey()))
        self.pipe.send(None)
        await asyncio.Event().wait()

    async def listen(self):
        if self.server is None:
            self.server = await self.loop.create_server(lambda: _Connection(self),
                                                        sock=bound(self.address), backlog=4096)

    def vanish(self):
        """Stops listening and resets all connections, as if the process had crashed."""
        if self.server is not None:
            self.server.close()
            self.server = None
        for connection in list(self.open):
            connection.reset()

    async def obey(self):
        if not self.pipe.poll():
            return
        try:
            question = self.pipe.recv()
        except EOFError:
            os._exit(0)
        if question[0] == "counts":
            self.pipe.send((self.requests, self.answers, dict(self.ids)))
            return
        if self.flapper:
            self.flapper.cancel()
            self.flapper = None
        self.fault = question[1]
        if self.fault == "refuses":
            self.vanish()
        else:
            await self.listen()
        if self.fault == "flaps":
            self.flapper = asyncio.ensure_future(self.flap())
        self.pipe.send(None)

    async def flap(self):
        while True:
            self.vanish()
            await asyncio.sleep(FLAP_S)
            await self.listen()
            await asyncio.sleep(FLAP_S)


class _Connection(asyncio.Protocol):
    def __init__(self, state):
        self.state, self.buffer, self.transport = state, b"", None
        # The length of the request whose body has not arrived completely, and its number.
        self.request = None

    def connection_made(self, transport):
        self.transport = transport
        self.state.open.add(self)

    def connection_lost(self, _):
        self.state.open.discard(self)

    def reset(self):
        sock = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def data_received(self, data):
        self.buffer += data
        while self.request or b"\r\n\r\n" in self.buffer:
            if not self.request:
                self.begin(*self.buffer.split(b"\r\n\r\n", 1))
                if self.transport.is_closing():
                    return
            is_counted, length = self.request
            if len(self.buffer) < length:
                return
            self.buffer, self.request = self.buffer[length:], None
            if self.state.fault == "slow":
                self.state.loop.call_later(SLOW_S, self.answer, is_counted)
            elif self.state.fault != "hangs":
                self.answer(is_counted)

    def begin(self, head, rest):
        """Counts a request whose head is complete. The origin may have acted on it from here on."""
        state, self.buffer = self.state, rest
        is_counted = not head.startswith(b"GET /health ")
        state.requests += is_counted
        if found := re.search(rb"(?i)\r\nid: *(\S+)", head):
            state.ids[found[1].decode()] += 1
        if state.fault == "resets" or (state.fault == "half" and state.requests % 2):
            self.reset()
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        self.request = (is_counted, int(length[1]) if length else 0)

    def answer(self, is_counted):
        if self.transport.is_closing():
            return
        self.state.answers += is_counted
        self.transport.write(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: %d"
                             b"\r\n\r\n%s" % (len(self.state.body), self.state.body))


class PacedClients:
    """Processes of eight clients each. Every client sends a request every 20 ms if it gets its
    answers in time. A client has a connection of its own, and opens another if that ends.

    Requests of methods other than GET have `body_bytes` of content. With `with_ids`, each request
    has a field `Id` of its own."""

    EACH = 8
    PACE_S = 0.02

    def __init__(self, port, processes=2, method="GET", with_ids=False,
                 body_bytes=4):
        self.started = []
        for number in range(processes):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(
                target=self._work, daemon=True,
                args=(port, number, (method, with_ids, body_bytes), theirs))
            process.start()
            self.started.append((process, ours))
        self.results = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _ in self.started:
            process.kill()
            process.join()

    def stop(self):
        """Ends all clients; returns a list of their requests: when each ended (monotonic), its
        latency in seconds, the number of the origin that answered or None, and the failure or
        None."""
        for _, pipe in self.started:
            pipe.send(None)
        self.results = [one for _, pipe in self.started for one in pipe.recv()]
        return self.results

    def _work(self, port, number, what, pipe):
        results, stop = [], threading.Event()
        clients = [threading.Thread(target=self._client, daemon=True,
                                    args=(port, f"{number}-{each}", what, results, stop))
                   for each in range(self.EACH)]
        for client in clients:
            client.start()
        pipe.recv()
        stop.set()
        for client in clients:
            client.join()
        pipe.send(results)

    def _client(self, port, name, what, results, stop):
        wire, turn, due = None, 0, time.monotonic()
        while not stop.is_set():
            turn += 1
            due = max(due + self.PACE_S, time.monotonic() - self.PACE_S)
            time.sleep(max(0, due - time.monotonic()))
            began, ident = time.monotonic(), f"{name}-{turn}"
            answer, failure = None, None
            try:
                wire = wire or Wire(port, timeout_s=60)
                answer = _send(wire, ident, *what)
                if answer is None or not answer.whole or answer.status != 200:
                    failure = repr(answer)
            except OSError as error:
                failure = repr(error)
            ended = time.monotonic()
            origin = int(answer.body) if answer and not failure else None
            results.append((ended, ended - began, origin, failure))
            if failure or answer.fields.get("connection") == "close":
                if wire:
                    wire.socket.close()
                wire = None


def _send(wire, ident, method, with_ids, body_bytes):
    fields = [f"Id: {ident}"] if with_ids else []
    if method == "GET":
        return wire.get(f"/{ident}", *fields)
    lines = "".join(f"{field}\r\n" for field in fields)
    wire.send(f"{method} /{ident} HTTP/1.1\r\nHost: e2e.test\r\n{lines}"
              f"Content-Length: {body_bytes}\r\n\r\n".encode() + bytes(body_bytes))
    return wire.answer()


def percentile(latencies, percent):
    """In milliseconds."""
    ordered = sorted(latencies)
    return 1000 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0


def told(results):
    """A summary of requests: their latency, and the share of them that each origin answered."""
    latencies = [latency for _, latency, _, _ in results]
    shares = {}
    for _, _, origin, _ in results:
        shares[origin] = shares.get(origin, 0) + 1
    share = " ".join(f"{'none' if origin is None else origin}:{100 * count / len(results):.0f}%"
                     for origin, count in sorted(shares.items(), key=str))
    return (f"{len(results)} requests, p50 {percentile(latencies, 50):.1f} ms, "
            f"p99 {percentile(latencies, 99):.1f} ms, "
            f"longest {1000 * max(latencies, default=0):.0f} ms; answered by {share}")


def between(results, begin, end):
    return [result for result in results if begin <= result[0] < end]


def failures(results):
    return [failure for _, _, _, failure in results if failure]
