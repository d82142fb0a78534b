"""OO1's traversal: P3L compared with plain pointers, Texas and E. Each figure is a ratio within one run of `hardmeter
oo1`.
"""

import os
from contextlib import contextmanager
from typing import Callable, Iterator, List

import oo1
from figure import Figure
from servers import Playground

PREFETCH = f"{oo1.PLUGIN}+prefetch"


@contextmanager
def _on_one_processor() -> Iterator[None]:
    """Pins the enclosed runs to one processor: a migration would restart a run of a few milliseconds with cold
    caches.
    """
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(all_of_them)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def hot(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """20,000 parts, all of it swizzled: the cost of the checks."""
    with _on_one_processor():
        return _hot(playground, quick, say)


def _hot(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    rounds = 2 if quick else 40
    say(f"hot traversal of 20,000 parts: {rounds} rounds")
    # Pairs with the same compiler: otherwise the ratio would compare compilers.
    doors = {
        oo1.PLUGIN: ("plugin, clang", "plain-clang", 1.05),
        "p3l-pptr-gcc": ("pptr, gcc", "plain", 1.15),
        "p3l-pptr-clang": ("pptr, clang", "plain-clang", 1.15),
        "p3l-macros": ("macros, gcc", "plain", None),
    }
    modes = ["plain", "plain-clang", "plain-inline", *doors, *oo1.E]
    words = ["--protocol", "hot", "--page-cache", "hot", "--rounds", rounds]
    cell = oo1.compare(playground, modes, *words)
    what = "CPU time a visit, hot, 20,000 parts with locality"
    figures = []
    for mode, (door, plain, bar) in doors.items():
        figures.append(cell.ratio(mode, [plain], "hot").figure(f"hot 20k: {door} / plain", what, bar))
    figures.append(cell.ratio(oo1.PLUGIN, oo1.E, "hot").figure("hot 20k: plugin / E", what, 0.35))
    # All modes make one call per visit; plain pointers with inlined recursion are shown separately:
    for mode, (door, _, _) in doors.items():
        figures.append(cell.ratio(mode, ["plain-inline"], "hot").figure(f"hot 20k: {door} / plain, inlined", what))
    paper = oo1.compare(playground, ["plain-clang", oo1.PLUGIN], *words, "--layout", "paper")
    what += ", the paper's part: three pointers"
    figures.append(paper.ratio(oo1.PLUGIN, ["plain-clang"], "hot").figure("hot 20k: plugin / plain, paper's part", what))
    return figures


def large(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figure 3 of the paper, enlarged: 2,000,000 parts without locality."""
    parts, rounds = (200_000, 1) if quick else (2_000_000, 6)
    say(f"hot traversal of {parts:,} parts without locality: {rounds} rounds")
    words = ["--parts", parts, "--locality", "no", "--protocol", "hot", "--page-cache", "hot", "--rounds", rounds]
    cell = oo1.compare(playground, ["plain-clang", oo1.PLUGIN, *oo1.TEXAS], *words)
    what = f"CPU time a visit, hot, {parts:,} parts without locality"
    return [
        cell.ratio(oo1.PLUGIN, oo1.TEXAS, "hot").figure("hot 2M, no locality: plugin / Texas", what, 0.5),
        cell.ratio(oo1.PLUGIN, ["plain-clang"], "hot").figure("hot 2M, no locality: plugin / plain", what),
    ]


def cold(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The first traversal, nothing in the page cache."""
    rounds = 2 if quick else 20
    say(f"cold traversal of 20,000 parts: {rounds} rounds")
    words = ["--page-cache", "dropped", "--rounds", rounds]
    cell = oo1.compare(playground, [oo1.PLUGIN, PREFETCH, *oo1.TEXAS, *oo1.OFFSET], *words)
    what = "wall time of the first traversal, page cache dropped, 20,000 parts with locality"
    return [
        cell.ratio(oo1.PLUGIN, oo1.TEXAS, "cold").figure("cold 20k: plugin / Texas", what, 0.5),
        cell.ratio(PREFETCH, oo1.TEXAS, "cold").figure("cold 20k: plugin with prefetch / Texas", what, 0.4),
        cell.ratio(oo1.PLUGIN, oo1.OFFSET, "cold").figure("cold 20k: plugin / offsets", what),
    ]


def cached(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """One cold and 34 warm traversals by a new process, the store in the page cache."""
    rounds = 2 if quick else 10
    sizes = [(20_000, "yes"), (20_000, "no")]
    sizes += [] if quick else [(200_000, "yes"), (2_000_000, "yes"), (2_000_000, "no")]
    figures = []
    for parts, locality in sizes:
        say(f"35 traversals of {parts:,} parts, locality {locality}: {rounds} rounds")
        words = ["--parts", parts, "--locality", locality, "--page-cache", "hot", "--rounds", rounds]
        cell = oo1.compare(playground, [oo1.PLUGIN, *oo1.TEXAS, *oo1.OFFSET], *words)
        size = f"{parts // 1000}k" if parts < 1_000_000 else f"{parts // 1_000_000}M"
        local = "local" if locality == "yes" else "random"
        what = f"wall time of 35 traversals in a new process, page cache hot, {parts:,} parts, locality {locality}"
        figures.append(cell.ratio(oo1.PLUGIN, oo1.TEXAS, "total").figure(f"35, {size} {local}: plugin / Texas", what, 0.65))
        # Mode offset copies and swizzles nothing: report where it is faster than P3L.
        figures.append(cell.ratio(oo1.PLUGIN, oo1.OFFSET, "total").figure(f"35, {size} {local}: plugin / offsets", what))
    return figures
