"""The cost of one more rule: straight lines through the CPU times over the number of rules."""

import statistics

HEADINGS = ("server", "µs at 0", "µs per rule", "R²")


def line(points):
    """Least squares through (count, µs): slope, value at 0, and R² (None if all µs are equal)."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    at_zero = mean_y - slope * mean_x
    total = sum((y - mean_y) ** 2 for y in ys)
    rest = sum((y - at_zero - slope * x) ** 2 for x, y in points)
    return slope, at_zero, (1 - rest / total if total else None)


def segments(points):
    """µs per rule between neighbouring counts, which show whether the line bends."""
    known = dict(points)
    bends = [count for count in (0, 16, 64, 100, 400) if count in known]
    return [(low, high, (known[high] - known[low]) / (high - low))
            for low, high in zip(bends, bends[1:])]


def summarise(points):
    """Points, line and segments for the record. The line uses the counts up to 100."""
    points = sorted(points)
    common = [point for point in points if point[0] <= 100]
    if len(common) < 2:
        return None
    slope, at_zero, fit = line(common)
    return {"points": points, "slope_us": slope, "at_zero_us": at_zero, "r2": fit,
            "segments": [{"from": low, "to": high, "us": us}
                         for low, high, us in segments(points)]}


def _table(headings, rows):
    rule = "|---|" + "--:|" * (len(headings) - 1)
    return "\n".join(f"| {' | '.join(row)} |" if row else rule for row in (headings, None, *rows))


def slope_table(by_server):
    """Slope, R² and segments of each server."""
    spans = sorted({(s["from"], s["to"]) for one in by_server.values() for s in one["segments"]})
    headings = (*HEADINGS, *(f"{low}→{high}" for low, high in spans))
    rows = []
    for name, one in sorted(by_server.items(), key=lambda item: item[1]["slope_us"]):
        fit = "" if one["r2"] is None else f"{one['r2']:.3f}"
        segment = {(s["from"], s["to"]): f"{s['us']:.3f}" for s in one["segments"]}
        rows.append((name, f"{one['at_zero_us']:.2f}", f"**{one['slope_us']:.3f}**", fit,
                     *(segment.get(span, "") for span in spans)))
    return _table(headings, rows)


def count_table(by_server):
    """CPU µs of a request at each number of rules: median (min-max)."""
    counts = sorted({count for rows in by_server.values() for count in rows})
    rows = []
    for name, cells in by_server.items():
        texts = [f"{c['us']:.2f} ({c['us_min']:.2f}-{c['us_max']:.2f})"
                 + ("†" if c["notes"] else "") if (c := cells.get(count)) else ""
                 for count in counts]
        rows.append((name, *texts))
    return _table(("server", *(f"{count} rules" for count in counts)), rows)
