"""Load generators: wrk, h2load, and those of forebay-bench. Each run returns a dictionary of
numbers."""

import json
import os
import re
import subprocess
import tempfile
import time

from lib.errors import Broken
from lib.servers import BENCH, bench_program

MICROSECONDS = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}
GRACE_SECONDS = 30


def load(server, workload, seconds, cpus, run=0, requests=None):
    """Loads a server for `seconds`; a mixed workload ends after `requests` if they are given."""
    if workload.tool == "wrk":
        return parse_wrk(_run(_wrk(server, workload, seconds), seconds, cpus))
    if workload.tool == "h2load":
        return _h2load(server, workload, seconds, cpus)
    command = [bench_program(), workload.tool, "--port", server.port, "--seconds", seconds,
               "--connections", workload.connections]
    if workload.tool == "rate":
        command += ["--target", workload.targets[0], "--per-second", workload.per_second]
        return _from_rate(json.loads(_run(command, seconds, cpus)))
    if workload.tool == "handshakes":
        command += ["--target", workload.targets[0], "--exchange", workload.exchange]
        if workload.resume:
            command += ["--resume"]
        return from_handshakes(json.loads(_run(command, seconds, cpus)), workload)
    command += ["--run", run]
    if requests:
        command += ["--requests", requests]
    return _from_mixed(json.loads(_run(command, seconds, cpus)))


def _run(command, seconds, cpus):
    command = [str(word) for word in command]
    # OpenSSL prefers AES-256, browsers prefer AES-128, as does h2load.
    environment = {**os.environ, "OPENSSL_CONF": str(BENCH / "lib/openssl.cnf")}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                              timeout=seconds + GRACE_SECONDS, stdin=subprocess.DEVNULL,
                              preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    except subprocess.TimeoutExpired as error:
        raise Broken(f"{' '.join(command)} did not end in time") from error
    if done.returncode:
        raise Broken(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _wrk(server, workload, seconds):
    url = _urls(server, workload)[0]
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


def _urls(server, workload):
    scheme = "https" if workload.is_tls else "http"
    return [f"{scheme}://127.0.0.1:{server.port}{target}" for target in workload.targets]


def _h2load(server, workload, seconds, cpus):
    with tempfile.NamedTemporaryFile("w", suffix=".urls") as file:
        file.write("\n".join(_urls(server, workload)) + "\n")
        file.flush()
        command = ["h2load", "-t1", f"-c{workload.connections}", f"-m{workload.streams}",
                   f"-D{seconds}", f"--input-file={file.name}"]
        for name, value in workload.fields:
            command += ["-H", f"{name}: {value}"]
        return parse_h2load(_run(command, seconds, cpus), seconds)


def parse_h2load(text, seconds):
    """Numbers from the output of `h2load -D seconds`. It reports no percentiles of latency."""
    done = re.search(r"(\d+) done, \d+ succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", text)
    codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", text)
    if not done or not codes:
        raise Broken(f"h2load printed no result: {text.strip()!r}")
    requests = int(done[1])
    return {"requests": requests, "per_second": requests / seconds,
            "errors": sum(map(int, done.groups()[1:])) + sum(map(int, codes.groups()[1:]))}


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


def from_handshakes(report, workload):
    """The results of handshakes. If they must be full, a resumed one is an error; if they may be
    resumed, the share of resumed ones is reported, because some servers do not resume all."""
    errors = report["not_ok"] + report["failed"]
    if workload.resume:
        percent = 100 * report["resumed"] / max(1, report["requests"])
        return {**report, "errors": errors, "resumed_percent": percent}
    return {**report, "errors": errors + report["resumed"]}


def _from_mixed(report):
    """The results of a mixed workload. Its quoted latency is the latency of its hits."""
    return {**report, "errors": report["wrong"] + report["failed"],
            "p50_us": report["hit_p50_us"], "p99_us": report["hit_p99_us"],
            "hit_percent": 100 * report["hits"] / max(1, report["requests"])}
