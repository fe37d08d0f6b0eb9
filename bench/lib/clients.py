"""Load generators: wrk, and those of forebay-bench. Each run returns a dictionary of numbers."""

import json
import os
import re
import subprocess
import time

from lib.errors import Broken
from lib.servers import BENCH, bench_program

MICROSECONDS = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}
GRACE_SECONDS = 30


def load(server, workload, seconds, cpus, run=0, requests=None):
    """Loads a server for `seconds`; a mixed workload ends after `requests` if they are given."""
    if workload.tool == "wrk":
        return parse_wrk(_run(_wrk(server, workload, seconds), seconds, cpus))
    command = [bench_program(), workload.tool, "--port", server.port, "--seconds", seconds,
               "--connections", workload.connections]
    if workload.tool == "rate":
        command += ["--target", workload.targets[0], "--per-second", workload.per_second]
        return _from_rate(json.loads(_run(command, seconds, cpus)))
    command += ["--run", run]
    if requests:
        command += ["--requests", requests]
    return _from_mixed(json.loads(_run(command, seconds, cpus)))


def _run(command, seconds, cpus):
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=seconds + GRACE_SECONDS, stdin=subprocess.DEVNULL,
                              preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    except subprocess.TimeoutExpired as error:
        raise Broken(f"{' '.join(command)} did not end in time") from error
    if done.returncode:
        raise Broken(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _wrk(server, workload, seconds):
    url = f"http://127.0.0.1:{server.port}{workload.targets[0]}"
    command = ["wrk", "-t1", f"-c{workload.connections}", f"-d{seconds}s", "--latency"]
    if workload.close:
        command += ["-H", "Connection: close"]
    for name, value in workload.fields:
        command += ["-H", f"{name}: {value}"]
    if workload.urls > 1:
        # Microseconds since 1970 grow faster than requests are sent, so no number comes twice.
        numbers = ["from", time.time_ns() // 1000] if workload.unique else ["below", workload.urls]
        return [*command, "-s", BENCH / "lib/urls.lua", url, "--", *numbers, *workload.folders]
    return [*command, url]


def parse_wrk(text):
    """Numbers from the output of `wrk --latency`."""
    done = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s|m),", text)
    if not done:
        raise Broken(f"wrk printed no result: {text.strip()!r}")
    requests = int(done[1])
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    broken = re.search(r"Socket errors: (.*)", text)
    errors = sum(map(int, re.findall(r"\d+", broken[1]))) if broken else 0
    latencies = {}
    for percent in (50, 99):
        found = re.search(rf"\s{percent}%\s+([\d.]+)(us|ms|s|m)", text)
        if found:
            latencies[f"p{percent}_us"] = float(found[1]) * MICROSECONDS[found[2]]
    seconds = float(done[2]) * MICROSECONDS[done[3]] / 1e6
    return {"requests": requests, "per_second": requests / seconds, **latencies,
            "errors": errors + (int(refused[1]) if refused else 0)}


def _from_rate(report):
    return {**report, "errors": report["not_ok"] + report["failed"]}


def _from_mixed(report):
    """The results of a mixed workload. Its quoted latency is the latency of its hits."""
    return {**report, "errors": report["wrong"] + report["failed"],
            "p50_us": report["hit_p50_us"], "p99_us": report["hit_p99_us"],
            "hit_percent": 100 * report["hits"] / max(1, report["requests"])}
