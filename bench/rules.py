#!/usr/bin/env python3
"""Measures the cost of header rules: the CPU time per request of caching proxies at different
numbers of rules, and the cost of one more rule for each proxy.

For each kind of rules, every server is started once for each number of rules. As in run.py, all of
them are loaded in a new random order in each round. Before that, the answers of each server are
checked: they must show exactly the expected rules."""

import argparse
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
import run
from lib import machine, report, rulesets, servers, slopes
from lib.errors import Broken, Usage
from lib.workloads import GROUPS, WORKLOADS

DEFAULT_SERVERS = ("forebay,trafficserver,trafficserver@SANITY=off,nginx,nginx@POSTPONE=32k,"
                   "haproxy,varnish")
DEFAULT_COUNTS = "0,1,4,16,64,100"
# Servers that are also measured with more rules, to see whether the cost of a rule changes.
FURTHER = {"forebay": [400]}
EXAMPLES = """
kinds:""" + rulesets.__doc__.split("kinds:")[1] + """
examples:
  rules.py                                 all servers and kinds: the form to quote
  rules.py --kinds rx --servers forebay,haproxy --counts 0,16,100
  rules.py --servers forebay,forebay@FOREBAY=/path/of/the/other --kinds set,eq,eqd,rx
  rules.py --four                          no rules and four, in five patterns of connections
  rules.py --rounds 1 --seconds 1 --counts 0,4 --allow-busy                a quick trial
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--servers", default=DEFAULT_SERVERS, metavar="A,B", help="servers, as for run.py")
    add("--kinds", default="set,eq,rx,eqd", metavar="A,B", help="kinds of rules (set,eq,rx,eqd)")
    add("--counts", default=DEFAULT_COUNTS, metavar="N,N",
        help=f"numbers of rules ({DEFAULT_COUNTS})")
    add("--four", action="store_true", help="measure only no rules and four rules (two add, "
        "two set) of Forebay and Traffic Server: on a connection for each request, the same over "
        "TLS, on keep-alive connections, over TLS, and over TLS with HTTP/2")
    add("--rounds", type=int, default=5, help="measured runs of each server (5)")
    add("--seconds", type=int, default=2, help="length of a measured run (2)")
    add("--keep", type=int, default=60, metavar="PERCENT",
        help="share of the runs that is kept (60)")
    add("--out", metavar="PREFIX", help="write PREFIX.json and PREFIX.md (bench/out/TIME)")
    add("--allow-busy", action="store_true",
        help="run even if compilers or other processes run: no figure is quotable")
    return parser.parse_args()


def numbers(text):
    try:
        counts = sorted({int(word) for word in text.split(",")})
    except ValueError as error:
        raise Usage(f"--counts must be numbers with commas between them: {error}") from error
    if counts[0] < 0:
        raise Usage("--counts must be 0 or more")
    return counts


def with_rules(spec, kind, count):
    joint = "+" if "@" in spec.text else "@"
    return servers.Spec(f"{spec.text}{joint}KIND={kind}+N={count}")


def groups(arguments):
    """The parts of the run: for each, its name, its workloads, and its cells (see cells_of)."""
    specs = servers.Spec.parse_list(arguments.servers)
    if any("KIND" in spec.settings for spec in specs):
        raise Usage("--servers must not set KIND or N; use --kinds and --counts")
    if arguments.four:
        able = [spec for spec in specs if "four" in rulesets.kinds_of(spec.name)]
        return [("four", [WORKLOADS[name] for name in GROUPS["rules"]],
                 cells_of(able, "four", lambda _: [0, rulesets.COUNT_OF_FOUR]))]
    kinds = arguments.kinds.split(",")
    if unknown := set(kinds) - set(rulesets.KINDS):
        raise Usage(f"no kind of rules is called {', '.join(sorted(unknown))}; "
                    f"there are {', '.join(rulesets.KINDS)}")
    counts = numbers(arguments.counts)
    further = lambda spec: counts + (FURTHER.get(spec.name, []) if counts[-1] >= 100 else [])
    parts = []
    for kind in kinds:
        able = [spec for spec in specs if kind in rulesets.kinds_of(spec.name)]
        parts.append((kind, [WORKLOADS["rules"]], cells_of(able, kind, further)))
    return parts


def cells_of(specs, kind, counts_of):
    """Maps the full name of each server, with its rules, to the base server and number of rules."""
    return {with_rules(spec, kind, count).text: (spec.text, count)
            for spec in specs for count in dict.fromkeys(counts_of(spec))}


def resolve(arguments):
    """The arguments for run.py's Run, as from its command line, and the parts of the run."""
    others = os.sched_getaffinity(0) - {0}
    run_arguments = argparse.Namespace(
        instances=1, rounds=arguments.rounds, seconds=arguments.seconds, keep=arguments.keep,
        threads=1, warm_seconds=1, fill_requests=0, server_cpu="0", client_cpu="0", server_cpus={0},
        client_cpus={0}, origin_cpus={min(others or {0})})
    if min(arguments.rounds, arguments.seconds) < 1 or not 1 <= arguments.keep <= 100:
        raise Usage("--rounds and --seconds must be at least 1, --keep from 1 to 100")
    parts = groups(arguments)
    every = [servers.Spec(text) for _, _, cells in parts for text in cells]
    if not every:
        raise Usage("none of these servers supports rules of these kinds")
    machine.require_installed(every, [one for _, workloads, _ in parts for one in workloads])
    run_arguments.specs = every
    return run_arguments, parts


