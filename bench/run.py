#!/usr/bin/env python3
"""Measures caching proxies side by side: CPU time per request of each server's process tree.

The driver starts the servers and one origin. It proves that each server serves from its cache: the
origin's counter does not change (for pass-through it must grow with each request). Then it loads
the servers one after another, in a new random order in each round. The quietest runs are kept.
bench/README.md explains the figures.
"""

import argparse
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import shlex
import signal
import sys

from lib import files, machine, measure, process, proof, report, servers
from lib.errors import Broken, Usage
from lib.workloads import GROUPS, WORKLOADS, select

DEFAULT_SERVERS = ("forebay,haproxy,nginx,nginx@SENDFILE=on,varnish,trafficserver,"
                   "bare-epoll,bare-tokio,bare-tokio-parse")
EXAMPLES = """
examples:
  run.py                                    the core workloads, all servers: the form to quote
  run.py --workloads '1k-*' --servers forebay,haproxy
  run.py --workloads 64k-u1-c64 --servers forebay,nginx@SENDFILE=on,haproxy,varnish
  run.py --workloads mixed,pass-1k --origin-cpu 1 --rounds 7
  run.py --page docs/performance.md         the core workloads; also writes them into the page
  run.py --workloads sites --page docs/performance.md --section sites
                                            origins, files and compression, into their section
  run.py --servers forebay,forebay@FOREBAY=/tmp/old --instances 8 --rounds 2     two builds
  run.py --list                             all workloads, groups and servers
  run.py --rounds 1 --seconds 1 --allow-busy --workloads 1k-u1-c64      a quick trial
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--list", action="store_true", help="show workloads, groups and servers, and exit")
    add("--servers", default=DEFAULT_SERVERS, metavar="A,B",
        help="servers, each with settings of its start script: NAME@SETTING=VALUE+SETTING=VALUE")
    add("--workloads", default="core", metavar="A,B",
        help="names, groups or patterns (core: the workloads of the project's targets)")
    add("--rounds", type=int, default=5, help="measured runs of each server process (5)")
    add("--instances", type=int, default=1,
        help="how often the servers are started anew, each time in another order (1)")
    add("--seconds", type=int, default=4, help="length of a measured run (4)")
    add("--keep", type=int, default=60, metavar="PERCENT",
        help="share of the runs that is kept: those with the least work of other processes (60)")
    add("--threads", type=int, default=1, help="worker threads of each server (1)")
    add("--server-cpu", default="0", metavar="CPUS", help="processors of the servers (0)")
    add("--client-cpu", default="0", metavar="CPUS", help="processors of the clients (0)")
    add("--origin-cpu", metavar="CPUS",
        help="processors of the origin (the first one without servers and clients)")
    add("--warm-seconds", type=int, default=1, help="unmeasured load before each workload (1)")
    add("--fill-requests", type=int, default=40_000,
        help="requests that fill the cache before a mixed workload is measured (40000)")
    add("--out", metavar="PREFIX", help="write PREFIX.json and PREFIX.md (bench/out/TIME)")
    add("--page", metavar="FILE",
        help="also write the tables into FILE, between its result marks (docs/performance.md)")
    add("--section", default=report.SECTIONS[0], choices=report.SECTIONS,
        help="the marks in FILE that --page writes between (results)")
    add("--allow-busy", action="store_true",
        help="run even if compilers or other processes run: no figure is quotable")
    return parser.parse_args()


def resolve(arguments):
    """Replaces names in the arguments by objects; raises Usage for arguments that cannot work."""
    try:
        arguments.server_cpus = process.parse_cpus(arguments.server_cpu)
        arguments.client_cpus = process.parse_cpus(arguments.client_cpu)
        machine_cpus = os.sched_getaffinity(0)
        others = machine_cpus - arguments.server_cpus - arguments.client_cpus
        chosen = arguments.origin_cpu or str(min(others or machine_cpus))
        arguments.origin_cpus = process.parse_cpus(chosen)
    except ValueError as error:
        raise Usage(f"processors are written as 0, 0,2 or 0-3: {error}") from error
    used = arguments.server_cpus | arguments.client_cpus | arguments.origin_cpus
    if used - machine_cpus:
        raise Usage(f"this machine has no processors {sorted(used - machine_cpus)}")
    if min(arguments.rounds, arguments.seconds, arguments.threads) < 1:
        raise Usage("--rounds, --seconds and --threads must be at least 1")
    if not 1 <= arguments.keep <= 100:
        raise Usage("--keep is a percentage from 1 to 100")
    arguments.specs = servers.Spec.parse_list(arguments.servers)
    arguments.chosen = select(arguments.workloads)
    machine.require_installed(arguments.specs, arguments.chosen)
    if arguments.page:
        if arguments.allow_busy:
            raise Usage("--page needs figures that can be quoted, so it excludes --allow-busy")
        report.check_page(pathlib.Path(arguments.page), report.page_marks(arguments.section))


def show_list():
    print("workloads:")
    for workload in WORKLOADS.values():
        print(f"  {workload.name:<20} {workload.about}")
    print("groups:")
    for name, members in GROUPS.items():
        print(f"  {name:<20} {', '.join(members) if len(members) < 10 else len(members)}")
    print("servers:\n  " + ", ".join(servers.known()))


def by_profile(workloads):
    """Groups of workloads with the same profile, which the same running servers can serve."""
    groups = {}
    for workload in workloads:
        groups.setdefault(tuple(workload.profile.items()), []).append(workload)
    return groups


class Run:
    """A run of the driver: its results, and the servers that were left out."""

    def __init__(self, arguments, prefix):
        self.arguments = arguments
        self.prefix = prefix
        self.logs = servers.BENCH / "out/logs"
        self.results = {}
        self.left_out = []
        self.text = ""

    def all(self):
        self.logs.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            if files.write(self.arguments.chosen, self.arguments.specs):
                stack.callback(files.remove)
            addresses = max(workload.origins for workload in self.arguments.chosen)
            origin = servers.Origin(self.arguments.origin_cpus, self.logs, addresses)
            stack.callback(origin.stop)
            origin.wait_ready("/status")
            groups = by_profile(self.arguments.chosen).values()
            for workloads in [group for group in groups for _ in range(self.arguments.instances)]:
                with contextlib.ExitStack() as group:
                    started = self.start_servers(origin, workloads, group)
                    for workload in workloads:
                        self.workload(workload, started, origin)

    def start_servers(self, origin, workloads, stack):
        """Starts every server that one of the workloads needs, in random order: the place of a
        server's memory changes its figures by some percent."""
        settings = {"threads": self.arguments.threads, "profile": workloads[0].profile,
                    "server_cpus": self.arguments.server_cpus}
        started = []
        specs = self.arguments.specs
        for spec in random.sample(specs, len(specs)):
            if all(workload.unable(spec) for workload in workloads):
                continue
            with self.leaving_out("all of the profile"):
                server = servers.Server(spec, origin, settings, self.logs)
                stack.callback(server.stop)
                server.wait_ready("/1k/0")
                started.append(server)
        return started

    def workload(self, workload, started, origin):
        """Proves, warms and measures all servers, and writes all results up to now."""
        print(f"\n{workload.name}: {workload.about}", flush=True)
        for name, reason in unable_of(workload, self.arguments.specs).items():
            print(f"  without {name}: {reason}", flush=True)
        able = []
        for server in started:
            if workload.unable(server.spec):
                continue
            with self.leaving_out(workload.name):
                server.pin()
                proof.check(server, origin, workload)
                measure.warm(server, workload, self.arguments)
                able.append(server)
        samples = self.results.setdefault(workload.name, {})
        for name, measured in self.rounds(able, origin, workload).items():
            samples.setdefault(name, []).extend(measured)
        tables = report.summaries({workload.name: samples}, self.arguments.keep)
        print("\n" + report.table(tables[workload.name]), flush=True)
        self.text = write(record_of(self.arguments, self.results, self.left_out), self.prefix)

    def rounds(self, able, origin, workload):
        """Measures all servers in each round, in a new random order."""
        samples = {server.name: [] for server in able}
        for number in range(1, self.arguments.rounds + 1):
            for server in random.sample(able, len(able)):
                with self.leaving_out(f"round {number} of {workload.name}"):
                    sample = measure.run(server, origin, workload, self.arguments, number)
                    samples[server.name].append(sample)
                    print(measure.progress(number, server, sample), flush=True)
        return samples

    @contextlib.contextmanager
    def leaving_out(self, what):
        """Reports a server that fails and leaves it out of `what`; the other servers continue."""
        try:
            yield
        except (Broken, OSError, http.client.HTTPException) as problem:
            print(f"!! left out of {what}: {problem}", file=sys.stderr, flush=True)
            self.left_out.append(f"{what}: {problem}")


