"""DokuWiki of the Debian package, on a php-fpm of its own behind nginx with gzip."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.parse

from .servers import Nginx, OtherServer
from .wire import Wire

PACKAGE = pathlib.Path("/usr/share/dokuwiki")
CONFIG = pathlib.Path("/etc/dokuwiki")
SECRET = "for-readers-with-an-account"

# gzip as Debian's nginx.conf suggests it, in its comments.
LOCATIONS = """gzip on; gzip_vary on; gzip_proxied any; gzip_comp_level 6;
    gzip_types text/plain text/css application/javascript;
    location / {{ root {package}; index doku.php; include /etc/nginx/mime.types; }}
    location ~ ^/(bin|data|inc|conf|vendor)/ {{ deny all; }}
    location ~ \\.php$ {{
      root {package}; include /etc/nginx/fastcgi_params;
      fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
      fastcgi_pass unix:{socket};
    }}"""


def missing_packages():
    """The Debian packages that are not installed."""
    found = {"dokuwiki": (PACKAGE / "doku.php").exists() and CONFIG.exists(),
             "php-fpm": fpm_path() is not None}
    return [name for name, exists in found.items() if not exists]


def fpm_path():
    """The path of php-fpm, whose name has PHP's version in Debian; None if there is none."""
    return shutil.which("php-fpm") or next(
        (str(path) for path in sorted(pathlib.Path("/usr/sbin").glob("php-fpm?*"))), None)


class PhpFpm(OtherServer):
    """php-fpm with a wiki of its own: an anonymous reader may read every page but those of the
    namespace `private`, and the account `reader` may read all. The scripts are the package's."""

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-php-")
        here = pathlib.Path(self.dir.name)
        self.socket = here / "socket"
        self._write_wiki(here)
        user = ""
        if os.geteuid() == 0:
            # php-fpm refuses to run scripts as root.
            user = "user = www-data"
            here.chmod(0o755)
            subprocess.run(["chown", "-R", "www-data:", here / "data", here / "conf"], check=True)
        conf = here / "fpm.conf"
        conf.write_text(f"""[global]
error_log = {here}/error.log
daemonize = no
[pool]
{user}
listen = {self.socket}
pm = static
pm.max_children = 2
php_admin_value[auto_prepend_file] = {here}/prepend.php
php_admin_value[session.save_path] = {here}/data/tmp
""")
        self.process = subprocess.Popen([fpm_path(), "--nodaemonize", "--fpm-config", conf],
                                        start_new_session=True, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                log = (here / "error.log").read_text()
                raise ChildProcessError(f"php-fpm does not listen on its socket: {log.strip()}")
            time.sleep(0.02)

    @staticmethod
    def _write_wiki(here):
        """Writes the settings and pages below `here`. DokuWiki reads settings from DOKU_CONF, which
        the code before each script defines."""
        data, conf = here / "data", here / "conf"
        (here / "prepend.php").write_text(f"<?php define('DOKU_CONF', '{conf}/');\n")
        conf.mkdir()
        for path in CONFIG.iterdir():
            if path.is_file() and not path.name.endswith(".auth.php"):
                shutil.copy(path, conf / path.name)
        (conf / "local.php").write_text(
            f"<?php $conf['savedir'] = '{data}'; $conf['useacl'] = 1;\n")
        # A password of DokuWiki may be a plain MD5.
        secret = hashlib.md5(SECRET.encode()).hexdigest()
        (conf / "users.auth.php").write_text(f"reader:{secret}:Account Holder:r@e2e.test:user\n")
        (conf / "acl.auth.php").write_text("* @ALL 1\nprivate:* @ALL 0\nprivate:* @user 1\n")
        # DokuWiki makes a style sheet again if a settings file is not older than it.
        for path in conf.iterdir():
            os.utime(path, times=(time.time() - 3600,) * 2)
        for name in ("pages/private", "attic", "media", "media_attic", "media_meta", "meta",
                     "cache", "index", "locks", "tmp", "log"):
            (data / name).mkdir(parents=True)
        (data / "pages/start.txt").write_text("====== Welcome ======\n" + "Some words. " * 200)
        (data / "pages/private/page.txt").write_text(f"The page is {SECRET}.\n")


@contextlib.contextmanager
def wiki():
    """nginx with gzip in front of a running DokuWiki."""
    with PhpFpm() as fpm, Nginx(LOCATIONS.format(package=PACKAGE, socket=fpm.socket)) as nginx:
        yield nginx


def log_in(port):
    """Logs in through `port`; returns the field Cookie of the account's session."""
    form = urllib.parse.urlencode({"u": "reader", "p": SECRET, "do": "login", "id": "start"})
    with Wire(port) as wire:
        wire.send("POST /doku.php HTTP/1.1\r\nHost: e2e.test\r\n"
                  "Content-Type: application/x-www-form-urlencoded\r\n"
                  f"Content-Length: {len(form)}\r\n\r\n{form}")
        answer = wire.answer("POST")
    cookies = {}
    for line in answer.lines:
        name, _, value = line.partition(":")
        if name.lower() == "set-cookie":
            name, _, value = value.split(";")[0].strip().partition("=")
            cookies[name] = value
    return "Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items())
