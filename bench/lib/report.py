"""Makes tables of samples: keeps the quietest runs, and computes median, minimum and maximum."""

import math
import statistics

from lib.errors import Usage

HEADINGS = ("server", "CPU µs/request", "min", "max", "Forebay ÷ this server", "requests/s",
            "p50 µs", "p99 µs", "switches/1000", "server cores", "other cores", "notes")
# A page has the latest results of a section between two lines, and nothing else there.
SECTIONS = ("results", "sites", "tls-h2")


def page_marks(section):
    return (f"<!-- {section}: written by bench/run.py --page -->", f"<!-- end of {section} -->")


PAGE_MARKS = page_marks("results")
# If other processes use more processors than this, a run is noisy.
FOREIGN_CORES_MAX = 0.10


def quietest(samples, keep_percent):
    """The runs with the least work of other processes; runs with a compiler come last."""
    order = sorted(samples, key=lambda s: (bool(s["compilers"]), s["foreign_cores"]))
    return order[:max(1, math.ceil(len(order) * keep_percent / 100))]


def summarise(samples, keep_percent):
    """The figures of one server under one workload."""
    kept = quietest(samples, keep_percent)
    median = lambda key: statistics.median(s.get(key, 0) for s in kept)
    us = [s["us"] for s in kept]
    return {"us": median("us"), "us_min": min(us), "us_max": max(us),
            **{key: median(key) for key in ("per_second", "p50_us", "p99_us", "switches",
                                            "server_cores", "foreign_cores")},
            "kept": len(kept), "runs": len(samples), "notes": _notes(kept)}


def _notes(kept):
    notes = sorted({problem for s in kept for problem in s["problems"]})
    if any(s["compilers"] for s in kept):
        notes.append("NOT QUOTABLE: a compiler ran")
    elif statistics.median(s["foreign_cores"] for s in kept) > FOREIGN_CORES_MAX:
        notes.append("noisy: other processes ran")
    if any(s.get("mlkem") for s in kept):
        notes.append("with X25519MLKEM768")
    if "resumed_percent" in kept[0]:
        percent = statistics.median(s["resumed_percent"] for s in kept)
        notes.append(f"{percent:.0f} % resumed")
    if "coded_bytes" in kept[0]:
        notes.append(f"{kept[0]['coded_bytes']:,} bytes compressed")
    if "hit_percent" in kept[0]:
        hit, miss = (statistics.median(s[key] for s in kept)
                     for key in ("hit_percent", "miss_p99_us"))
        notes.append(f"{hit:.1f} % hits, miss p99 {miss:,.0f} µs")
    return notes


def summaries(results, keep_percent):
    """The figures of each workload's servers, cheapest first, with Forebay's ratio to each."""
    tables = {}
    for workload, by_server in results.items():
        rows = {name: summarise(samples, keep_percent)
                for name, samples in by_server.items() if samples}
        forebay = rows.get("forebay")
        for row in rows.values():
            row["forebay_ratio"] = forebay["us"] / row["us"] if forebay and row["us"] else None
        tables[workload] = dict(sorted(rows.items(), key=lambda item: item[1]["us"]))
    return tables


def _row(name, row):
    ratio = "" if row["forebay_ratio"] is None else f"{row['forebay_ratio']:.2f}"
    cells = (name, f"**{row['us']:.2f}**", f"{row['us_min']:.2f}", f"{row['us_max']:.2f}", ratio,
             f"{row['per_second']:,.0f}", _latency(row["p50_us"]), _latency(row["p99_us"]),
             f"{row['switches']:,.0f}", f"{row['server_cores']:.2f}", f"{row['foreign_cores']:.2f}",
             "; ".join(row["notes"]))
    return f"| {' | '.join(cells)} |"


def _latency(us):
    """The text of a latency; 0 means that the load generator does not measure it."""
    return f"{us:,.0f}" if us else "–"


def table(rows):
    """One workload's table in Markdown."""
    rule = "|---|" + "--:|" * (len(HEADINGS) - 2) + "---|"
    return "\n".join([f"| {' | '.join(HEADINGS)} |", rule,
                      *(_row(name, row) for name, row in rows.items())])


def markdown(record, abouts):
    """The whole record as a page section: machine, versions, settings, command, tables."""
    lines = [f"- {key}: {value}" for key, value in record["machine"].items()]
    lines += [f"- {name}: {version}" for name, version in record["versions"].items()]
    lines += [f"- settings: {', '.join(f'{k} {v}' for k, v in record['settings'].items())}",
              "", "```", record["command"], "```"]
    lines += [f"- left out of {problem}" for problem in record["left out"]]
    for workload, rows in record["tables"].items():
        if not rows:
            continue
        kept = max(f"{row['kept']} quietest of {row['runs']}" for row in rows.values())
        lines += ["", f"### {workload}", "", f"{abouts[workload]}. Median of the {kept} runs."]
        if unable := record.get("unable", {}).get(workload):
            lines += ["", _not_compared(unable)]
        lines += ["", table(rows)]
    return "\n".join(lines) + "\n"


def _not_compared(unable):
    """A sentence that names the servers that cannot serve a workload, by their reasons."""
    servers = {}
    for server, reason in unable.items():
        servers.setdefault(reason, []).append(server)
    return "Not compared: " + "; ".join(f"{', '.join(names)} ({reason})"
                                        for reason, names in servers.items()) + "."


def check_page(path, marks=PAGE_MARKS):
    """The page's text before and after its results; raises Usage without result marks."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Usage(f"cannot read the page: {error}") from error
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise Usage(f"{path} has no place for results: the line {marks[0]!r}, then {marks[1]!r}")
    return before, after


def fill_page(path, text, marks=PAGE_MARKS):
    """Replaces the results in a page."""
    before, after = check_page(path, marks)
    begin, end = marks
    path.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")
