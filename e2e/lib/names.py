"""A DNS server for the names of a script, and the namespaces in which all programs ask it."""

import multiprocessing
import os
import pathlib
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

ALREADY = "FOREBAY_E2E_NAMESPACES"
TYPE_A = 1
SERVFAIL, NXDOMAIN = 2, 3


def enter_namespaces():
    """Runs the script again, in a network of its own with nothing but loopback, and with a
    resolv.conf of its own that names 127.0.0.1. Nothing outside changes. Returns in the second
    run."""
    if not os.environ.get(ALREADY):
        missing = [tool for tool in ("unshare", "mount", "ip") if not shutil.which(tool)]
        if missing:
            sys.exit(f"these tools are needed but not installed: {', '.join(missing)}")
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        os.environ[ALREADY] = "1"
        os.execvp("unshare", ["unshare", *as_root, "--mount", "--net", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as here:
        for name, text in (
                ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
                ("nsswitch.conf", "hosts: files dns\n")):
            file, target = pathlib.Path(here) / name, pathlib.Path("/etc") / name
            file.write_text(text)
            file.chmod(0o644)
            if target.exists():
                subprocess.run(["mount", "--bind", file, os.path.realpath(target)], check=True)
            elif name == "resolv.conf":
                sys.exit("/etc/resolv.conf is missing, so it cannot be replaced by a mount")


class Names:
    """A DNS server at 127.0.0.1:53 that knows one name. `set` changes its addresses, or makes the
    server fail: `servfail` and `nxdomain` are answers, `silent` gives none, and `closed` closes the
    port. It runs in a process of its own, so that no other process inherits its socket."""

    def __init__(self, name, *addresses):
        self.ours, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_Server(name).run, args=(theirs,),
                                               daemon=True)
        self.process.start()
        self.set(*addresses)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()

    def set(self, *addresses, failure=None):
        self.ours.send((addresses, failure))
        self.ours.recv()


class _Server:
    def __init__(self, name):
        self.name = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
        self.addresses, self.failure, self.socket = (), None, None

    def run(self, pipe):
        while True:
            sources = [pipe, self.socket] if self.socket else [pipe]
            for source in select.select(sources, [], [])[0]:
                if source is pipe:
                    self._obey(*pipe.recv())
                    pipe.send(None)
                else:
                    self._serve()

    def _obey(self, addresses, failure):
        self.addresses, self.failure = addresses, failure
        if failure == "closed":
            self.socket.close()
            self.socket = None
        elif self.socket is None:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind(("127.0.0.1", 53))

    def _serve(self):
        if self.socket is None:
            return
        query, client = self.socket.recvfrom(4096)
        if answer := self._answer(query):
            self.socket.sendto(answer, client)

    def _answer(self, query):
        """The bytes of the answer: the question again, and the addresses with a TTL of 0."""
        if self.failure == "silent":
            return None
        length = query.index(b"\0", 12) + 5
        question, (kind,) = query[12:length], struct.unpack("!H", query[length - 4:length - 2])
        is_known = question[:-4].lower() == self.name
        code = {"servfail": SERVFAIL, "nxdomain": NXDOMAIN}.get(self.failure,
                                                                0 if is_known else NXDOMAIN)
        addresses = self.addresses if code == 0 and kind == TYPE_A else ()
        head = query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(addresses), 0, 0)
        # 0xc00c refers to the name in the question.
        return head + question + b"".join(struct.pack("!HHHIH", 0xc00c, TYPE_A, 1, 0, 4)
                                          + socket.inet_aton(address) for address in addresses)
