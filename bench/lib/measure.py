"""Warms a server up, and measures one run."""

import os
import resource
import time

from lib import clients, process, proof
from lib.errors import Broken

# The longest time in which the cache of a mixed workload is filled, so that it evicts.
FILL_SECONDS = 120


def warm(server, workload, options):
    """Loads a server, so that its memory and threads are in the state of the measured runs."""
    if workload.tool == "mixed":
        clients.load(server, workload, FILL_SECONDS, options.client_cpus,
                     requests=options.fill_requests)
    elif options.warm_seconds:
        clients.load(server, workload, options.warm_seconds, options.client_cpus)


def run(server, origin, workload, options, number):
    """Loads a server once and returns the measurements.

    `number` is the round, by which the never-requested URLs of a mixed workload differ."""
    server.pin()
    requests_before = origin.count()
    counts_before = origin.counts()
    before = _Meter(server, origin)
    result = clients.load(server, workload, options.seconds, options.client_cpus, run=number)
    used = _Meter(server, origin).since(before)
    used["origin_requests"] = origin.count() - requests_before
    if not result["requests"]:
        raise Broken(f"{server.name} answered no request of {workload.name}")
    problems = _problems(workload, result, used)
    if workload.origins > 1:
        problems += proof.uneven(counts_before, origin.counts(), workload.origins)
    return {**result, **used, "us": used["server_seconds"] / result["requests"] * 1e6,
            "switches": used["server_switches"] / result["requests"] * 1000,
            "compilers": process.compilers(), "problems": problems,
            **({"coded_bytes": server.coded_bytes} if workload.coding else {})}


def _problems(workload, result, used):
    """Descriptions of everything that makes the run worthless."""
    problems = []
    if result["errors"]:
        problems.append(f"{result['errors']} errors")
    if workload.served_by == "cache" and used["origin_requests"]:
        problems.append(f"{used['origin_requests']} requests reached the origin")
    # More requests than the client counts may reach the origin: those in flight at the end.
    missing = result["requests"] - used["origin_requests"]
    if workload.served_by == "origin" and missing > 0:
        problems.append(f"{missing} requests did not reach the origin")
    return problems


class _Meter:
    """The CPU times of server, origin, client, driver and machine, and the server's switches."""

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
    """A line of progress for one run."""
    note = f" ({'; '.join(sample['problems'])})" if sample["problems"] else ""
    return (f"  round {number}: {server.name:<24} {sample['us']:8.2f} us/request "
            f"{sample['per_second']:10,.0f}/s  foreign {sample['foreign_cores']:.2f}{note}")
