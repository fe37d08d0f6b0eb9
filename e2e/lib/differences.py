"""Reads the list of differences between Forebay and the recordings. An entry has this form:

    ### NAME SCOPE REQUEST        REQUEST is a number from 1 on, or `load`
    The reason.
    ```diff
    - line of the recording
    + line of Forebay
    ```

A heading may name several requests, separated by commas, if the same lines differ in all of them.
"""

import difflib
import re

HEADING = re.compile(r"### (.+)")


def diff(recorded, seen):
    """The lines that only one side has. Comments in the recording, which are log lines of Traffic
    Server, are ignored."""
    recorded = [line for line in recorded if not line.startswith("#")]
    return [line for line in difflib.ndiff(recorded, seen) if line[0] in "+-"]


def shown(name, scope, number, lines):
    """The text of an entry for the list, with `(why)` for the reason."""
    return "\n".join([f"### {name} {scope} {number}", "(why)", "```diff", *lines, "```"])


class List:
    """The listed differences by name, scope and request, and the problems of the list."""

    def __init__(self, path):
        self.entries, self.problems = {}, []
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for part in re.split(r"^(?=### )", text, flags=re.MULTILINE)[1:]:
            self._entry(part.splitlines())

    def _entry(self, lines):
        keys = [tuple(key.split()) for key in HEADING.match(lines[0])[1].split(",")]
        begin = lines.index("```diff") if "```diff" in lines else len(lines)
        end = lines.index("```", begin) if "```" in lines[begin:] else len(lines)
        reason = " ".join(lines[1:begin]).strip()
        if begin == len(lines) or end == len(lines) or reason in ("", "(why)"):
            self.problems.append(f"{lines[0]}: the entry has no reason or no whole ```diff block")
        for key in keys:
            if len(key) != 3 or key in self.entries:
                self.problems.append(f"{lines[0]}: {' '.join(key)} is not NAME SCOPE REQUEST, or "
                                     "is listed twice")
            else:
                self.entries[key] = lines[begin + 1:end]

    def expected(self, *key):
        return self.entries.get(key, [])
