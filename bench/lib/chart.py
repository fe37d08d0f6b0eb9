"""Draws completion times over threads as SVG: both axes are logarithmic, and each line is labelled.

`python3 -m lib.chart IN.json OUT.svg`, in bench/, draws the samples of an earlier run.
"""

import html
import json
import math
import pathlib
import statistics
import sys

WIDTH, HEIGHT = 820, 490
LEFT, RIGHT, TOP, BOTTOM = 72, 190, 84, 66
LABEL_HEIGHT = 18
# Two colours for each line, for light and for dark backgrounds, in the order of the lines.
COLOURS = (("#a3591f", "#e0a070"), ("#8a6d00", "#d3b94a"), ("#6b6b74", "#a9a9b4"),
           ("#a0407f", "#e08cc4"), ("#2f6fb5", "#7fb4ea"), ("#00796b", "#4dc9b6"),
           ("#c2281d", "#ff8a7a"))
# Lines whose names begin with this are drawn thicker.
STRONG = "Bravo"


class Line:
    """One lock's line: the median and the quartiles at each number of threads."""

    def __init__(self, name, samples_by_threads):
        self.name = name
        self.threads = sorted(samples_by_threads)
        cuts = [quartiles(samples_by_threads[threads]) for threads in self.threads]
        self.low, self.median, self.high = zip(*cuts)


def quartiles(samples):
    if len(samples) == 1:
        return samples * 3
    return statistics.quantiles(samples, n=4, method="inclusive")


def lines_of(record, write_percent):
    """The lines for one percentage of writes, in the order of the record."""
    by_lock = {}
    for case in record["samples"]:
        if case["figure"] == "completion_ns" and case["write_percent"] == write_percent:
            by_lock.setdefault(case["lock"], {})[case["threads"]] = case["samples"]
    return [Line(lock, samples) for lock, samples in by_lock.items()]


class Plane:
    """Converts threads and nanoseconds to coordinates."""

    def __init__(self, lines):
        self.threads = sorted({threads for line in lines for threads in line.threads})
        self.ns_min = min(ns for line in lines for ns in line.low) / 1.3
        self.ns_max = max(ns for line in lines for ns in line.high) * 1.3

    def x(self, threads):
        doublings = math.log2(self.threads[-1] / self.threads[0]) or 1
        return LEFT + math.log2(threads / self.threads[0]) / doublings * (WIDTH - LEFT - RIGHT)

    def y(self, ns):
        share = math.log(ns / self.ns_min) / math.log(self.ns_max / self.ns_min)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def ticks(self):
        """The multiples 1, 2 and 5 of each power of ten that lie in the plane."""
        powers = range(math.floor(math.log10(self.ns_min)), math.ceil(math.log10(self.ns_max)))
        steps = (step * 10.0 ** power for power in powers for step in (1, 2, 5))
        return [ns for ns in steps if self.ns_min <= ns <= self.ns_max]


def draw(record, write_percent=0.0):
    """The chart for one percentage of writes."""
    lines = lines_of(record, write_percent)
    plane = Plane(lines)
    parts = [_style(len(lines)), f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
             *_titles(record, write_percent), *_axes(plane), *_processors(plane, record)]
    parts += [_band(plane, line, index) for index, line in enumerate(lines)]
    parts += [part for index, line in enumerate(lines) for part in _line(plane, line, index)]
    parts += _labels(plane, lines)
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" '
            f'aria-label="Completion time over threads">\n{body}\n</svg>\n')


def _style(count):
    shared = """text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.title { font-size: 17px; font-weight: 600; }
.name { font-weight: 500; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.strong.line { stroke-width: 3; }
.strong.name { font-weight: 700; }
.band { stroke: none; opacity: 0.16; }
.lead { fill: none; stroke-width: 1; opacity: 0.6; }
.grid { stroke-width: 1; }
.limit { stroke-width: 1; stroke-dasharray: 4 4; }"""
    light, dark = (_palette(shade, count) for shade in (0, 1))
    return (f"<style>\n{shared}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
            "</style>")


