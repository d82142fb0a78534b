"""Arrows between Python files: their imports within this repository."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import PurePosixPath

from arrows.tree import Arrows, Tree


def is_python(tree: Tree, path: str) -> bool:
    """Whether a file is Python, by its name or by its first line."""
    if path.endswith(".py"):
        return True
    if "." in PurePosixPath(path).name or path.endswith("Makefile"):
        return False
    with open(tree.root / path, "rb") as file:
        first = file.readline(64)
    return first.startswith(b"#!") and b"python" in first


def find_arrows(tree: Tree) -> Arrows:
    """The arrows between the tree's Python files.

    A name means the file beside the user, else the only file of that name in the tree.
    """
    arrows = Arrows()
    files = [path for path in tree.files if is_python(tree, path)]
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in files:
        if path.endswith(".py"):
            by_name[PurePosixPath(path).stem].append(path)
    for path in files:
        for module in _imported(tree.text(path), path):
            found = by_name.get(module.rsplit(".", 1)[-1], [])
            beside = [
                one for one in found if PurePosixPath(one).parent == PurePosixPath(path).parent
            ]
            meant = beside or found
            if len(meant) == 1:
                arrows.add(path, meant[0], module)
    return arrows


def _imported(text: str, path: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text, filename=path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
