"""Starts and stops Apache Traffic Server with the plugin header_rewrite, in a folder of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from lib.servers import OtherServer, free_port, wait_for_port

PLUGIN = pathlib.Path("/usr/lib/trafficserver/modules/header_rewrite.so")
ETC = pathlib.Path("/etc/trafficserver")
START_S_MAX = 20
# The form of the plugin's errors in diags.log.
COMPLAINT = re.compile(r"ERROR: (\[header_rewrite\].*)")

# One thread, so that a stored response is found at once. Fields that Traffic Server adds by itself
# are switched off where possible. The origin gets the client's Host, as from Forebay.
RECORDS = """CONFIG proxy.config.exec_thread.autoconfig.enabled INT 0
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.exec_thread.affinity INT 0
CONFIG proxy.config.exec_thread.listen INT 1
CONFIG proxy.config.accept_threads INT 0
CONFIG proxy.config.http.cache.http INT 1
CONFIG proxy.config.http.cache.required_headers INT 0
CONFIG proxy.config.http.wait_for_cache INT 1
CONFIG proxy.config.http.insert_age_in_response INT 0
CONFIG proxy.config.http.insert_request_via_str INT 0
CONFIG proxy.config.http.insert_response_via_str INT 0
CONFIG proxy.config.http.insert_squid_x_forwarded_for INT 0
CONFIG proxy.config.http.insert_client_ip INT 0
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.reverse_proxy.enabled INT 1
CONFIG proxy.config.url_remap.remap_required INT 1
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.admin.user_id STRING {user}
CONFIG proxy.config.log.logging_enabled INT 0
"""
RUN_ROOT = """prefix: {run}
exec_prefix: /usr
bindir: /usr/bin
sbindir: /usr/bin
sysconfdir: {run}/etc
datadir: {run}/cache
includedir: /usr/include
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: {run}
runtimedir: {run}/run
logdir: {run}/log
cachedir: {run}/cache
"""


class Refused(Exception):
    """Traffic Server does not start with these rules; the text has its messages about them."""


def is_installed():
    return PLUGIN.exists() and shutil.which("traffic_server") is not None


class TrafficServer(OtherServer):
    """A running Traffic Server: `remaps` are the lines of its remap.config, `plugins` those of
    its plugin.config."""

    def __init__(self, remaps, plugins=()):
        self.dir = tempfile.TemporaryDirectory(prefix="forebay-e2e-", dir="/dev/shm")
        self.port = free_port()
        try:
            self._write(pathlib.Path(self.dir.name), remaps, plugins)
            self.process = subprocess.Popen(
                ["traffic_server", f"--run-root={self.dir.name}/runroot.yaml"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True)
            self._wait()
        except BaseException:
            self.dir.cleanup()
            raise

    def _write(self, run, remaps, plugins):
        shutil.copytree(ETC, run / "etc")
        for folder in ("store", "run", "log", "cache", "lib"):
            (run / folder).mkdir()
        is_root = os.geteuid() == 0
        files = {"records.config": RECORDS.format(port=self.port,
                                                  user="trafficserver" if is_root else "#-1"),
                 "remap.config": "\n".join(remaps) + "\n",
                 "plugin.config": "\n".join(plugins) + "\n",
                 "storage.config": f"{run}/store 64M\n"}
        for name, text in files.items():
            (run / "etc" / name).write_text(text)
        (run / "runroot.yaml").write_text(RUN_ROOT.format(run=run))
        if is_root:
            # Traffic Server switches from root to this user, which must be able to reach these
            # folders.
            run.chmod(0o755)
            for path in [run, *run.rglob("*")]:
                shutil.chown(path, "trafficserver")

    def _wait(self):
        try:
            wait_for_port(self.port, START_S_MAX, lambda: self.process.poll() is None)
        except (TimeoutError, ChildProcessError) as error:
            self.kill()
            raise Refused(self.complaints() or self.logged()[-2000:]) from error

    def logged(self):
        """The text of its log files."""
        logs = (pathlib.Path(self.dir.name) / "log").glob("*.log")
        return "".join(log.read_text(errors="replace") for log in sorted(logs))

    def complaints(self):
        """The plugin's errors about the rules, without times."""
        found = COMPLAINT.findall(self.logged())
        return "\n".join(dict.fromkeys(found))
