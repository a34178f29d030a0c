"""Medians and paired ratios with bootstrap intervals. The generator is seeded: the same samples give the same interval."""

import random
from statistics import median


def percentile(ordered, fraction):
    """Linear interpolation in a sorted list."""
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def bootstrap_median(samples, confidence=0.95, resamples=2000, seed=0):
    """(median, low, high): the median and its percentile bootstrap interval."""
    if not samples:
        raise ValueError("no samples")
    generator = random.Random(seed)
    count = len(samples)
    medians = sorted(median(generator.choices(samples, k=count)) for _ in range(resamples))
    tail = (1 - confidence) / 2
    return median(samples), percentile(medians, tail), percentile(medians, 1 - tail)


def paired_ratios(windows, base, other):
    """How much faster `other` is than `base`: one ratio of median times per pair of windows of one pass.

    `windows` maps (contestant, round, window) to the window's median launch time.
    """
    ratios = []
    for (name, round_index, window), base_us in sorted(windows.items()):
        other_us = windows.get((other, round_index, window))
        if name == base and other_us is not None:
            ratios.append(base_us / other_us)
    return ratios


def summarise(windows, flops, bases):
    """One row per contestant: median time, rate, and under `ratios` the paired (ratio, low, high) against each base."""
    rows = []
    for name in sorted({name for name, _, _ in windows}):
        times_us = [time_us for (owner, _, _), time_us in windows.items() if owner == name]
        row = {"contestant": name, "median_us": median(times_us), "windows": len(times_us)}
        row["tflops"] = flops / row["median_us"] / 1e6
        pairs = {base: paired_ratios(windows, base, name) for base in bases if base != name}
        row["ratios"] = {base: bootstrap_median(ratios) for base, ratios in pairs.items() if ratios}
        rows.append(row)
    return sorted(rows, key=lambda row: row["median_us"])


def ratio_text(ratio):
    """A ratio with its interval, or None."""
    return "{:.3f} [{:.3f}, {:.3f}]".format(*ratio) if ratio else None


def table(rows):
    """Rows of equal keys as aligned text."""
    if not rows:
        return "(nothing was timed)"
    columns = list(rows[0])
    cells = [columns] + [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)


def _cell(value):
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
