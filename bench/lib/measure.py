"""One measured run."""

import os
import resource
import time

from lib import clients, process
from lib.errors import Broken

# The mixture's cache must be full and evicting before it is measured.
FILL_SECONDS = 120


def warm(server, workload, options):
    """Brings a server's memory, connections and threads into the state of the measured runs."""
    if workload.tool == "mixed":
        clients.load(server, workload, FILL_SECONDS, options.client_cpus,
                     requests=options.fill_requests)
    elif options.warm_seconds:
        clients.load(server, workload, options.warm_seconds, options.client_cpus)


def run(server, origin, workload, options, number):
    """Loads a server once and returns the measurements; `number` makes never-seen URLs new."""
    server.pin()
    requests_before = origin.count()
    before = _Meter(server, origin)
    result = clients.load(server, workload, options.seconds, options.client_cpus, run=number)
    used = _Meter(server, origin).since(before)
    used["origin_requests"] = origin.count() - requests_before
    if not result["requests"]:
        raise Broken(f"{server.name} answered no request of {workload.name}")
    return {**result, **used, "us": used["server_seconds"] / result["requests"] * 1e6,
            "switches": used["server_switches"] / result["requests"] * 1000,
            "compilers": process.compilers(), "problems": _problems(workload, result, used)}


def _problems(workload, result, used):
    """The reasons why a run is worthless, as texts."""
    problems = []
    if result["errors"]:
        problems.append(f"{result['errors']} errors")
    if workload.served_by == "cache" and used["origin_requests"]:
        problems.append(f"{used['origin_requests']} requests reached the origin")
    # At the end of a run requests are in flight that the client does not count.
    missing = result["requests"] - used["origin_requests"]
    if workload.served_by == "origin" and missing > 0:
        problems.append(f"{missing} requests did not reach the origin")
    return problems


class _Meter:
    """CPU time of all parties and switches of the server, up to now."""

    def __init__(self, server, origin):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = os.times()
        self.client = children.ru_utime + children.ru_stime
        self.driver = own.user + own.system
        self.origin = origin.cpu_seconds()
        self.server = server.cpu_seconds()
        self.switches = server.switches()
        self.machine = process.machine_cpu_seconds()
        self.wall = time.monotonic()

    def since(self, start):
        wall = self.wall - start.wall
        names = ("client", "driver", "origin", "server")
        parties = {name: getattr(self, name) - getattr(start, name) for name in names}
        foreign = self.machine - start.machine - sum(parties.values())
        return {
            "server_seconds": parties["server"],
            "server_switches": self.switches - start.switches,
            "server_cores": parties["server"] / wall,
            "client_cores": parties["client"] / wall,
            "origin_cores": parties["origin"] / wall,
            "foreign_cores": max(0.0, foreign / wall),
        }


def progress(number, server, sample):
    """One line for one run."""
    note = f" ({'; '.join(sample['problems'])})" if sample["problems"] else ""
    return (f"  round {number}: {server.name:<24} {sample['us']:8.2f} us/request "
            f"{sample['per_second']:10,.0f}/s  foreign {sample['foreign_cores']:.2f}{note}")
