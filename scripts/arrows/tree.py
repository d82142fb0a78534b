"""The files of a work tree and the arrows between them."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

# A folder with one of these names holds tests: they may use everything, and only tests use them.
TEST_FOLDERS = {"test", "tests", "fuzz", "fuzz_targets", "examples", "benches"}


@dataclass
class Tree:
    """A work tree: the paths of its files, relative to its root, as git lists them."""

    root: Path
    files: list[str]
    _texts: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """The contents of a file; invalid UTF-8 is replaced."""
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self._texts[path]

    def with_suffix(self, *suffixes: str) -> list[str]:
        """The files with this suffix."""
        return [path for path in self.files if path.endswith(suffixes)]


def read_tree(root: Path) -> Tree:
    """Lists what git tracks, and what it would track. A link to a folder is not followed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    names = sorted(set(listed.decode("utf-8", "replace").split("\0")) - {""})
    return Tree(root, [name for name in names if (root / name).is_file()])


def is_test(path: str) -> bool:
    """Whether a file belongs to tests rather than to the product."""
    return any(folder in TEST_FOLDERS for folder in PurePosixPath(path).parts[:-1])


@dataclass
class Arrows:
    """The found arrows: from a file to a file, with the names that the first uses."""

    ties: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, user: str, used: str, name: str) -> None:
        """Notes that `user` uses `name` of `used`."""
        if user != used:
            self.ties[(user, used)].add(name)

    def merge(self, other: Arrows) -> None:
        """Adds the arrows of another."""
        for (user, used), names in other.ties.items():
            self.ties[(user, used)] |= names
