"""Checks the machine (no second benchmark, no compiler, no other load), and describes it."""

import contextlib
import fcntl
import os
import platform
import re
import resource
import shutil
import subprocess
import time

from lib import process, servers
from lib.errors import Usage

LOCK = "/tmp/forebay-bench.lock"
# How long the machine is watched before the start, and how many processors may be busy then.
IDLE_SECONDS = 1
IDLE_CORES_MAX = 0.2
# The command that prints a server's version. The program that it names must be installed.
VERSIONS = {
    "nginx": ["nginx", "-v"],
    "haproxy": ["haproxy", "-v"],
    "varnish": ["varnishd", "-V"],
    "h2o": ["h2o", "--version"],
    "trafficserver": ["traffic_server", "-V"],
}


# The Debian packages of the clients.
PACKAGES = {"wrk": "wrk", "h2load": "nghttp2-client", "curl": "curl"}


@contextlib.contextmanager
def only_one():
    """Holds the lock that keeps a second benchmark from running beside this one."""
    with open(LOCK, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise Usage(f"process {holder} holds {LOCK} for a benchmark; wait") from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def require_quiet():
    """Raises Usage if other work would make the figures worthless."""
    wait = "wait, or use --allow-busy to try the driver itself"
    running = process.compilers()
    if running:
        raise Usage(f"a compiler or linker runs ({', '.join(running)}): {wait}")
    before = process.machine_cpu_seconds()
    time.sleep(IDLE_SECONDS)
    cores = (process.machine_cpu_seconds() - before) / IDLE_SECONDS
    if cores > IDLE_CORES_MAX:
        raise Usage(f"other processes use {cores:.2f} processors: {wait}")


def require_installed(specs, workloads):
    """Raises Usage if a program that the run needs is not installed."""
    servers.bench_program()
    for name in {spec.name for spec in specs}:
        if name == "forebay":
            servers.forebay_program()
        elif name in VERSIONS and not shutil.which(VERSIONS[name][0]):
            raise Usage(f"{name} is not installed: apt-get install {name}")
    tools = {w.tool for w in workloads} | {"curl" for w in workloads if w.protocol != "h1"}
    for tool, package in PACKAGES.items():
        if tool in tools and not shutil.which(tool):
            raise Usage(f"{tool} is not installed: apt-get install {package}")


def raise_file_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def describe():
    model = re.search(r"model name\s*:\s*(.*)", _text("/proc/cpuinfo"))
    memory_kib = int(re.search(r"MemTotal:\s*(\d+)", _text("/proc/meminfo"))[1])
    return {"processor": f"{os.cpu_count()} x {model[1] if model else platform.machine()}",
            "memory": f"{memory_kib / 2**20:.0f} GiB", "kernel": platform.release()}


def versions(specs):
    """The version of every server, of wrk and of h2load."""
    names = dict.fromkeys(spec.name for spec in specs if not spec.is_bare)
    commands = {**VERSIONS, "forebay": [servers.forebay_program(), "--version"]
                if "forebay" in names else [], "wrk": ["wrk", "-v"],
                "h2load": ["h2load", "--version"]}
    return {name: _version(commands[name]) for name in [*names, "wrk", "h2load"]}


def _version(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10,
                              stdin=subprocess.DEVNULL)
    except OSError:
        return "not installed"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
