"""Forebay with HTTP/2, over TLS with a certificate of its own and without TLS; an authority."""

import datetime
import pathlib
import secrets
import subprocess
import tempfile

from lib.servers import Forebay, free_port

HOST = "localhost"
ECDSA = ("ec", "ec_paramgen_curve:P-256")
RSA = ("rsa", "rsa_keygen_bits:2048")


def certificate(folder, name="cert", host=HOST, kind=ECDSA, usage=None):
    """Makes a certificate for a host; returns the paths of the certificate and of its key."""
    extensions = [f"subjectAltName=DNS:{host}"] + ([f"keyUsage={usage}"] if usage else [])
    cert, key = pathlib.Path(folder, f"{name}.pem"), pathlib.Path(folder, f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", kind[0], "-pkeyopt", kind[1], "-nodes",
                    "-days", "2", "-subj", f"/CN={host}", "-keyout", key, "-out", cert,
                    *(part for line in extensions for part in ("-addext", line))],
                   check=True, stderr=subprocess.DEVNULL)
    key.chmod(0o600)
    return cert, key


class Authority:
    """An authority for certificates, whose files are in a folder."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        self.cert, self.key = certificate(
            folder, name, name, usage="critical,keyCertSign,cRLSign,digitalSignature")

    def issue(self, name, subject, extensions, kind=ECDSA, days=2):
        """Issues a certificate with the lines of extensions; returns the paths of the certificate
        and of its key."""
        cert, key, request, lines = (self.folder / f"{name}.{end}"
                                     for end in ("pem", "key", "csr", "extensions"))
        lines.write_text(extensions)
        _openssl("req", "-newkey", kind[0], "-pkeyopt", kind[1], "-nodes", "-subj", subject,
                 "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-days",
                 days, "-out", cert, "-extfile", lines, "-set_serial",
                 secrets.randbits(120) | 1 << 126)
        key.chmod(0o600)
        return cert, key

    def respond(self, cert, path, is_revoked=False):
        """Writes an OCSP response about one of its certificates, which is valid for a day."""
        serial = _openssl("x509", "-in", cert, "-noout", "-serial").strip().partition("=")[2]
        state = "R\t{0}\t{0}" if is_revoked else "V\t{0}\t"
        date = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        if not is_revoked:
            date += datetime.timedelta(days=90)
        index = self.folder / "index"
        index.write_text(f"{state.format(date.strftime('%y%m%d%H%M%SZ'))}\t{serial}\tunknown\t/\n")
        _openssl("ocsp", "-index", index, "-CA", self.cert, "-rsigner", self.cert, "-rkey",
                 self.key, "-issuer", self.cert, "-cert", cert, "-ndays", "1", "-respout", path)


def _openssl(*args):
    return subprocess.run(["openssl", *map(str, args)], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout


class Site:
    """Forebay in front of an origin, which is closed with it. `urls` and `ports` have the keys
    `TLS` and `clear`. `identity` has the paths of a certificate and its key; otherwise it gets one
    of its own."""

    def __init__(self, origin, *flags, kind=ECDSA, identity=None):
        self.origin = origin
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-tls-")
        self.cert, self.key = identity or certificate(self.dir.name, kind=kind)
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
