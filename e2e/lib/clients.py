"""Clients: wrk, which fills the cache, and client processes of a script."""

import contextlib
import multiprocessing
import subprocess
import tempfile
import time


def fill(forebay, lua, count):
    """Runs wrk with the Lua script until `count` responses have been stored. Returns the seconds
    that this took, and the server's counters."""
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(lua)
        script.flush()
        wrk = subprocess.Popen(["wrk", "-t1", "-c64", "-d3600", "-s", script.name, forebay.url],
                               stdout=subprocess.DEVNULL)
        try:
            shown = began
            while (stats := forebay.stats())["stored_total"] < count:
                if wrk.poll() is not None:
                    raise RuntimeError(f"wrk ended with {wrk.returncode} before {count} responses "
                                       "were stored")
                time.sleep(0.5)
                if time.monotonic() > shown + 15:
                    shown = time.monotonic()
                    print(f"          {stats['stored_total']:.0f} stored", flush=True)
        finally:
            wrk.kill()
            wrk.wait()
    return time.monotonic() - began, forebay.stats()


@contextlib.contextmanager
def processes(work, each):
    """Starts a process for each tuple of arguments, and yields their pipes. At the end, kills the
    processes that still run."""
    started, pipes = [], []
    for args in each:
        ours, theirs = multiprocessing.Pipe()
        started.append(multiprocessing.Process(target=work, args=(*args, theirs), daemon=True))
        started[-1].start()
        pipes.append(ours)
    try:
        yield pipes
    finally:
        for process in started:
            process.kill()
            process.join()
