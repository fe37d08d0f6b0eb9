"""Attackers, the origin and the proxy under attack, and the measurement of a well-behaved client
before an attack and during it. The attackers connect from HOSTILE, the client from 127.0.0.1."""

import asyncio
import contextlib
import multiprocessing
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

from lib.servers import ROOT, Forebay, free_port, wait_for_port

HOSTILE = "127.0.0.66"

# A client that is measured on a machine with few processors waits a little for the attackers too.
P99_FLOOR_MS = 5

# The options of a script for `checks.main`, without `--peer`, whose choices differ.
AT_OPTIONS = [
    ("--at", {"type": int, "metavar": "PORT", "help": "the port of another proxy"}),
    ("--origin-port", {"type": int, "metavar": "PORT", "help": "the port of its origin"}),
]


def raise_files():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def origin(port, serve):
    """Serves each connection by `serve`, in a process of its own."""
    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=4096)
        await server.serve_forever()
    raise_files()
    asyncio.run(run())


async def hostile_connection(port, act, pause_s):
    """Runs `act` on one connection again and again, as an attacker does that is cut off."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port,
                                                           local_addr=(HOSTILE, 0))
            try:
                await act(reader, writer)
            finally:
                writer.transport.abort()
        await asyncio.sleep(pause_s)


def attackers(port, act, count, pause_s, ready):
    """Attacks with `count` connections, in a process of its own."""
    async def run():
        tasks = []
        for _ in range(count):
            tasks.append(asyncio.create_task(hostile_connection(port, act, pause_s)))
            if len(tasks) % 50 == 0:
                await asyncio.sleep(0.05)
        ready.set()
        await asyncio.gather(*tasks)
    raise_files()
    os.nice(10)
    asyncio.run(run())


@contextlib.contextmanager
def peer(name, origin_port, settings):
    """Another proxy with two worker threads or processes; yields its port and process id."""
    port = free_port()
    folder = f"/dev/shm/forebay-bench/attacked-{name}-{port}"
    env = {**os.environ, "PORT": str(port), "ORIGIN": str(origin_port), "THREADS": "2",
           "RUN": folder, **settings}
    process = subprocess.Popen([str(ROOT / "bench/peers" / name / "start.sh")], env=env,
                               start_new_session=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, limit_s=30, lives=lambda: process.poll() is None)
        yield port, process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def proxy(checks, serve, forebay_flags=(), peer_settings=(), port_of=lambda forebay: forebay.port):
    """The port of the attacked proxy, and its process id if this script has started it. `serve` is
    the origin."""
    args = checks.args
    origin_port = args.origin_port or free_port()
    process = multiprocessing.Process(target=origin, args=(origin_port, serve), daemon=True)
    process.start()
    try:
        if args.at:
            yield args.at, None
            return
        if args.peer:
            with peer(args.peer, origin_port, dict(peer_settings)) as running:
                yield running
            return
        config = "workers = 2\n"
        for name, hosts in (("a", '"*"'), ("hostile", '"hostile.test"')):
            config += (f'[[site]]\nname = "{name}"\nnames = [{hosts}]\n'
                       f'origin = "http://127.0.0.1:{origin_port}"\n')
        path = pathlib.Path(f"/tmp/forebay-attack-{os.getpid()}.toml")
        path.write_text(config, encoding="utf-8")
        with Forebay("--config", str(path), *forebay_flags) as forebay:
            yield port_of(forebay), forebay.process.pid
        path.unlink()
    finally:
        process.kill()


def family(pid):
    """A process and its children."""
    children = [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text(encoding="utf-8").split()]
    return [pid, *(member for child in children for member in family(child))]


def memory_bytes(pid):
    """The anonymous memory of a process and its children."""
    lines = [line for member in family(pid)
             for line in pathlib.Path(f"/proc/{member}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def cpu_s(pid):
    """The processor seconds of a process and its children."""
    ticks = 0
    for member in family(pid):
        fields = pathlib.Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(client, port, *args, limit_s):
    """The result of `client(port, *args, results)` in a process of its own."""
    results = multiprocessing.Queue()
    process = multiprocessing.Process(target=client, args=(port, *args, results))
    process.start()
    try:
        return results.get(timeout=limit_s)
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def attack(port, act, count, pause_s=0.2):
    """Attacks while the caller measures."""
    ready = multiprocessing.Event()
    process = multiprocessing.Process(target=attackers, args=(port, act, count, pause_s, ready),
                                      daemon=True)
    process.start()
    try:
        ready.wait(60)
        time.sleep(2)
        yield
    finally:
        process.kill()
        process.join()


def check_p99(checks, before_ms, during_ms):
    limit = max(2 * before_ms, P99_FLOOR_MS)
    checks.aim(during_ms <= limit, f"its p99 is at most {limit:.1f} ms: {during_ms:.2f} ms")
