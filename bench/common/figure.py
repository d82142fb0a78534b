"""A measured figure: value, interval, bar; and the table of all figures."""

import json
import math
import random
from dataclasses import dataclass, field
from datetime import date
from typing import List, Optional, Sequence, TypeVar

import evidence
from evidence import Interval

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Bar:
    """The required limit of a figure."""

    limit: float
    at_most: bool = True

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass
class Figure:
    """One line of the result. Without a bar it is there for information."""

    name: str
    value: float
    unit: str
    n: int
    what: str
    bar: Optional[Bar] = None
    interval: Optional[Interval] = None
    blocks: Sequence[float] = field(default_factory=list)

    @staticmethod
    def of_blocks(name: str, blocks: Sequence[float], unit: str, what: str, bar: Optional[Bar] = None) -> "Figure":
        """The median over blocks."""
        value, interval = evidence.median(blocks)
        return Figure(
            name=name,
            value=value,
            unit=unit,
            n=len(blocks),
            what=what,
            bar=bar,
            interval=interval,
            blocks=list(blocks),
        )

    @property
    def verdict(self) -> Optional[str]:
        """`held` or `short`, by the value; None without a bar."""
        if self.bar is None:
            return None
        return "held" if self.bar.holds(self.value) else "short"

    @property
    def decided(self) -> Optional[bool]:
        """Whether the whole interval lies on one side of the bar; None without a bar or an interval."""
        if self.bar is None or self.interval is None:
            return None
        low, high = self.interval
        return self.bar.holds(low) == self.bar.holds(high)

    def as_line(self) -> str:
        """The figure as a line of the table; see HEADING."""
        interval = "-" if self.interval is None else "{}..{}".format(*map(number, self.interval))
        bar = "-" if self.bar is None else f"{'<=' if self.bar.at_most else '>='} {number(self.bar.limit)}"
        verdict = self.verdict or "-"
        if self.decided is False:
            verdict += ", undecided: the bar lies within the interval"
        return LINE.format(self.name, number(self.value), self.unit, interval, self.n, bar, verdict)

    def as_json(self) -> dict:
        return {
            "name": self.name,
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "interval_95": None if self.interval is None else {"low": self.interval[0], "high": self.interval[1]},
            "n": self.n,
            "bar": None if self.bar is None else {"at_most" if self.bar.at_most else "at_least": self.bar.limit},
            "verdict": self.verdict,
            "decided": self.decided,
            "blocks": list(self.blocks),
        }


LINE = "{:<42} {:>9} {:<8} {:>17} {:>6}  {:<9} {}"
HEADING = LINE.format("figure", "value", "unit", "95 % interval", "n", "bar", "verdict")


def number(value: float) -> str:
    """A number with three or four significant digits; large ones without decimals."""
    if value == 0:
        return "0"
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"


def interleaved(kinds: Sequence[Kind], chance: random.Random) -> List[Kind]:
    """The order of one block: each kind twice, the second half mirrored (ABBA), so that drift of the machine affects
    all equally. The first half is shuffled: no kind always follows the same one.
    """
    return [kinds[one] for one in evidence.interleaved_order(len(kinds), chance.getrandbits(63))]


def as_lines(part: str, figures: Sequence[Figure], machine: dict, quick: bool) -> str:
    """One line of JSON for each figure, for bench/results."""
    lines = []
    origin = {"quick": quick, "processor": machine["processor"], "date": date.today().isoformat()}
    for figure in figures:
        whole = figure.as_json()
        del whole["blocks"]
        lines.append(json.dumps({"part": part, **whole, **origin}))
    return "".join(line + "\n" for line in lines)


def as_json(name: str, figures: Sequence[Figure], machine: dict, quick: bool, not_measured: Sequence[str]) -> str:
    report = {
        "format": f"hardmeter-bench-{name}",
        "version": 1,
        "quick": quick,
        "machine": machine,
        "not_measured": list(not_measured),
        "figures": [figure.as_json() for figure in figures],
    }
    return json.dumps(report, indent=2)
