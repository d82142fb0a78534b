"""The 22 queries of TPC-H at scale 1 by stock PostgreSQL and with the extension, in turn: times and answers."""

from typing import Callable, List

import tpch
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

SLOWER = 1.02


def index_friendly(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """With costs that favour indexes."""
    return _measure("index-friendly", playground, quick, say)


def default(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """With the default cost of random pages, and without bitmap scans."""
    return _measure("default", playground, quick, say)


def _measure(preset: str, playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    scale, blocks = ("0.1", "1") if quick else ("1", "6")
    server = tpch.server(playground, scale, say)
    with server.running():
        say(f"22 queries at scale {scale}, settings {preset}, {blocks} blocks")
        variants = tpch.Extension(playground).variants()
        report = server.tpch("--settings", preset, "--blocks", blocks, *variants)
    return _figures(preset, report)


def _figures(preset: str, report: dict) -> List[Figure]:
    failed = [query for query in report["queries"] if query["failure"]]
    if failed:
        first = failed[0]["failure"]
        raise Trouble(f"Q{failed[0]['query']} failed in variant {first['variant']}: {first['reason']}")
    total = report["totals"][1]
    ratios = {query["query"]: query["variants"][1]["ratio"] for query in report["queries"]}
    worst, _ = total["worst"]
    return [
        _ratio(f"{preset}: total", total["ratio"], "CPU time of all 22 queries, to stock", 0.50),
        _ratio(f"{preset}: geometric mean", total["geometric_mean"], "of the 22 ratios to stock", 0.65),
        _ratio(f"{preset}: worst, Q{worst}", ratios[worst], "the query with the largest ratio to stock", SLOWER),
        Figure(
            f"{preset}: queries above {SLOWER}",
            len(total["slower"]),
            "",
            len(ratios),
            f"queries whose median ratio to stock is above {SLOWER}: {total['slower']}",
            Bar(0),
        ),
        _ratio(f"{preset}: Q1", ratios[1], "CPU time of Q1, to stock", 0.14),
        Figure(
            f"{preset}: answers not those of stock",
            len(total["other_answers"]),
            "",
            len(ratios),
            f"queries whose answer is not stock's, byte for byte, in any run: {total['other_answers']}",
            Bar(0),
        ),
    ]


def _ratio(name: str, ratio: dict, what: str, bar: float) -> Figure:
    return Figure(name, ratio["value"], "x", ratio["n"], what, Bar(bar), tpch.interval(ratio), ratio["blocks"])
