"""Comparisons of a server with itself: how often a row is reported as different although nothing differs."""

import itertools
import json
from typing import Callable, Iterator

import evidence
from figure import Bar, Figure
from processes import run
from servers import EVENTS, HARDMETER, Playground


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Every way of dealing the runs to two sides of equal size."""
    runs = 4 if quick else 8
    server = playground.server("native")
    captures = []
    pgbench = [server.program("pgbench"), "-n", "-c", "4", "-t", "20" if quick else "50"]
    for number in range(runs):
        say(f"recording run {number + 1} of {runs}")
        capture = playground.folder / f"alike-{number}.data"
        record = [HARDMETER, "--quiet", "record", "--source", "simulated", "-e", EVENTS, "-o", capture]
        run([*record, "--server", server.folder, "--", *pgbench])
        captures.append(capture)
    judged = different = comparisons = 0
    halves = [side for side in itertools.combinations(range(runs), runs // 2) if 0 in side]
    for side in halves:
        comparisons += 1
        say(f"comparison {comparisons} of {len(halves)}")
        sides = [captures[one] for one in side], [captures[one] for one in range(runs) if one not in side]
        words = [HARDMETER, "--quiet", "compare", "--a", *sides[0], "--b", *sides[1], "--by", "function", "--format", "json"]
        for event in json.loads(run(words))["events"]:
            for table in event["tables"]:
                judged += table["judged"]
                different += table["different"]
    what = f"of the functions judged in {comparisons} comparisons of {runs} runs of one server with each other"
    share = 100 * different / max(1, judged)
    interval = evidence.share_interval(different, judged)
    interval = interval and (100 * interval[0], 100 * interval[1])
    yield Figure("alike: rows called different", share, "%", judged, what, Bar(5), interval)
