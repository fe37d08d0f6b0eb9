"""Counts what holds and what does not, and says so line by line."""

import argparse
import os
import shutil
import sys


class Checks:
    """The checks of one script. `finish` ends it with a sum and an exit code."""

    def __init__(self):
        self.passed = self.failed = self.missed = 0
        self.args = None

    def topic(self, text):
        print(f"\n{text}", flush=True)

    def that(self, holds, what, detail=""):
        """One check: `what` is a sentence that should hold, `detail` what was seen instead."""
        if holds:
            self.passed += 1
            print(f"  ok      {what}", flush=True)
        else:
            self.failed += 1
            print(f"  FAILED  {what}: {detail}", flush=True)
        return bool(holds)

    def same(self, seen, expected, what):
        return self.that(seen == expected, what, f"expected {expected!r}, saw {seen!r}")

    def aim(self, reached, text):
        """A number that depends on the machine: that it was missed is said, and is no failure."""
        self.missed += not reached
        print(f"  {'ok' if reached else 'MISSED':<7} {text}", flush=True)

    def note(self, text):
        print(f"  --      {text}", flush=True)

    def run(self, case):
        """Runs one function of checks; an exception in it is a failure, not the end."""
        self.topic(case.__doc__.splitlines()[0])
        try:
            case(self)
        except Exception as error:  # pylint: disable=broad-except
            where = error.__traceback__
            while where.tb_next:
                where = where.tb_next
            place = f"{os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno}"
            self.that(False, "runs to its end", f"{type(error).__name__} at {place}: {error}")

    def finish(self):
        missed = f", {self.missed} aims missed" if self.missed else ""
        print(f"\n{self.passed} passed, {self.failed} failed{missed}")
        sys.exit(1 if self.failed else 0)


def main(about, cases, tools=(), options=()):
    """The command line of a script: runs `cases`, or those whose names were given. `options` are
    names of its own with what argparse has to know; their values are in `checks.args`."""
    names = {case.__name__: case for case in cases}
    listed = "\n".join(f"  {name:<22} {case.__doc__.splitlines()[0]}"
                       for name, case in names.items())
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"cases:\n{listed}\n\nneeds: forebay (built, or $FOREBAY), python3"
               + "".join(f", {tool}" for tool in tools))
    parser.add_argument("case", nargs="*", metavar="CASE", help="run only these cases")
    for name, about_it in options:
        parser.add_argument(name, **about_it)
    args = parser.parse_args()
    unknown = [name for name in args.case if name not in names]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        sys.exit(f"these tools are needed and not here: {', '.join(missing)}")
    checks = Checks()
    checks.args = args
    for name, case in names.items():
        if not args.case or name in args.case:
            checks.run(case)
    checks.finish()
