"""Forebay with HTTP/2, over TLS with a certificate of its own and without TLS."""

import pathlib
import subprocess
import tempfile

from lib.servers import Forebay, free_port

HOST = "localhost"
ECDSA = ("ec", "ec_paramgen_curve:P-256")
RSA = ("rsa", "rsa_keygen_bits:2048")


def certificate(folder, name="cert", host=HOST, kind=ECDSA):
    """Makes a certificate for a host; returns the paths of the certificate and of its key."""
    cert, key = pathlib.Path(folder, f"{name}.pem"), pathlib.Path(folder, f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", kind[0], "-pkeyopt", kind[1], "-nodes",
                    "-days", "2", "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}",
                    "-keyout", key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    key.chmod(0o600)
    return cert, key


class Site:
    """Forebay in front of an origin, which is closed with it. `urls` and `ports` have the keys
    `TLS` and `clear`."""

    def __init__(self, origin, *flags, kind=ECDSA):
        self.origin = origin
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-tls-")
        self.cert, self.key = certificate(self.dir.name, kind=kind)
        tls_port = free_port()
        self.forebay = Forebay("--http2", "true", "--listen-tls", f"127.0.0.1:{tls_port}",
                               "--tls-cert", str(self.cert), "--tls-key", str(self.key), *flags,
                               origin=origin.url)
        self.ports = {"TLS": tls_port, "clear": self.forebay.port}
        self.urls = {"TLS": f"https://{HOST}:{tls_port}", "clear": self.forebay.url}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.forebay.__exit__()
        self.origin.__exit__()
        self.dir.cleanup()
