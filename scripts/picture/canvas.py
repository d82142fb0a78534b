"""Boxes and arrows as SVG for block diagrams, with checks.

A drawing refuses a text that is wider than its box and boxes that overlap, so that a changed description cannot produce
an unreadable picture.
"""

from __future__ import annotations

import dataclasses
from xml.sax.saxutils import escape

# Mean widths of a character in browsers' sans-serif fonts, as a share of the font's size: the widest ones.
BOLD, CHARACTER = 0.62, 0.54
TITLE, TEXT, LABEL = 14, 12, 12
LINE = 17

COLORS = {
    "part": ("#e8f0fe", "#3367d6"),
    "file": ("#fff8e1", "#b08800"),
    "process": ("#e6f4ea", "#188038"),
    "shared": ("#fce8e6", "#c5221f"),
    "floor": ("#f1f3f4", "#5f6368"),
}


class Unreadable(ValueError):
    """A text does not fit, or boxes overlap."""


@dataclasses.dataclass(frozen=True)
class Box:
    """A rectangle with a title and lines of text."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str
    lines: tuple[str, ...] = ()

    def side(self, where: str) -> tuple[float, float]:
        """A point of the edge: `left`, `right`, `top`, `bottom`, or those with a share: `bottom:0.25`."""
        name, _, share = where.partition(":")
        part = float(share) if share else 0.5
        return {
            "left": (self.x, self.y + part * self.height),
            "right": (self.x + self.width, self.y + part * self.height),
            "top": (self.x + part * self.width, self.y),
            "bottom": (self.x + part * self.width, self.y + self.height),
        }[name]

    def overlaps(self, other: Box) -> bool:
        """True if both share a point and neither lies inside the other."""
        apart = (
            self.x + self.width <= other.x
            or other.x + other.width <= self.x
            or self.y + self.height <= other.y
            or other.y + other.height <= self.y
        )
        return not apart and not self.holds(other) and not other.holds(self)

    def holds(self, other: Box) -> bool:
        """True if the other box lies inside this one."""
        return (
            self.x <= other.x
            and self.y <= other.y
            and other.x + other.width <= self.x + self.width
            and other.y + other.height <= self.y + self.height
        )


@dataclasses.dataclass(frozen=True)
class Arrow:
    """A line of straight pieces with a head, and a label beside a point of it."""

    points: tuple[tuple[float, float], ...]
    label: str = ""
    at: tuple[float, float] | None = None
    anchor: str = "middle"
    dashed: bool = False


class Drawing:
    """A picture under construction."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []

    def box(self, x: float, y: float, width: float, height: float, kind: str, title: str, *lines: str) -> Box:
        """Adds a box; refuses one whose text does not fit or that overlaps another."""
        box = Box(x, y, width, height, kind, title, lines)
        longest = max([len(title) * TITLE * BOLD, *(len(line) * TEXT * CHARACTER for line in lines)])
        if longest > width - 12:
            raise Unreadable(f"{title}: its text needs {longest + 12:.0f} units, its box has {width:.0f}")
        if 24 + len(lines) * LINE > height:
            raise Unreadable(f"{title}: {len(lines)} lines need {24 + len(lines) * LINE}, its box has {height:.0f}")
        if x < 0 or y < 0 or x + width > self.width or y + height > self.height:
            raise Unreadable(f"{title}: its box leaves the picture")
        for other in self.boxes:
            if box.overlaps(other):
                raise Unreadable(f"{title} overlaps {other.title}")
        self.boxes.append(box)
        return box

    def arrow(
        self,
        *points: tuple[float, float],
        label: str = "",
        at: tuple[float, float] | None = None,
        anchor: str = "middle",
        dashed: bool = False,
    ) -> None:
        """Adds an arrow through these points; its label is at `at`, else above the middle of its first piece."""
        if label and at is None:
            (x0, y0), (x1, y1) = points[0], points[1]
            at = ((x0 + x1) / 2, (y0 + y1) / 2 - 5)
        self.arrows.append(Arrow(points, label, at, anchor, dashed))

    def svg(self) -> str:
        """The picture as SVG text."""
        width, height = number(self.width), number(self.height)
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
            f' height="{height}" role="img" font-family="Helvetica, Arial, sans-serif">',
            f"<title>{escape(self.title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#3c4043"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]
        for box in self.boxes:
            out.extend(self._box(box))
        for arrow in self.arrows:
            out.extend(self._arrow(arrow))
        out.append("</svg>")
        return "\n".join(out) + "\n"

    @staticmethod
    def _box(box: Box) -> list[str]:
        fill, line = COLORS[box.kind]
        middle = number(box.x + box.width / 2)
        out = [
            f'<rect x="{number(box.x)}" y="{number(box.y)}" width="{number(box.width)}" height="{number(box.height)}"'
            f' rx="6" fill="{fill}" stroke="{line}" stroke-width="1.5"/>',
            f'<text x="{middle}" y="{number(box.y + 19)}" font-size="{TITLE}" font-weight="bold"'
            f' text-anchor="middle" fill="#202124">{escape(box.title)}</text>',
        ]
        for index, line_of_text in enumerate(box.lines):
            y = number(box.y + 19 + (index + 1) * LINE)
            out.append(
                f'<text x="{middle}" y="{y}" font-size="{TEXT}" text-anchor="middle" fill="#3c4043">'
                f"{escape(line_of_text)}</text>"
            )
        return out

    @staticmethod
    def _arrow(arrow: Arrow) -> list[str]:
        path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in arrow.points)
        dash = ' stroke-dasharray="5 4"' if arrow.dashed else ""
        out = [f'<path d="{path}" fill="none" stroke="#3c4043" stroke-width="1.5"{dash} marker-end="url(#head)"/>']
        if arrow.label and arrow.at is not None:
            x, y = arrow.at
            for index, line in enumerate(arrow.label.split("\n")):
                out.append(
                    f'<text x="{number(x)}" y="{number(y + index * 15)}" font-size="{LABEL}" font-style="italic"'
                    f' text-anchor="{arrow.anchor}" fill="#3c4043">{escape(line)}</text>'
                )
        return out


def number(value: float) -> str:
    """A coordinate without a useless fraction."""
    return f"{value:g}"
