"""Pebble, the test server for ACME of Let's Encrypt, with its own DNS server."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.request

from .servers import free_port, wait_for_port

TOOLS = ("pebble", "pebble-challtestsrv", "openssl", "curl")


def missing_tools():
    return [tool for tool in TOOLS if not shutil.which(tool)]


def ec_certificate(here, name, *more):
    """Makes a P-256 key and a certificate for the name; returns the paths of both."""
    cert, key = here / f"{name}.pem", here / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-keyout", key, "-out", cert, *more], check=True, stderr=subprocess.DEVNULL)
    return cert, key


class Pebble:
    """A certificate authority. It looks for challenges at `http_port` and `tls_port`; its
    certificates are valid for `life_s`. `env` are the variables by which Pebble misbehaves."""

    def __init__(self, http_port, tls_port, life_s=7776000, **env):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-pebble-")
        here = pathlib.Path(self.dir.name)
        self.port, self.management, self.dns = free_port(), free_port(), free_port()
        # The certificate of its own server, which is no authority: RFC 5280 needs two of them.
        self.ca, ca_key = ec_certificate(here, "authority")
        cert, key = ec_certificate(here, "localhost", "-CA", self.ca, "-CAkey", ca_key, "-addext",
                                   "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext",
                                   "basicConstraints=critical,CA:FALSE")
        self.config = here / "pebble.json"
        self.config.write_text(json.dumps({"pebble": {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": str(cert), "privateKey": str(key),
            "httpPort": http_port, "tlsPort": tls_port,
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "the only one", "validityPeriod": life_s}}}}))
        self.env = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", **env}
        self.directory = f"https://localhost:{self.port}/dir"
        self.process = self.names = None
        self.start()

    def start(self):
        self.names = subprocess.Popen(
            ["pebble-challtestsrv", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver",
             f"127.0.0.1:{self.dns}", "-doh", "", "-http01", "", "-https01", "", "-tlsalpn01", "",
             "-management", f"127.0.0.1:{free_port()}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.log = open(f"{self.dir.name}/log", "a", encoding="utf-8")
        self.process = subprocess.Popen(
            ["pebble", "-config", self.config, "-dnsserver", f"127.0.0.1:{self.dns}"],
            stdout=self.log, stderr=self.log, env={**os.environ, **self.env})
        wait_for_port(self.port, lives=lambda: self.process.poll() is None)

    def root(self, path):
        """Writes the root of the certificates that it issues. A restart makes a new one."""
        trusted = ssl.create_default_context(cafile=self.ca)
        url = f"https://localhost:{self.management}/roots/0"
        with urllib.request.urlopen(url, context=trusted, timeout=10) as answer:
            path.write_bytes(answer.read())
        return path

    def want_renewal(self, pem):
        """Suggests that the certificate, the first one of this PEM, is renewed at once."""
        first = pem[pem.index("-----BEGIN CERTIFICATE"):]
        first = first[:first.index("-----END CERTIFICATE-----") + 26]
        window = {"suggestedWindow": {"start": "2024-01-01T00:00:00Z",
                                      "end": "2024-01-02T00:00:00Z"}}
        content = json.dumps({"certificate": first, "ariResponse": json.dumps(window)})
        trusted = ssl.create_default_context(cafile=self.ca)
        url = f"https://localhost:{self.management}/set-renewal-info/"
        with urllib.request.urlopen(url, content.encode(), context=trusted, timeout=10) as answer:
            answer.read()

    def orders(self):
        """The number of orders that it got."""
        text = pathlib.Path(f"{self.dir.name}/log").read_text(encoding="utf-8")
        return text.count("POST /order-plz")

    def stop(self):
        for process in (self.process, self.names):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        self.dir.cleanup()
