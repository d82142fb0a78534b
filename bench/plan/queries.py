"""The 22 queries of TPC-H at scale 1 by stock PostgreSQL and with the extension, in turn: times and answers."""

from typing import Callable, List, Optional

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
    scale, blocks = tpch.scale(quick), "1" if quick else "6"
    server = tpch.server(playground, scale, say)
    with server.running():
        say(f"22 queries at scale {scale}, settings {preset}, {blocks} blocks")
        variants = tpch.Extension(playground).variants()
        report = server.tpch("--settings", preset, "--blocks", blocks, *variants)
    return _figures(preset, report, scale)


def _with_scale(name: str, scale: str) -> str:
    """The name of the measurement, with the scale unless it is 1."""
    return name if scale == "1" else f"{name} at scale {scale}"


def of_parallel(report: dict, scale: str) -> List[Figure]:
    """Figures of a run with workers. The bars: no answer differs, and no query is slower."""
    _check(report)
    total = report["totals"][1]
    ratios = {query["query"]: query["variants"][1]["ratio"] for query in report["queries"]}
    worst, _ = total["worst"]
    name = _with_scale("parallel", scale)
    return [
        _ratio(f"{name}: total", total["ratio"], "wall time of all 22 queries, to stock with workers", None),
        _ratio(f"{name}: geometric mean", total["geometric_mean"], "of the 22 ratios to stock with workers", None),
        _ratio(f"{name}: worst, Q{worst}", ratios[worst], "the query with the largest ratio to stock", None),
        *_counts(name, total, len(ratios)),
    ]


def _figures(preset: str, report: dict, scale: str) -> List[Figure]:
    _check(report)
    preset = _with_scale(preset, scale)
    total = report["totals"][1]
    ratios = {query["query"]: query["variants"][1]["ratio"] for query in report["queries"]}
    worst, _ = total["worst"]
    slower, answers = _counts(preset, total, len(ratios))
    return [
        _ratio(f"{preset}: total", total["ratio"], "CPU time of all 22 queries, to stock", 0.50),
        _ratio(f"{preset}: geometric mean", total["geometric_mean"], "of the 22 ratios to stock", 0.65),
        _ratio(f"{preset}: worst, Q{worst}", ratios[worst], "the query with the largest ratio to stock", SLOWER),
        slower,
        _ratio(f"{preset}: Q1", ratios[1], "CPU time of Q1, to stock", 0.14),
        answers,
    ]


def _counts(name: str, total: dict, of: int) -> List[Figure]:
    """Number of slower queries, and of different answers."""
    slower = f"queries whose median ratio to stock is above {SLOWER}: {total['slower']}"
    answers = f"queries whose answer is not stock's, byte for byte, in any run: {total['other_answers']}"
    return [
        Figure(f"{name}: queries above {SLOWER}", len(total["slower"]), "", of, slower, Bar(0)),
        Figure(f"{name}: answers not those of stock", len(total["other_answers"]), "", of, answers, Bar(0)),
    ]


def _check(report: dict) -> None:
    failed = [query for query in report["queries"] if query["failure"]]
    if failed:
        first = failed[0]["failure"]
        raise Trouble(f"Q{failed[0]['query']} failed in variant {first['variant']}: {first['reason']}")


def _ratio(name: str, ratio: dict, what: str, bar: Optional[float]) -> Figure:
    return Figure(name, ratio["value"], "x", ratio["n"], what, None if bar is None else Bar(bar), tpch.interval(ratio), ratio["blocks"])
