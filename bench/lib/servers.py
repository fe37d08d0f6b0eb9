"""Servers under test, and the origin behind them: start, readiness, requests, stop."""

import dataclasses
import http.client
import os
import pathlib
import shutil
import socket
import subprocess
import time

from lib import files, process
from lib.errors import Broken, Usage

BENCH = pathlib.Path(__file__).resolve().parent.parent
PEERS = BENCH / "peers"
RUN = pathlib.Path("/dev/shm/forebay-bench")
START_SECONDS = 20
REQUEST_SECONDS = 10
REST_SECONDS = 0.02
REST_TRIES = 50
# How curl speaks the protocols that http.client does not; the values of PROTOCOL are among them.
CURL_FLAGS = {"h2c": ["--http2-prior-knowledge"], "tls": ["--insecure"],
              "tls-h1": ["--insecure", "--http1.1"], "tls-h2": ["--insecure", "--http2"]}
# http.client refuses a head of more than 100 fields, and header rules may set that many.
http.client._MAXHEADERS = 1000


def known():
    """The names of the servers that have a start script."""
    return sorted(path.parent.name for path in PEERS.glob("*/start.sh"))


def program(variable, default):
    """The path of a program of this project, from the environment or where cargo builds it."""
    path = pathlib.Path(os.environ.get(variable) or default).resolve()
    if not os.access(path, os.X_OK):
        raise Usage(f"{path} is no program; run `cargo build --release` in the root and in "
                    f"bench/, or correct {variable}")
    return str(path)


def bench_program():
    return program("FOREBAY_BENCH", BENCH / "target/release/forebay-bench")


def forebay_program():
    return program("FOREBAY", BENCH.parent / "target/release/forebay")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclasses.dataclass(frozen=True)
class Spec:
    """A server and the settings of its start script, as `nginx@SENDFILE=on+THREADS=2`."""

    text: str

    @classmethod
    def parse_list(cls, text):
        specs = [cls(word) for word in dict.fromkeys(filter(None, text.split(",")))]
        for spec in specs:
            if spec.name not in known():
                raise Usage(f"no server is called {spec.name!r}; there are {', '.join(known())}")
            spec.settings  # Raises Usage if a setting is malformed.
        return specs

    @property
    def name(self):
        return self.text.partition("@")[0]

    @property
    def settings(self):
        pairs = [pair.split("=", 1) for pair in self.text.partition("@")[2].split("+") if pair]
        if any(len(pair) != 2 for pair in pairs):
            raise Usage(f"a setting in {self.text!r} has no '='")
        return dict(pairs)

    @property
    def is_bare(self):
        return self.name.startswith("bare-")


