"""The justified exceptions: a table in ARCHITECTURE.md under the heading "Exceptions to the arrows".

  | exception                             | why                |
  |---|---|
  | `prove/oo1 -> persist`                | its benchmark      |
  | `circle: plan/src/shapes, 7 files`    | recursion, because |

An arrow covers all arrows between the two folders or files. A circle is named by one of its files
and the number of its files; it may shrink, but not grow. An exception that no longer occurs is an
error: the table says what the code is like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from arrows.circles import LARGEST, Circle
from arrows.rules import Violation

HEADING = re.compile(r"^#+ Exceptions to the arrows\s*$", re.MULTILINE)
ROW = re.compile(r"^\| *`([^`]+)` *\|(.*)\|\s*$", re.MULTILINE)
ARROW = re.compile(r"(\S+) -> (\S+)$")
CIRCLE = re.compile(r"circle: (\S+), (\d+) files$")


@dataclass(frozen=True)
class Exceptions:
    """The table's contents, and rows that cannot be parsed."""

    arrows: tuple[tuple[str, str], ...]
    circles: tuple[tuple[str, int], ...]
    faults: tuple[str, ...]


def read_exceptions(text: str) -> Exceptions:
    """Reads the table; a page without the heading has no exceptions."""
    heading = HEADING.search(text)
    arrows: list[tuple[str, str]] = []
    circles: list[tuple[str, int]] = []
    faults: list[str] = []
    if heading is not None:
        section = re.split(r"^#+ ", text[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]
        for row in ROW.finditer(section):
            if not row[2].strip():
                faults.append(f"exception `{row[1]}` has no reason")
            if arrow := ARROW.match(row[1]):
                arrows.append((arrow[1], arrow[2]))
            elif circle := CIRCLE.match(row[1]):
                circles.append((circle[1], int(circle[2])))
            else:
                faults.append(
                    f"exception `{row[1]}` is neither `A -> B` nor `circle: FILE, N files`"
                )
    return Exceptions(tuple(arrows), tuple(circles), tuple(faults))


def _covers(place: str, path: str) -> bool:
    place = place.rstrip("/")
    return path == place or path.startswith((place + "/", place + "."))


def judge(listed: Exceptions, broken: list[Violation], circles: list[Circle]) -> list[str]:
    """Findings: arrows and circles without an exception, exceptions without a case."""
    findings = list(listed.faults)
    met: set[tuple[str, str]] = set()
    for violation in broken:
        cover = [
            arrow
            for arrow in listed.arrows
            if _covers(arrow[0], violation.user) and _covers(arrow[1], violation.used)
        ]
        met.update(cover)
        if not cover:
            findings.append(str(violation))
    for arrow in listed.arrows:
        if arrow not in met:
            findings.append(f"exception `{arrow[0]} -> {arrow[1]}` no longer occurs: take it out")
    known: set[tuple[str, int]] = set()
    for circle in circles:
        size = len(circle.files)
        if size <= LARGEST:
            continue
        rows = [row for row in listed.circles if row[0] in circle.files]
        known.update(rows)
        if not rows:
            findings.append(f"{circle}\n  at most {LARGEST} are allowed")
        elif size > max(row[1] for row in rows):
            findings.append(f"{circle}\n  its exception allows {max(row[1] for row in rows)}")
    for name, size in listed.circles:
        if (name, size) not in known:
            findings.append(
                f"exception `circle: {name}, {size} files` no longer occurs: take it out"
            )
    return findings
