"""The directory from which servers answer: DIR/1k/0, DIR/1m/0, ... In some workloads all servers
do; h2o, which has no cache, does in all of them."""

import os
import pathlib
import shutil
import time

FOLDER = pathlib.Path("/dev/shm/forebay-bench/files")
# A cache may derive from the time of modification how long it uses a file without looking at it.
AGE_SECONDS = 90 * 86_400


def content(target, size):
    """The content of a file, which differs from that of every other target."""
    line = f"{target} ".encode()
    return (line * (size // len(line) + 1))[:size]


def write(workloads, specs):
    """Writes the files of all workloads that need some; returns whether there are any."""
    with_files = [workload for workload in workloads if workload.files
                  or any(spec.name == "h2o" and not workload.unable(spec) for spec in specs)]
    changed = time.time() - AGE_SECONDS
    for workload in with_files:
        for target in workload.targets:
            path = FOLDER / target[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(target, workload.body_bytes))
            os.utime(path, (changed, changed))
    # Every server is ready when it answers this target.
    if with_files:
        ready = FOLDER / "1k/0"
        ready.parent.mkdir(parents=True, exist_ok=True)
        if not ready.exists():
            ready.write_bytes(content("/1k/0", 1024))
    return bool(with_files)


def remove():
    shutil.rmtree(FOLDER, ignore_errors=True)
