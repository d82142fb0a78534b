"""The order of the parts: the allowed arrows between folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from arrows.tree import Arrows, is_test

# From top to bottom. Folders of one row must not use each other.
FLOORS = (
    ("cli",),
    ("advise",),
    ("measure", "place", "plan", "persist", "prove"),
    ("evidence",),
    ("ground",),
)
# Folders that may use everything, and are used only within themselves.
ABOVE = ("tests", "bench", "papers", "fuzz", "docs", "scripts")
# Inside measure/, from top to bottom; `simulate` uses none of them and is used by none.
MEASURE = (("html", "tui"), ("views",), ("answers",), ("record", "symbols", "objects"))
ALONE_IN_MEASURE = "simulate"


@dataclass(frozen=True)
class Violation:
    """An arrow that is not allowed, with the names that it carries and the rule that it breaks."""

    user: str
    used: str
    names: tuple[str, ...]
    rule: str

    def __str__(self) -> str:
        names = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return f"{self.user} -> {self.used} ({names}): {self.rule}"


def _row(floors: tuple[tuple[str, ...], ...], name: str) -> int | None:
    for row, names in enumerate(floors):
        if name in names:
            return row
    return None


def broken_rule(user: str, used: str) -> str | None:
    """The rule that an arrow between two files breaks, if any."""
    here, there = PurePosixPath(user).parts, PurePosixPath(used).parts
    if here[0] in ABOVE or is_test(user):
        return None
    if there[0] in ABOVE:
        return f"nothing of the product uses {there[0]}/"
    if here[0] == there[0]:
        if is_test(used):
            return "the product uses no tests"
        if here[0] == "measure":
            return _inside_measure(here, there)
        return None
    row, other = _row(FLOORS, here[0]), _row(FLOORS, there[0])
    if row is None or other is None:
        return None
    if row == other:
        return "sideways: parts see only evidence/ and ground/, never each other"
    return "upward: a lower folder uses a higher one" if row > other else None


def _inside_measure(here: tuple[str, ...], there: tuple[str, ...]) -> str | None:
    if len(here) < 3 or len(there) < 2 or here[1] == there[1]:
        return None
    if ALONE_IN_MEASURE in (here[1], there[1]):
        return "measure/simulate sees only ground/, and no other folder of measure/ sees it"
    row, other = _row(MEASURE, here[1]), _row(MEASURE, there[1])
    if row is None or other is None:
        return None
    if row == other:
        return "sideways: record, symbols and objects do not see each other, nor do html and tui"
    return "upward: html, tui > views > answers > record, symbols, objects" if row > other else None


def violations(arrows: Arrows) -> list[Violation]:
    """All arrows that break a rule."""
    found: list[Violation] = []
    for (user, used), names in sorted(arrows.ties.items()):
        rule = broken_rule(user, used)
        if rule is not None:
            found.append(Violation(user, used, tuple(sorted(names)), rule))
    return found
