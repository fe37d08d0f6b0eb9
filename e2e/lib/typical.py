"""Typical configurations of another server: each is imported, and both servers answer the same
requests. `typical_NAME.py` has a function NAME, which the script `import-typical` calls."""

import dataclasses
import json
import pathlib
import shutil
import subprocess

from .answers import Side, Table
from .servers import Forebay, binary

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "import.d" / "typical"


@dataclasses.dataclass
class Typical:
    """A configuration, the requests to compare, and the reasons of this configuration alone."""

    name: str
    requests: list
    # Entries of the list that the import may print.
    notes_max: int
    reasons: list = dataclasses.field(default_factory=list)
    # Fields that are compared in addition to `answers.FIELDS`.
    fields: tuple = ()


def is_installed(checks, program):
    """Whether the program is installed. It must be, if the script is told to compare with it."""
    if shutil.which(program):
        return True
    if checks.args.case:
        checks.that(False, f"{program} is installed")
    else:
        checks.note(f"left out: {program} is not installed")
    return False


def filled(text, words):
    """The text with the words in @ replaced."""
    for name, value in words.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def imported(checks, kind, paths, toml, *flags):
    """Runs `forebay import KIND`, prints its list, and returns it."""
    done = subprocess.run([binary(), "import", kind, *map(str, paths), "--output", str(toml),
                           "--json", *flags], capture_output=True, text=True, check=False)
    if not pathlib.Path(toml).exists():
        raise RuntimeError(f"the import failed: {done.stdout}{done.stderr}")
    notes = json.loads(done.stdout)["notes"]
    for note in notes:
        checks.note(f"{pathlib.Path(note['file']).name}:{note['line']}: {note['directive']}: "
                    f"{note['message']}")
    return notes


def compare(checks, typical, theirs, toml, common, origins=None, flags=()):
    """Starts Forebay with the imported file, and sends the requests to both. `theirs` is the `Side`
    of the other server, and `origins` are those of Forebay. `common` are reasons that need not
    explain a difference of each configuration."""
    with Forebay("--config", str(toml), *flags) as forebay:
        ours = Side(forebay.port, 0, origins)
        table = Table(checks, [*typical.reasons, *common], typical.fields)
        for request in typical.requests:
            for _ in range(request.times):
                table.compare(request, theirs.ask(request), ours.ask(request))
        checks.that(20 <= table.count <= 120, f"{typical.name}: {table.count} requests were sent")
        table.finish({typical.name})