def measure(run_arguments, parts, prefix):
    """Measures all parts; returns the samples by part and workload, and the failures."""
    results, left_out = {}, []
    for name, workloads, cells in parts:
        print(f"\n== {name}: {len(cells)} servers", flush=True)
        run_arguments.specs = [servers.Spec(text) for text in cells]
        run_arguments.chosen = workloads
        one = run.Run(run_arguments, pathlib.Path(f"{prefix}-{name}"))
        one.all()
        results[name] = one.results
        left_out += one.left_out
    return results, left_out


def cells_by_server(rows, cells):
    """A part's summaries by base server and number of rules."""
    found = {}
    for text, row in rows.items():
        base, count = cells[text]
        found.setdefault(base, {})[count] = row
    return {base: found[base] for base in dict.fromkeys(base for base, _ in cells.values())
            if base in found}


def sections(results, parts, keep):
    """For each part and workload: its cells, and the slopes of servers with two points or more."""
    made = {}
    for name, _, cells in parts:
        for workload, rows in report.summaries(results[name], keep).items():
            by_server = cells_by_server(rows, cells)
            lines = {base: slopes.summarise([(count, cell["us"]) for count, cell in one.items()])
                     for base, one in by_server.items()}
            made[f"{name}, {workload}"] = {
                "cells": by_server, "slopes": {base: one for base, one in lines.items() if one}}
    return made


def markdown(record):
    lines = [f"- {key}: {value}" for key, value in {**record["machine"],
                                                   **record["versions"]}.items()]
    lines += [f"- settings: {', '.join(f'{k} {v}' for k, v in record['settings'].items())}",
              "", "```", record["command"], "```"]
    lines += [f"- left out of {problem}" for problem in record["left out"]]
    for name, section in record["sections"].items():
        lines += ["", f"### Rules: {name}", "", "CPU µs per request: median (min-max).", "",
                  slopes.count_table(section["cells"])]
        notes = sorted({f"{base}, {count} rules: {note}"
                        for base, cells in section["cells"].items()
                        for count, cell in cells.items() for note in cell["notes"]})
        lines += ["", *(f"† {note}" for note in notes)] if notes else []
        if section["slopes"] and not name.startswith("four"):
            lines += ["", "The cost of one more rule: least squares up to 100 rules, and µs per "
                      "rule between one number of rules and the next.", "",
                      slopes.slope_table(section["slopes"])]
    return "\n".join(lines) + "\n"


def main():
    arguments = parse_arguments()
    run_arguments, parts = resolve(arguments)
    if not arguments.allow_busy:
        machine.require_quiet()
    machine.raise_file_limit()
    every = run_arguments.specs
    prefix = pathlib.Path(arguments.out or servers.BENCH / "out" / run.stamp())
    with machine.only_one():
        results, left_out = measure(run_arguments, parts, prefix)
    run_arguments.specs = every
    record = {**run.record_of(run_arguments, {}, left_out), "samples": results,
              "sections": sections(results, parts, arguments.keep)}
    pathlib.Path(f"{prefix}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    text = markdown(record)
    pathlib.Path(f"{prefix}.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\nwritten: {prefix}.json and {prefix}.md")
    if left_out:
        raise Broken("some servers were left out:\n  " + "\n  ".join(left_out))


if __name__ == "__main__":
    run.end_politely(main)
