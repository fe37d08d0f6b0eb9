#!/usr/bin/env python3
"""Measures the cost of reading when many threads read, and writes tables and a chart of it.

The driver counts conflicts (bench/conflict/run), which works on any machine, and then times the
locks (the program `readers`), which needs a quiet machine. readers/README.md explains the figures.
"""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

from lib import chart, machine, report
from lib.errors import Broken, Usage

BENCH = pathlib.Path(__file__).resolve().parent
PAGE_MARKS = ("<!-- results: written by bench/readers.py --page -->", "<!-- end of results -->")
CK_HEADER = b"#include <ck_rwlock.h>\n"
EXAMPLES = """
examples:
  readers.py --page ../docs/readers.md              all figures: the form to quote
  readers.py --rounds 3 --allow-busy                a quick trial
  readers.py --from out/readers-20260101-120000.json --page ../docs/readers.md
                                                    write page and chart of an earlier run
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=41, help="samples of each figure (41)")
    add("--threads-max", type=int, default=64,
        help="measure on 1, 2, 4, ... threads, up to this number (64)")
    add("--out", metavar="PREFIX", help="write PREFIX.json, .md and .svg (bench/out/readers-TIME)")
    add("--page", metavar="FILE",
        help="also write the tables into FILE, between its result marks, and the chart beside it")
    add("--from", dest="earlier", metavar="JSON",
        help="measure nothing; use the results of an earlier run")
    add("--allow-busy", action="store_true",
        help="run even if compilers or other processes run: no figure is quotable")
    arguments = parser.parse_args()
    if arguments.page:
        if arguments.allow_busy:
            raise Usage("--page needs figures that can be quoted, so it excludes --allow-busy")
        report.check_page(pathlib.Path(arguments.page), PAGE_MARKS)
    return arguments


def run(command, **more):
    """The standard output of one of our commands; its standard error goes to the terminal."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          check=False, **more)
    if done.returncode != 0:
        raise Broken(f"{shlex.join(map(str, command))} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def has_ck():
    """Whether Concurrency Kit's header can be compiled."""
    compiler = [os.environ.get("CC", "cc"), "-E", "-x", "c", "-"]
    try:
        done = subprocess.run(compiler, input=CK_HEADER, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def build():
    """Builds the program, with ck_rwlock if Concurrency Kit is installed, and returns its path."""
    features = ["--features", "ck"] if has_ck() else []
    if not features:
        print("ck_rwlock is left out; to include it: apt-get install libck-dev", file=sys.stderr)
    run(["cargo", "build", "--release", "-p", "forebay-readers", *features], cwd=BENCH)
    return BENCH / "target/release/readers"


def measure(arguments, prefix):
    """Counts the conflicts, then times the locks; returns the record for the page."""
    conflicts = run([BENCH / "conflict/run"], cwd=BENCH)
    program = build()
    if not arguments.allow_busy:
        machine.require_quiet()
    with machine.only_one():
        tables = run([program, "--rounds", arguments.rounds, "--threads-max",
                      arguments.threads_max, "--json", f"{prefix}.json"])
    record = json.loads(pathlib.Path(f"{prefix}.json").read_text(encoding="utf-8"))
    return {**record, "machine": machine.describe(), "tables": tables, "conflicts": conflicts,
            "command": shlex.join(["bench/readers.py", *sys.argv[1:]]),
            "compiler": run(["rustc", "--version"], cwd=BENCH).strip(),
            "quotable": not arguments.allow_busy}


def markdown(record, picture):
    """The record as a section of the page."""
    about = [f"- {key}: {value}" for key, value in record["machine"].items()]
    settings = f"{record['rounds']} rounds in random order, seed {record['seed']}"
    busy = [] if record["quotable"] else ["- NOT QUOTABLE: other processes were allowed to run"]
    return "\n".join([
        *about, f"- compiler: {record['compiler']}", f"- {settings}", *busy,
        "", "```", record["command"], "```", "", f"![Completion time over threads]({picture})", "",
        "### Conflicts for each operation", "", record["conflicts"], record["tables"]])


def write(record, prefix):
    """Writes the files of the run, and prints its tables."""
    pathlib.Path(f"{prefix}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    pathlib.Path(f"{prefix}.svg").write_text(chart.draw(record), encoding="utf-8")
    text = markdown(record, f"{prefix.name}.svg")
    pathlib.Path(f"{prefix}.md").write_text(text, encoding="utf-8")
    print(f"{text}\nwritten: {prefix}.json, .md and .svg")


def fill_page(record, page):
    if not record["quotable"]:
        raise Usage("this run cannot be quoted: other processes were allowed to run")
    picture = page.with_suffix(".svg")
    picture.write_text(chart.draw(record), encoding="utf-8")
    report.fill_page(page, markdown(record, picture.name), PAGE_MARKS)


def earlier(path):
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Usage(f"cannot read {path}: {error}") from error


def main():
    arguments = parse_arguments()
    if arguments.earlier:
        record = earlier(arguments.earlier)
    else:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        prefix = pathlib.Path(arguments.out or BENCH / "out" / f"readers-{stamp}")
        prefix.parent.mkdir(parents=True, exist_ok=True)
        record = measure(arguments, prefix)
        write(record, prefix)
    if arguments.page:
        fill_page(record, pathlib.Path(arguments.page))


if __name__ == "__main__":
    # SIGTERM must end the driver as an exception does, so that its cleanup runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except (Usage, Broken) as problem:
        sys.exit(f"readers.py: {problem}")
    except KeyboardInterrupt:
        sys.exit("readers.py: interrupted")