def _palette(shade, count):
    ground, ink, faint, grid = (("#ffffff", "#1f2328", "#59636e", "#e4e7eb"),
                                ("#14181d", "#e6edf3", "#9aa4af", "#2b323b"))[shade]
    rules = [f".ground {{ fill: {ground}; }}", f"text {{ fill: {ink}; }}",
             f"text.faint {{ fill: {faint}; }}", f".grid {{ stroke: {grid}; }}",
             f".limit {{ stroke: {faint}; }}"]
    for index in range(count):
        colour = COLOURS[index % len(COLOURS)][shade]
        rules += [f".line.c{index}, .lead.c{index} {{ stroke: {colour}; }}",
                  f".band.c{index}, .dot.c{index}, text.c{index} {{ fill: {colour}; }}"]
    return "\n".join(rules)


def _text(x, y, content, css="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">'
            f"{html.escape(content)}</text>")


def _titles(record, write_percent):
    what = "reads" if write_percent == 0 else f"operations, {write_percent:g} % writes,"
    about = record.get("machine", {}).get("processor", f"{record['processors']} processors")
    return [_text(LEFT - 52, 32, f"{record['operations']:,} {what} on each thread of one lock",
                  "title"),
            _text(LEFT - 52, 54, f"Completion time, less is better. Median and quartiles of "
                  f"{record['rounds']} rounds; {about}", "faint")]


def _axes(plane):
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for ns in plane.ticks():
        y = plane.y(ns)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 10, y + 4, duration(ns), "faint", "end")
    for threads in plane.threads:
        yield _text(plane.x(threads), bottom + 22, str(threads), "faint", "middle")
    yield _text((LEFT + right) / 2, bottom + 46, "threads", "faint", "middle")


def duration(ns):
    return f"{ns / 1e6:g} ms" if ns >= 1e6 else f"{ns / 1e3:g} µs"


def _processors(plane, record):
    """A vertical line at the number of processors, beyond which threads take turns."""
    count = record["processors"]
    if not plane.threads[0] <= count < plane.threads[-1]:
        return []
    x = plane.x(count)
    return [f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
            _text(x + 7, TOP + 12, f"{count} processors: right of here threads take turns",
                  "faint")]


def _css(kind, line, index):
    strong = "strong " if line.name.startswith(STRONG) else ""
    return f"{strong}{kind} c{index}"


def _points(plane, threads, values):
    return " ".join(f"{plane.x(t):.1f},{plane.y(ns):.1f}" for t, ns in zip(threads, values))


def _band(plane, line, index):
    there = _points(plane, line.threads, line.high)
    back = _points(plane, line.threads[::-1], line.low[::-1])
    return f'<polygon class="{_css("band", line, index)}" points="{there} {back}"/>'


def _line(plane, line, index):
    points = _points(plane, line.threads, line.median)
    yield f'<polyline class="{_css("line", line, index)}" points="{points}"/>'
    radius = 3.6 if line.name.startswith(STRONG) else 2.6
    for threads, ns in zip(line.threads, line.median):
        yield (f'<circle class="dot c{index}" r="{radius}" cx="{plane.x(threads):.1f}" '
               f'cy="{plane.y(ns):.1f}"/>')


def _labels(plane, lines):
    """The name of each line beside its end, moved so that no two names overlap."""
    ends = [plane.y(line.median[-1]) for line in lines]
    for index, (line, end, y) in enumerate(zip(lines, ends, spread(ends, LABEL_HEIGHT))):
        x = plane.x(line.threads[-1])
        yield (f'<path class="lead c{index}" d="M{x + 5:.1f},{end:.1f} '
               f'L{x + 20:.1f},{y:.1f}"/>')
        yield _text(x + 24, y + 4.5, line.name, _css("name", line, index))


def spread(wanted, distance):
    """Positions in the order of the wanted ones, no two nearer than `distance`. Only positions that
    would overlap are moved: such a group is laid out around its middle."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups = []
    for i in order:
        groups.append([wanted[i], 1])
        while len(groups) > 1 and _overlap(*groups[-2:], distance):
            (middle, count), (last_middle, last_count) = groups[-2:]
            both = count + last_count
            groups[-2:] = [[(middle * count + last_middle * last_count) / both, both]]
    places = [middle + (k - (count - 1) / 2) * distance
              for middle, count in groups for k in range(count)]
    result = [0.0] * len(wanted)
    for i, place in zip(order, places):
        result[i] = place
    return result


def _overlap(upper, lower, distance):
    return lower[0] - upper[0] < (upper[1] + lower[1]) / 2 * distance


if __name__ == "__main__":
    source, target = map(pathlib.Path, sys.argv[1:])
    target.write_text(draw(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
