"""The three sites of the script `import`: their files, their origins, and nginx in front of them."""

import base64
import contextlib
import gzip
import hashlib
import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

from .servers import OtherServer, wait_for_port

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DATE = "Mon, 05 Jan 2026 10:00:00 GMT"
DATE_S = 1_767_607_200
PAGE = b"<!doctype html><title>Page</title>\n" + b"<p>A line of a page.\n" * 60


class Program(http.server.BaseHTTPRequestHandler):
    """A program behind the sites: pages, an echo of requests, and an echo over a WebSocket. Answers
    to `/held/` wait for the event `release` of the server."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.open.add(self.connection)

    def log_message(self, *_):
        pass

    def send(self, status, body, *fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self):
        path, kind = self.path.split("?")[0], ("Content-Type", "text/html")
        if path.startswith("/live/"):
            return self.web_socket()
        with self.server.lock:
            self.server.count += path != "/health"
        data = self.body()
        if path == "/admin" or path.startswith("/status/"):
            status = int(path[8:] or 0) if path.startswith("/status/") else 404
            return self.send(status, f"status {status}\n".encode(), ("Content-Type", "text/plain"))
        if path.endswith("/which"):
            return self.send(200, str(self.server.number).encode(), kind)
        if path == "/moved":
            return self.send(302, b"", ("Location", "/page/1"))
        if path == "/cookie":
            return self.send(200, b"cookie\n", kind, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
        if path == "/private":
            return self.send(200, b"private\n", kind, ("Cache-Control", "private"))
        if path.startswith("/missing"):
            return self.send(404, b"missing\n", kind)
        if path.startswith("/packed/"):
            packed = ("Content-Encoding", "gzip")
            return self.send(200, gzip.compress(PAGE, mtime=0), kind, packed)
        if path.startswith("/held/"):
            self.server.release.wait(10)
            return self.send(200, b"held\n", kind)
        if path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            return self.wfile.write(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        if path.startswith(("/page/", "/api/")):
            tag = f'"{hashlib.sha256(path.encode()).hexdigest()[:8]}"'
            fields = (kind, ("ETag", tag), ("Last-Modified", DATE))
            if self.headers.get("If-None-Match") == tag:
                return self.send(304, b"", *fields)
            return self.send(200, PAGE + path.encode(), *fields)
        return self.echo(data)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = answer

    def echo(self, data):
        names = ("Host", "X-Forwarded-For", "X-Forwarded-Proto", "Authorization", "X-Own",
                 "Cookie", "Content-Type", "X-Real-IP", "X-Api", "X-Client-Key")
        lines = [f"{self.command} {self.path}"]
        lines += [f"{name}: {self.headers[name]}" for name in names if name in self.headers]
        lines.append(f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}")
        self.send(200, "\n".join(lines).encode(), ("Content-Type", "text/plain"))

    def web_socket(self):
        key = self.headers.get("Sec-WebSocket-Key")
        if self.headers.get("Upgrade", "").lower() != "websocket" or not key:
            return self.send(426, b"a WebSocket\n", ("Content-Type", "text/plain"))
        digest = hashlib.sha1((key + MAGIC).encode()).digest()
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"),
                            ("Sec-WebSocket-Accept", base64.b64encode(digest).decode())):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:
            length = head[1] & 127
            if length == 126:
                length = int.from_bytes(self.rfile.read(2), "big")
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            size = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big")
            self.wfile.write(head[:1] + size + data)
            if head[0] & 15 == 8:
                break
        return None


class Origins:
    """Programs that listen on ports of their own."""

    def __init__(self, count, program=Program):
        self.servers = []
        for number in range(count):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), program)
            server.daemon_threads, server.open, server.lock = True, set(), threading.Lock()
            server.number, server.count, server.release = number, 0, threading.Event()
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.servers.append(server)
        self.ports = [server.server_address[1] for server in self.servers]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in range(len(self.servers)):
            self.stop(number)

    def count(self):
        """The requests that they have got so far."""
        return sum(server.count for server in self.servers)

    def stop(self, number):
        """Closes the port and all connections of one program."""
        server = self.servers[number]
        server.shutdown()
        server.server_close()
        with server.lock:
            for connection in server.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(2)
            server.open.clear()


def write_files(root):
    """Files of the static site, users, and a certificate."""
    for name, data in (
            ("static/index.html", b"<!doctype html><title>Home</title>\n" + b"<p>Home.\n" * 100),
            ("static/about.html", b"<!doctype html><title>About</title>\n"),
            ("static/style.css", b"body { margin: 0 }\n" * 50),
            ("static/app.js", b"console.log('app');\n" * 50),
            ("static/data.json", b'{"a": 1}\n'),
            ("static/notes.txt", b"0123456789" * 10),
            ("static/logo.png", bytes(range(256)) * 8),
            ("static/archive.tar.gz", bytes(range(200))),
            ("static/noextension", b"no extension\n"),
            ("static/empty.txt", b""),
            ("static/big.bin", bytes(index * 7 % 256 for index in range(300_000))),
            ("static/with space.html", b"a space\n"),
            ("static/a+b.txt", b"a plus\n"),
            ("static/\u00fcber.html", b"umlaut\n"),
            ("static/.hidden", b"hidden\n"),
            ("static/.well-known/security.txt", b"Contact: mailto:a@example.org\n"),
            ("static/docs/index.html", b"<!doctype html><title>Docs</title>\n"),
            ("static/docs/page.html", b"<!doctype html><title>A page</title>\n"),
            ("static/plain/file.txt", b"no index here\n"),
            ("static/members/list.txt", b"ann, bob\n"),
            ("static/lan/map.txt", b"the network\n"),
            ("films/short.txt", b"a film of text\n" * 20)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (DATE_S, DATE_S))
    (root / "static/link.txt").symlink_to("notes.txt")
    (root / "static/outside.txt").symlink_to("/etc/hostname")
    for folder in (root, root / "static", root / "films"):
        folder.chmod(0o755)
    secret = subprocess.run(["openssl", "passwd", "-6", "secret"], check=True, text=True,
                            capture_output=True).stdout
    (root / "users").write_text(f"ann:{secret}")
    (root / "users").chmod(0o600)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=shop.test",
                    "-addext", "subjectAltName=DNS:shop.test,DNS:www.shop.test",
                    "-keyout", str(root / "site.key"), "-out", str(root / "site.pem")],
                   check=True, capture_output=True)


class NginxSites(OtherServer):
    """nginx with a directory of its own, and this configuration: the text of nginx.conf, or a
    directory with all its files."""

    def __init__(self, text, port):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-nginx-")
        conf = pathlib.Path(self.dir.name) / "nginx.conf"
        if isinstance(text, pathlib.Path):
            shutil.copytree(text, self.dir.name, dirs_exist_ok=True)
        else:
            conf.write_text(text, encoding="utf-8")
        self.port = port
        # Its workers are other users, unless it runs as root.
        pathlib.Path(self.dir.name).chmod(0o755)
        with open(f"{self.dir.name}/output", "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                ["nginx", "-p", self.dir.name, "-e", "error.log", "-c", str(conf)],
                start_new_session=True, stdout=output, stderr=output)
        try:
            wait_for_port(port, lives=lambda: self.process.poll() is None)
        except Exception as error:
            output = pathlib.Path(f"{self.dir.name}/output").read_text(encoding="utf-8")
            raise RuntimeError(f"nginx did not start: {output}") from error
