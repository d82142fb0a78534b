"""Figure 3's line of records, until today. The available copy of the article has only the last two of its points,
in the text."""

import math
from dataclasses import dataclass


@dataclass
class Record:
    year: float
    rate: float
    name: str
    source: str
    ours: bool = False


# "article": in the article; "read": read in a source; "memory": not verified. Values are rounded where the sources
# round.
RECORDS = [
    Record(2001.6, 455_818, "128 CPUs, one system", "article"),
    Record(2001.7, 709_220, "32 nodes of 8 CPUs", "article"),
    Record(2019, 60.88e6, "OceanBase", "read"),
    Record(2020, 707e6, "OceanBase", "memory"),
    Record(2023, 814e6, "TDSQL", "memory"),
    Record(2025, 2.055e9, "PolarDB, 2,340 nodes", "read"),
]


def svg(records, title):
    """Draws rates by year on a logarithmic scale. Filled: published TPC results; hollow: Hardmeter's own, which is
    not a TPC result.
    """
    width, height, left, right, top, bottom = 760, 420, 110, 30, 50, 50
    years = (2000, math.ceil(max(record.year for record in records) + 1))
    decades = (
        math.floor(math.log10(min(record.rate for record in records))),
        math.ceil(math.log10(max(record.rate for record in records)) + 0.2),
    )
    at_x = lambda year: left + (year - years[0]) / (years[1] - years[0]) * (width - left - right)  # noqa: E731
    span = decades[1] - decades[0]
    at_y = lambda rate: height - bottom - (math.log10(rate) - decades[0]) / span * (height - top - bottom)  # noqa: E731
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="24" font-size="15">{escaped(title)}</text>',
    ]
    for decade in range(decades[0], decades[1] + 1):
        y = at_y(10**decade)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10**decade:,}</text>')
    for year in range(years[0], years[1] + 1, 5):
        x = at_x(year)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}" stroke="#eee"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{year}</text>')
    published = [record for record in records if not record.ours]
    line = " ".join(f"{at_x(one.year):.1f},{at_y(one.rate):.1f}" for one in sorted(published, key=lambda one: one.year))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#888" stroke-dasharray="4 3"/>')
    labels = []  # over all other marks
    below = {True: -math.inf, False: -math.inf}  # where the last label ended, at the left and at the right of its point
    for record in sorted(records, key=lambda one: -one.rate):
        x, y = at_x(record.year), at_y(record.rate)
        fill = "white" if record.ours else "#1f5fa8"
        stroke = "#b3261e" if record.ours else "#1f5fa8"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{stroke}" stroke-width="2"/>')
        to_left = x > width / 2
        label = f"{record.name}: {record.rate:,.0f}" + (" (not verified)" if record.source == "memory" else "")
        anchor, dx = ("end", -9) if to_left else ("start", 9)
        below[to_left] = max(y + 4, below[to_left] + 14)
        halo = 'stroke="white" stroke-width="3" paint-order="stroke"'
        labels.append(f'<text x="{x + dx:.1f}" y="{below[to_left]:.1f}" text-anchor="{anchor}" {halo}>{escaped(label)}</text>')
    note = "Filled: published TPC-C results. Hollow: this project's New-Orders a minute, which is derived from TPC-C and no TPC result."
    parts.append(f'<text x="{left}" y="{height - 10}" font-size="10">{escaped(note)}</text>')
    return "\n".join([*parts, *labels, "</svg>", ""])


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")
