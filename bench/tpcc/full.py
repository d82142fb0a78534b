"""A run by the specification: 100 warehouses, 1,000 terminals with keying and think times, ten minutes."""

import os
from collections import Counter
from typing import Callable, List

from database import Database, run_tpcc
from figure import Bar, Figure
from servers import Playground
from terminals import shown

CEILING = 12.86  # New-Orders per minute and warehouse if every answer were immediate (clause 4.2)


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The distance from the ceiling, and the verdicts."""
    warehouses = int(os.environ.get("HARDMETER_BENCH_WAREHOUSES", "2" if quick else "100"))
    ramp, interval = ("10s", "10s") if quick else ("3m", "10m")
    database = Database(playground, "full")
    say(f"loading {warehouses} warehouses")
    database.tpcc("load", "--warehouses", str(warehouses))
    say(f"running {10 * warehouses} terminals: {ramp} to get going, {interval} measured, then the twelve conditions")
    # A run with less than 100 warehouses uses decks, whose ceiling is lower: no bar applies to it.
    bar = None if quick else Bar(0.98 * CEILING, at_most=False)
    one = run_tpcc(database, "--ramp", ramp, "--interval", interval, check=True)
    verdicts = shown(one.file)["verdicts"]
    ends = Counter(verdict["outcome"] for verdict in verdicts)
    short = [f"{verdict['name']} ({verdict['clause']})" for verdict in verdicts if verdict["outcome"] == "short"]
    thinking = [verdict["value"] for verdict in verdicts if verdict["unit"] == "p" and "think" in verdict["name"].lower()]
    orders = one.completed()
    rate = orders * 60 / one.result["measured_seconds"] / warehouses
    figures = [
        Figure("New-Orders a minute and warehouse", rate, "/min", orders, f"{10 * warehouses} terminals", bar),
        Figure("the same, of the ceiling", 100 * rate / CEILING, "%", orders, f"of {CEILING}"),
        Figure("verdicts short", len(short), "", len(verdicts), ", ".join(short) or "none", Bar(0)),
        Figure("driver", one.driver_cpu(), "s/1000", orders, "CPU seconds per 1000 New-Orders: ticks of a slow run, too"),
    ]
    for outcome in ("held", "undecided", "deviation", "not-applicable"):
        figures.append(Figure(f"verdicts {outcome}", ends[outcome], "", len(verdicts), "as the report says"))
    if thinking:
        what = "the smallest p of think times against their distribution, Kolmogorov-Smirnov"
        figures.append(Figure("think times, smallest p", min(thinking), "", len(thinking), what, Bar(0.01, at_most=False)))
    return figures
