"""Process trees: their CPU time, their context switches, their processors, and their end."""

import os
import signal
import time

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
COMPILERS = {"rustc", "cargo", "cc1", "cc1plus", "clang", "ld", "lld", "ld.lld", "rust-lld",
             "cargo-clippy", "clippy-driver", "rustdoc"}
# Columns of /proc/stat that are work: all but idle and iowait. guest is part of user.
WORK_COLUMNS = (0, 1, 2, 5, 6, 7)


def _read(path):
    """The text of a file of /proc, or None if its process has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _stat(pid):
    """Fields of /proc/PID/stat from the state on, or None if the process has ended."""
    text = _read(f"/proc/{pid}/stat")
    return text[text.rindex(")") + 2:].split() if text else None


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def tree(root):
    """The root's process ID and those of all its descendants."""
    children = {}
    for pid in _pids():
        stat = _stat(pid)
        if stat:
            children.setdefault(int(stat[1]), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def tree_cpu_seconds(root):
    """User and system time of a tree, including its processes that have ended."""
    ticks = 0
    for pid in tree(root):
        stat = _stat(pid)
        if stat:
            ticks += sum(int(field) for field in stat[11:15])
    return ticks / TICKS_PER_SECOND


def tree_switches(root):
    """How often the threads of a tree were switched out, voluntarily or not."""
    switches = 0
    for pid in tree(root):
        for thread in _threads(pid):
            lines = (_read(f"/proc/{pid}/task/{thread}/status") or "").splitlines()
            switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return switches


def _threads(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # The process has ended.


def machine_cpu_seconds():
    """The time for which the processors of the machine have worked, for any process."""
    columns = [int(field) for field in _read("/proc/stat").split("\n", 1)[0].split()[1:]]
    return sum(columns[i] for i in WORK_COLUMNS) / TICKS_PER_SECOND


def compilers():
    """The names of compilers and linkers that run now; those that a signal has stopped do not."""
    return sorted(COMPILERS.intersection(
        (_read(f"/proc/{pid}/comm") or "").strip() for pid in _pids() if not _is_stopped(pid)))


def _is_stopped(pid):
    _, _, rest = (_read(f"/proc/{pid}/stat") or "").rpartition(")")
    return rest.split()[:1] == ["T"]


def pin(root, cpus):
    """Moves every thread of a tree to `cpus`, because some servers bind their own threads."""
    for pid in tree(root):
        for thread in _threads(pid):
            try:
                os.sched_setaffinity(int(thread), cpus)
            except OSError:
                pass  # The thread has ended.


def stop(root, patience_seconds=5):
    """Ends a tree: terminates the root, then kills every remaining process."""
    pids = tree(root.pid)
    root.terminate()
    _wait_gone(root, pids, patience_seconds)
    for pid in pids:
        if _is_alive(pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass  # The process has already ended.
    _wait_gone(root, pids, patience_seconds)


def _wait_gone(root, pids, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if root.poll() is not None and not any(_is_alive(pid) for pid in pids):
            return
        time.sleep(0.05)


def _is_alive(pid):
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def parse_cpus(text):
    """A set of processors from `0`, `0,2` or `0-3`."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
