"""p3l_options.discovery_order: cost and gain of copying a small store, compared with the same store in place.

`hardmeter oo1` runs P3L with its defaults, in place; so this benchmark runs the programs itself, each pair
alternately (ABBA).
"""

import json
import os
import random
import statistics
from pathlib import Path
from typing import Callable, Dict, List

import oo1
from figure import Figure, interleaved
from processes import Trouble, run
from servers import REPOSITORY, Playground

PARTS = 20_000
ORDERED = "--discovery-order"
# An interface of P3L, and plain pointers by the same compiler.
DOORS = {oo1.PLUGIN: ("plugin, clang", "plain-clang"), "p3l-pptr-gcc": ("pptr, gcc", "plain")}


class Programs:
    """OO1's programs, and a store of each mode."""

    def __init__(self, playground: Playground, modes: List[str]):
        self._programs = Path(os.environ.get("HARDMETER_OO1", REPOSITORY / "build/oo1"))
        for name in ["generate", *modes]:
            if not (self._programs / f"oo1-{name}").is_file():
                raise Trouble(f"there is no oo1-{name} in {self._programs}\n  remedy: make build")
        self._folder = playground.folder / "oo1-ordered"
        self._folder.mkdir()
        graph = self._folder / "graph"
        run([self._programs / "oo1-generate", "--parts", str(PARTS), "--locality", "yes", "--seed", "1", graph])
        for mode in modes:
            run([self._programs / f"oo1-{mode}", "load", graph, self._folder / mode])

    def phases(self, mode: str, protocol: str, seed: int, *words: str) -> Dict[str, dict]:
        """One run's phases, by name."""
        command = [self._programs / f"oo1-{mode}", "run", self._folder / mode, "--measure", "traversal"]
        told = json.loads(run([*command, "--protocol", protocol, "--seed", str(seed), *words]))
        return {phase["name"]: phase for phase in told["phases"]}

    def hot(self, mode: str, seed: int, *words: str) -> float:
        """CPU time of a traversal, the median: all visit 3280 parts."""
        return statistics.median(self.phases(mode, "hot", seed, *words)["hot"]["cpu_ns"])

    def all35(self, mode: str, seed: int, *words: str) -> float:
        """CPU time of the first traversal and 34 more."""
        phases = self.phases(mode, "texas", seed, *words)
        return sum(phases["cold"]["cpu_ns"]) + sum(phases["warm"]["cpu_ns"])


def _ratios(rounds: int, ours: Callable[[int], float], theirs: Callable[[int], float]) -> List[float]:
    chance = random.Random(1)
    ratios = []
    for seed in range(rounds):
        took = {ours: 0.0, theirs: 0.0}
        for one in interleaved([ours, theirs], chance):
            took[one] += one(seed)
        ratios.append(took[ours] / took[theirs])
    return ratios


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Without bars: these apply to P3L's defaults."""
    rounds = 2 if quick else 12
    say(f"a small store in the order of discovery: {rounds} rounds")
    programs = Programs(playground, [*DOORS, *(plain for _, plain in DOORS.values())])
    figures = []
    for mode, (door, plain) in DOORS.items():
        hot = _ratios(rounds, lambda s: programs.hot(mode, s, ORDERED), lambda s: programs.hot(plain, s))
        what = "CPU time a visit, hot, 20,000 parts with locality, discovery_order"
        figures.append(Figure.of_blocks(f"ordered 20k: {door} / plain", hot, "x", what))
    first = _ratios(rounds, lambda s: programs.all35(oo1.PLUGIN, s, ORDERED), lambda s: programs.all35(oo1.PLUGIN, s))
    what = "CPU time of 35 traversals in a new process, page cache hot, discovery_order, to the same in place"
    figures.append(Figure.of_blocks("ordered 35, 20k local: / in place", first, "x", what))
    return figures