class Running:
    """A process tree that listens on a port of 127.0.0.1."""

    def __init__(self, name, command, cpus, environment, log):
        self.name = name
        self.port = free_port()
        self.cpus = cpus
        self.log = log
        # The protocol of `fetch`: h1 or a key of CURL_FLAGS.
        self.protocol = "h1"
        # The length of a compressed body, if the workload has such bodies; a proof sets it.
        self.coded_bytes = None
        command = [str(word).replace("@PORT@", str(self.port)) for word in command]
        with open(log, "w", encoding="utf-8") as output:
            self.root = subprocess.Popen(
                command, env={**os.environ, **environment, "PORT": str(self.port)},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus))

    @property
    def pid(self):
        return self.root.pid

    def wait_ready(self, target):
        """Returns when `target` is answered with 200; raises Broken if that takes too long."""
        end = time.monotonic() + START_SECONDS
        problem = "it does not listen"
        while time.monotonic() < end and self.root.poll() is None:
            try:
                self.fetch([target])
                return
            except (OSError, http.client.HTTPException, Broken) as error:
                problem = error
            time.sleep(0.1)
        if self.root.poll() is not None:
            problem = f"it ended with status {self.root.returncode}"
        raise Broken(f"{self.name} did not get ready: {problem}\n{self._log_end()}")

    def fetch(self, targets):
        """The bodies of all targets, from one connection, or more if the server closes it."""
        return [body for body, _ in self.fetch_whole(targets)]

    def fetch_whole(self, targets, fields=None):
        """Requests all targets with these fields; returns bodies, each with its fields as pairs."""
        if self.protocol != "h1":
            return self._fetch_by_curl(targets, fields or {})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_SECONDS)
        answers = []
        try:
            for target in targets:
                connection.request("GET", target, headers=fields or {})
                response = connection.getresponse()
                answers.append((response.read(), response.getheaders()))
                if response.status != 200:
                    raise Broken(f"{self.name} answered {target} with {response.status}")
        finally:
            connection.close()
        return answers

    def _fetch_by_curl(self, targets, fields):
        scheme = "http" if self.protocol == "h2c" else "https"
        command = ["curl", "-s", "-S", "-i", "--max-time", str(REQUEST_SECONDS),
                   *CURL_FLAGS[self.protocol]]
        for name, value in fields.items():
            command += ["-H", f"{name}: {value}"]
        urls = [f"{scheme}://127.0.0.1:{self.port}{target}" for target in targets]
        # curl 7.88 (Debian 12) cannot use an HTTP/2 connection without TLS a second time.
        runs = [[url] for url in urls] if self.protocol == "h2c" else [urls]
        output = b""
        for run in runs:
            done = subprocess.run([*command, *run], capture_output=True, check=False,
                                  stdin=subprocess.DEVNULL)
            if done.returncode:
                reason = done.stderr.decode(errors="replace").strip().splitlines()
                raise Broken(f"{self.name}: {reason[0] if reason else done.returncode}")
            output += done.stdout
        answers = parse_curl(output)
        version = "HTTP/2 " if self.protocol in ("h2c", "tls-h2") else "HTTP/"
        for target, (line, _, _) in zip(targets, answers, strict=True):
            if not line.startswith(version) or line.split()[1] != "200":
                raise Broken(f"{self.name} answered {target} with {line!r}")
        return [(body, pairs) for _, pairs, body in answers]

    def pin(self):
        process.pin(self.pid, self.cpus)

    def cpu_seconds(self):
        return process.tree_cpu_seconds(self.pid)

    def switches(self):
        return process.tree_switches(self.pid)

    def stop(self):
        process.stop(self.root)

    def _log_end(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  | {line}" for line in lines[-8:]) or "  (its log is empty)"


def parse_curl(output):
    """The answers in the output of `curl -i`: for each, its status line, fields and body."""
    answers = []
    while output:
        head, _, output = output.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        pairs = [tuple(part.strip() for part in text.split(":", 1)) for text in lines]
        lengths = [int(value) for name, value in pairs if name.lower() == "content-length"]
        if not lengths:
            raise Broken(f"an answer has no content-length: {line!r}")
        answers.append((line, pairs, output[:lengths[0]]))
        output = output[lengths[0]:]
    return answers


class Origin(Running):
    """The origin, which counts its requests, in all and at each of its addresses."""

    def __init__(self, cpus, logs, addresses=1):
        command = [bench_program(), "origin", "--port", "@PORT@", "--addresses", addresses]
        super().__init__("origin", command, cpus, {}, logs / "origin.log")

    def count(self):
        """The number of requests, once it is stable: a cache may fetch for clients that left."""
        count = self._count_now()
        for _ in range(REST_TRIES):
            time.sleep(REST_SECONDS)
            last, count = count, self._count_now()
            if count == last:
                break
        return count

    def counts(self):
        """The number of requests to each address."""
        return [int(line) for line in self.fetch(["/status/addresses"])[0].split()]

    def _count_now(self):
        return int(self.fetch(["/status"])[0])


class Server(Running):
    """A server under test."""

    def __init__(self, spec, origin, settings, logs):
        self.spec = spec
        self.run_folder = RUN / spec.text.replace("/", "_")
        environment = {
            "ORIGIN": str(origin.port), "THREADS": str(settings["threads"]),
            "RUN": str(self.run_folder), "FOREBAY_BENCH": bench_program(),
            **settings["profile"], **spec.settings,
        }
        if spec.name == "forebay":
            environment.setdefault("FOREBAY", forebay_program())
        if spec.name == "h2o":
            environment["FILES"] = str(files.FOLDER)
        super().__init__(spec.text, [PEERS / spec.name / "start.sh"], settings["server_cpus"],
                         environment, logs / f"{self.run_folder.name}.log")
        self.protocol = environment["PROTOCOL"]

    def stop(self):
        super().stop()
        shutil.rmtree(self.run_folder, ignore_errors=True)
