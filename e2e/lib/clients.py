"""Clients: wrk that has things stored, and processes of a script's own."""

import contextlib
import multiprocessing
import subprocess
import tempfile
import time


def fill(forebay, lua, count):
    """Has wrk ask by this script until so many responses have been stored; how long it took, and
    the server's numbers."""
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
                    raise RuntimeError("wrk ended")
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
    """A process for each tuple of arguments; their pipes. What still runs at the end is killed."""
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
