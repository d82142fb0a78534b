"""Shares of objects and of statements by ghosts against those by source `simulated`, on the same load and server."""

import json
import math
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

import ghosts
import loads
import works
from figure import Bar, Figure
from processes import run
from servers import HARDMETER, Playground, Server

Say = Callable[[str], None]
# An execution of these statements has some six system calls, and all of these stretches are of one statement.
STRETCHES = 6


@dataclass
class Shares:
    """Shares by name."""

    of: Dict[Tuple[str, str], float]
    samples: int
    independent: int
    """What was drawn independently: samples; of statements that were followed, their executions."""


# Event, periods of ghosts and of the simulation, title, the number of points that shares may be apart.
COMPARED: Sequence[Tuple[str, int, int, str, float]] = (
    ("loads", 211, 2003, "loads", 2.0),
    ("stores", 211, 2003, "stores", 2.0),
    ("l1d-miss", 0, 101, "L1D misses", 5.0),
    ("l2-miss", 0, 11, "L2 misses", 6.0),
)


def measure(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Half the sum of absolute differences of shares, per event."""
    # Statements of few executions are followed: in a minute some 200, whose shares differ by 5 points by chance.
    followed_for, seconds, work = (10, 10, works.MIX) if quick else (300, 60, works.MIX)
    with works.of(playground, work).running() as server:
        followed = _shares(server, work, ["--ghosts", "-e", _events(1)], followed_for, say)
        simulated = _shares(server, work, [*works.SIMULATED, "-e", _events(2)], seconds, say)
    for event, _, _, title, most in COMPARED:
        for of, one, other in zip(("objects", "statements"), followed[event], simulated[event]):
            what = f"by samples of ghosts, {other.samples} of the simulation; {work.name} that only read, {works.CLIENTS} clients"
            yield Figure(f"{of} of {title}: total variation", apart(one, other), "points", one.samples, what, Bar(most))
            what = f"expected of equal shares, {one.independent} and {other.independent} drawn independently"
            yield Figure(f"{of} of {title}: floor", floor(one, other), "points", one.independent, what)


def apart(one: Shares, other: Shares) -> float:
    """Total variation, in points."""
    return 50 * sum(abs(one.of.get(name, 0) - other.of.get(name, 0)) for name in {*one.of, *other.of})


def floor(one: Shares, other: Shares) -> float:
    """The total variation in points that draws of this number have on average, if the shares are the same."""
    n, m, total = one.independent, other.independent, 0.0
    for name in {*one.of, *other.of}:
        share = (one.of.get(name, 0) * n + other.of.get(name, 0) * m) / (n + m)
        # The mean absolute value of a normal variable is sqrt(2 / pi) of its deviation.
        total += math.sqrt(2 / math.pi * share * (1 - share) * (1 / n + 1 / m))
    return 50 * total


def _events(of: int) -> str:
    return ",".join(one[0] + (f"/period={one[of]}/" if one[of] else "") for one in COMPARED)  # type: ignore[misc]


def _shares(server: Server, work: works.Work, source: Sequence[object], seconds: int, say: Say) -> Dict[str, List[Shares]]:
    """Of each event the shares of objects and those of statements."""
    works.record(server, work, source, seconds, say)
    notes = ghosts._sidecar(server.capture).get("ghosts")
    report = json.loads(run([HARDMETER, "queries", "--all", "--format", "json", "-i", server.capture]))
    statements = {table["event"]: _statements(table) for table in report["tables"]}
    objects = {event: ghosts._comparable(table) for event, table in ghosts._tables(server).items()}
    found: Dict[str, List[Shares]] = {}
    for event, *_ in COMPARED:
        found[event] = []
        for tables in (objects, statements):
            samples = sum(row["count"] for row in tables[event]["rows"])
            drawn = samples
            if notes and tables is statements:
                counted = notes["stretches"]["same"] + notes["stretches"]["unchecked"] - notes["run_in_stretches"]
                drawn = counted // STRETCHES
            found[event].append(Shares(loads._by_name(tables[event], ghosts._count), samples, max(1, min(drawn, samples))))
    return found


def _statements(table: dict) -> dict:
    """The table of statements in the form of that of objects, without processes that execute none."""
    return {**table, "rows": [{**row, "class": "", "name": row["statement"]} for row in table["rows"] if "statement_id" in row]}
