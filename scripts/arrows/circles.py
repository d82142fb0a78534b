"""Circles: sets of files that reach each other along arrows."""

from __future__ import annotations

from dataclasses import dataclass

from arrows.tree import Arrows, is_test

# The largest circle that needs no justification.
LARGEST = 3


@dataclass(frozen=True)
class Circle:
    """The files of one circle, and what ties them."""

    files: tuple[str, ...]
    ties: tuple[tuple[str, str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        lines = [f"circle of {len(self.files)} files:"]
        for user, used, names in self.ties:
            shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
            lines.append(f"  {user} -> {used}: {shown}")
        return "\n".join(lines)


def find_circles(arrows: Arrows) -> list[Circle]:
    """All circles of two files or more, the largest first; tests are left out."""
    after: dict[str, list[str]] = {}
    for user, used in sorted(arrows.ties):
        if not is_test(user) and not is_test(used):
            after.setdefault(user, []).append(used)
            after.setdefault(used, [])
    circles: list[Circle] = []
    for files in _components(after):
        if len(files) > 1:
            members = set(files)
            ties = tuple(
                (user, used, tuple(sorted(names)))
                for (user, used), names in sorted(arrows.ties.items())
                if user in members and used in members
            )
            circles.append(Circle(tuple(sorted(files)), ties))
    return sorted(circles, key=lambda circle: (-len(circle.files), circle.files))


def _components(after: dict[str, list[str]]) -> list[list[str]]:
    """Tarjan's strongly connected components, without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for start in after:
        if start in order:
            continue
        work: list[tuple[str, int]] = [(start, 0)]
        while work:
            node, next_edge = work.pop()
            if next_edge == 0:
                order[node] = low[node] = len(order)
                stack.append(node)
                on_stack.add(node)
            for position in range(next_edge, len(after[node])):
                other = after[node][position]
                if other not in order:
                    work.append((node, position + 1))
                    work.append((other, 0))
                    break
                if other in on_stack:
                    low[node] = min(low[node], order[other])
            else:
                if low[node] == order[node]:
                    component: list[str] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    found.append(component)
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
    return found