def record_of(arguments, results, left_out):
    settings = {"instances": arguments.instances, "rounds": arguments.rounds,
                "seconds": arguments.seconds, "kept percent": arguments.keep,
                "worker threads": arguments.threads,
                "servers on CPU": arguments.server_cpu,
                "clients on CPU": arguments.client_cpu,
                "origin on CPU": ",".join(map(str, sorted(arguments.origin_cpus)))}
    return {"time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "command": f"bench/{shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])}",
            "settings": settings,
            "machine": machine.describe(), "versions": machine.versions(arguments.specs),
            "unable": {w.name: unable for w in arguments.chosen
                       if (unable := unable_of(w, arguments.specs))},
            "left out": left_out, "tables": report.summaries(results, arguments.keep),
            "samples": results}


def unable_of(workload, specs):
    """The servers that cannot serve a workload, by name, with the reasons."""
    reasons = ((spec.name, workload.unable(spec)) for spec in specs)
    return {name: reason for name, reason in reasons if reason}


def write(record, prefix):
    abouts = {name: workload.about for name, workload in WORKLOADS.items()}
    prefix.parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(f"{prefix}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    text = report.markdown(record, abouts)
    pathlib.Path(f"{prefix}.md").write_text(text, encoding="utf-8")
    return text


def stamp():
    return datetime.datetime.now().strftime("%Y%m%d-%H%M%S")


def main():
    arguments = parse_arguments()
    if arguments.list:
        show_list()
        return
    resolve(arguments)
    if not arguments.allow_busy:
        machine.require_quiet()
    machine.raise_file_limit()
    prefix = pathlib.Path(arguments.out or servers.BENCH / "out" / stamp())
    run = Run(arguments, prefix)
    with machine.only_one():
        run.all()
    if run.left_out:
        raise Broken("some servers were left out:\n  " + "\n  ".join(run.left_out))
    if arguments.page:
        marks = report.page_marks(arguments.section)
        report.fill_page(pathlib.Path(arguments.page), run.text, marks)
    print(f"\nwritten: {prefix}.json and {prefix}.md")


def end_politely(main_of):
    """Runs a driver. A failure becomes a message, and all servers are stopped in any case."""
    # SIGTERM must run the cleanup that stops the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    name = pathlib.Path(sys.argv[0]).name
    try:
        main_of()
    except (Usage, Broken) as problem:
        sys.exit(f"{name}: {problem}")
    except KeyboardInterrupt:
        sys.exit(f"{name}: interrupted; all servers and clients are stopped")


if __name__ == "__main__":
    end_politely(main)
