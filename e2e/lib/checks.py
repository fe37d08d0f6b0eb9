"""Runs checks, prints the result of each on a line, and counts results."""

import argparse
import os
import shutil
import sys


class Checks:
    """The checks of one script. `finish` prints the counts and exits: with 1 if a check failed."""

    def __init__(self):
        self.passed = self.failed = self.missed = 0
        self.args = None

    def topic(self, text):
        print(f"\n{text}", flush=True)

    def that(self, holds, what, detail=""):
        """Prints and counts one check: `what` is the sentence to hold, `detail` is printed if it
        does not. Returns whether it holds."""
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
        """Prints whether a target that depends on the machine was reached. A missed target is
        counted separately and is not a failure."""
        self.missed += not reached
        print(f"  {'ok' if reached else 'MISSED':<7} {text}", flush=True)

    def note(self, text):
        print(f"  --      {text}", flush=True)

    def run(self, case):
        """Runs one function of checks. An exception counts as one failed check."""
        self.topic(case.__doc__.splitlines()[0])
        try:
            case(self)
        except Exception as error:  # pylint: disable=broad-except
            where = error.__traceback__
            while where.tb_next:
                where = where.tb_next
            place = f"{os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno}"
            self.that(False, "the case runs to its end",
                      f"{type(error).__name__} at {place}: {error}")

    def finish(self):
        missed = f", {self.missed} targets missed" if self.missed else ""
        print(f"\n{self.passed} passed, {self.failed} failed{missed}")
        sys.exit(1 if self.failed else 0)


def main(about, cases, tools=(), options=()):
    """Parses the command line of a script and runs `cases`, or only the cases that it names.
    `options` are pairs of a name and the keyword arguments for `add_argument`; the parsed values
    are in `checks.args`."""
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
        sys.exit(f"these tools are needed but not installed: {', '.join(missing)}")
    checks = Checks()
    checks.args = args
    for name, case in names.items():
        if not args.case or name in args.case:
            checks.run(case)
    checks.finish()
