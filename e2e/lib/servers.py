"""Starts and stops the servers of a script, Forebay and nginx. All listen on loopback."""

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
STOP_S_MAX = 40


def binary():
    """The path of the program under test: $FOREBAY, or the result of `cargo build --release`."""
    path = os.environ.get("FOREBAY") or str(ROOT / "target/release/forebay")
    if not os.access(path, os.X_OK):
        sys.exit(f"{path} is not an executable file: run `cargo build --release`, or set FOREBAY "
                 "to the path of a forebay binary")
    return path


_given_ports = set()


def free_port():
    """A port that no process uses and that this script was not given before. The kernel may choose
    a port again before its first user listens on it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _given_ports:
            _given_ports.add(port)
            return port


def wait_for_port(port, limit_s=10, lives=lambda: True):
    """Waits until a process listens on the port. Raises an error after `limit_s` seconds, or as
    soon as `lives()`, which tells whether the expected process runs, is false."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if not lives():
            raise ChildProcessError(f"the process ended without listening on port {port}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise TimeoutError(f"no process listens on port {port} after {limit_s} s")


class Forebay:
    """A running server in front of `origin`. If the flags name no runtime directory, it gets one of
    its own. `while_waiting` is called once, before the constructor waits for the server's
    addresses."""

    def __init__(self, *flags, origin=None, command="serve", files_max=None, env=None,
                 while_waiting=None):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-")
        args = [binary(), command]
        if origin:
            args += ["--origin", origin]
        if not any(flag.startswith("--listen") for flag in flags):
            args += ["--listen", "127.0.0.1:0"]
        if "--runtime-dir" not in flags:
            args += ["--runtime-dir", f"{self.dir.name}/run"]
        args += flags
        limit = None
        if files_max:
            limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))
        self.log = open(f"{self.dir.name}/log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        preexec_fn=limit, env={**os.environ, **(env or {})})
        if while_waiting:
            while_waiting()
        self.url = self._announced("listening on ")
        self.admin = self._announced("admin on ")
        self.port = int(self.url.rsplit(":", 1)[1])
        # The rest of its output is read and dropped, so that the pipe does not fill up.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def _announced(self, start):
        for line in self.process.stdout:
            if line.startswith(start):
                return line[len(start):].strip()
        self.process.wait()
        raise RuntimeError(f"forebay ended without printing `{start}`: {self.logged().strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        panics = [line for line in self.logged().splitlines() if "panicked" in line]
        self.log.close()
        self.dir.cleanup()
        if panics:
            raise RuntimeError(f"forebay panicked: {panics[0]}")

    def stop(self):
        """Sends SIGTERM; returns the exit code, or None if the server does not end."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            return None

    def alive(self):
        return self.process.poll() is None

    def logged(self):
        """The text that the server has written to standard error."""
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def ask(self, command, *args):
        """Runs a client command against this server; returns its exit code and output."""
        done = subprocess.run([binary(), command, "--admin", self.admin, *args],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def stats(self):
        return json.loads(self.ask("stats", "--json")[1])

    def rss_bytes(self):
        return status_bytes(self.process.pid, "VmRSS")

    def memory_bytes(self):
        """Resident memory of cache and heap, without the pages of the program's file."""
        return status_bytes(self.process.pid, "RssAnon") + status_bytes(self.process.pid, "RssShmem")

    def peak_bytes(self):
        return status_bytes(self.process.pid, "VmHWM")

    def cpu_s(self):
        """CPU seconds that the process has used."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


    def threads_ms(self):
        """For each living thread, by name and number: the milliseconds that it has run, and those
        that it has waited for a processor."""
        times = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            on_ns, waiting_ns, _ = (task / "schedstat").read_text().split()
            name = (task / "comm").read_text().strip() + " " + task.name
            times[name] = (int(on_ns) / 1e6, int(waiting_ns) / 1e6)
        return times

    def cpu_ms(self):
        """CPU milliseconds that the living threads have used: more precise than `cpu_s`."""
        return sum(on_ms for on_ms, _ in self.threads_ms().values())


def status_bytes(pid, name):
    """The value of a line of /proc/PID/status, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise ValueError(f"/proc/{pid}/status has no line {name}")


class OtherServer:
    """A server other than Forebay. `process` is the leader of its process group, and its files are
    in `dir`."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.dir.cleanup()

    def kill(self):
        """Kills the master process and its workers with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Nginx(OtherServer):
    """nginx with one server, whose configuration contains `locations`. It serves the files in
    `self.root`, and accepts uploads below /up/. With `http2`, it speaks nothing but HTTP/2."""

    def __init__(self, locations="", main="", port=None, http2=False):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-nginx-")
        self.root = pathlib.Path(self.dir.name) / "root"
        (self.root / "up").mkdir(parents=True)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        conf = pathlib.Path(self.dir.name) / "nginx.conf"
        conf.write_text(self._conf(locations, main, " http2" if http2 else ""))
        self.process = subprocess.Popen(["nginx", "-p", self.dir.name, "-c", str(conf)],
                                        start_new_session=True, stderr=subprocess.DEVNULL)
        wait_for_port(self.port)

    def _conf(self, locations, main, options):
        here = self.dir.name
        user = "user root;" if os.geteuid() == 0 else ""
        temps = "".join(f"  {kind}_temp_path {here}/{kind};\n"
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return f"""daemon off; pid {here}/pid; error_log {here}/error.log; {user} {main}
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
{temps}  log_format short '"$request" $status "$http_range"';
  access_log {here}/access.log short;
  types {{ text/html html; text/css css; image/png png; image/svg+xml svg; text/plain txt; }}
  client_max_body_size 0; keepalive_timeout 300; keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{self.port} backlog=4096{options}; root {self.root};
    location /up/ {{ dav_methods PUT DELETE; expires -1; }}
    {locations}
  }}
}}
"""

    def requests(self):
        """The request lines of its access log."""
        lines = (pathlib.Path(self.dir.name) / "access.log").read_text().splitlines()
        return [line.split('"')[1] for line in lines]

    def statuses(self):
        """The status of each answer in its access log."""
        lines = (pathlib.Path(self.dir.name) / "access.log").read_text().splitlines()
        return [int(line.split('"')[2]) for line in lines]

    def ranges(self):
        """The field Range of each request in its access log; `-` if there is none."""
        lines = (pathlib.Path(self.dir.name) / "access.log").read_text().splitlines()
        return [line.split('"')[3] for line in lines]

    def worker_rss_bytes(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return sum(status_bytes(int(pid), "VmRSS") for pid in children.read_text().split())
