"""Runs of `hardmeter oo1`, and ratios of its contestants within its rounds."""

import json
import statistics
from typing import List, Optional, Sequence

from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, Playground

# The forms of each competitor; figures compare with the fastest one in the run.
TEXAS = ["texas", "texas-clang", "texas-uffd"]
E = ["e", "e-clang"]
OFFSET = ["offset", "offset-clang"]
PLUGIN = "p3l-plugin"


class Cell:
    """One table of `hardmeter oo1 run`: all contestants under the same conditions."""

    def __init__(self, described: dict):
        self._entries = {entry["name"]: entry for entry in described["entries"]}

    def rounds(self, name: str, metric: str) -> List[float]:
        """A number of a contestant, round by round."""
        entry = self._entries[name]
        if entry["outcome"] != "sound":
            raise Trouble(f"{name}: {_why(entry)}")
        for found in entry["metrics"]:
            if found["name"] == metric:
                return found["rounds"]
        raise Trouble(f"{name} has no {metric}: build/oo1 and target/release do not belong together\n  remedy: make build")

    def best(self, names: Sequence[str], metric: str) -> str:
        """The fastest of several forms. Forms that this machine cannot run (userfaultfd, for example) are left out.
        """
        able = [name for name in names if name in self._entries and self._entries[name]["outcome"] != "cannot-here"]
        if not able:
            raise Trouble(f"none of {', '.join(names)} runs on this machine: {_why(self._entries[names[0]])}")
        return min(able, key=lambda name: statistics.median(self.rounds(name, metric)))

    def ratio(self, name: str, to: Sequence[str], metric: str) -> "Ratio":
        """A contestant's number to that of the fastest of some."""
        against = self.best(to, metric)
        pairs = zip(self.rounds(name, metric), self.rounds(against, metric))
        return Ratio([ours / theirs for ours, theirs in pairs], against)

    def store_bytes(self, name: str) -> int:
        """The size of a contestant's store."""
        entry = self._entries[name]
        if not entry["runs"]:
            raise Trouble(f"{name}: {_why(entry)}")
        return entry["runs"][0]["store_bytes"]


class Ratio:
    """A ratio, round by round, and to whom it is."""

    def __init__(self, rounds: List[float], against: str):
        self.rounds = rounds
        self.against = against

    def figure(self, name: str, what: str, bar: Optional[float] = None) -> Figure:
        limit = None if bar is None else Bar(bar)
        return Figure.of_blocks(name, self.rounds, "x", f"{what} (against {self.against})", limit)


def compare(playground: Playground, modes: Sequence[str], *words) -> Cell:
    """Runs some modes under one set of conditions. Stores are shared by all parts of one bench run."""
    command = [HARDMETER, "--quiet", "oo1", "run", "--dir", playground.folder / "oo1", "--modes", ",".join(modes)]
    command += [*map(str, words), "--format", "json"]
    # Status 1 means that a mode failed or visited other parts: reported below, by name.
    told = run(["sh", "-c", '"$@" || [ $? = 1 ]', "sh", *map(str, command)])
    if not told.strip():
        # The reason is on standard error, which a status of 0 hides: run it again for the reason.
        run(command)
    cell = Cell(json.loads(told)["cells"][0])
    return cell


def _why(entry: dict) -> str:
    if entry["outcome"] == "wrong":
        return f"it visited other parts than the others: checksum {entry['checksum']} instead of {entry['expected']}"
    if entry["outcome"] == "lacks":
        return f"it has no {entry['what']}"
    remedy = f"\n  remedy: {entry['remedy']}" if entry.get("remedy") else ""
    return entry.get("reason", entry["outcome"]) + remedy
