"""The texts that users read: Markdown, string literals of the product, documentation of options."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
from collections.abc import Iterator

MARKDOWN_CODE = re.compile(r"`[^`]*`")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)(?:"|\\?$)')
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
SOURCES = (".rs", ".c", ".h", ".cpp", ".hpp")
TESTS = re.compile(r"(^|/)(tests?|testing|fuzz|examples|bench)(/|$)|_tests?\.|(^|/)tests?[._]|testing\.rs$|live\.rs$")


@dataclasses.dataclass(frozen=True)
class Text:
    """A piece of text with its place."""

    path: str
    line: int
    text: str


def of_tree(root: pathlib.Path) -> Iterator[Text]:
    """All texts of the files that git knows in this tree."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    for path in sorted(set(done.stdout.splitlines())):
        file = root / path
        if not file.is_file():
            continue
        if path.endswith(".md"):
            yield from of_markdown(path, file.read_text(encoding="utf-8"))
        elif path.endswith(SOURCES) and not TESTS.search(path):
            yield from of_source(path, file.read_text(encoding="utf-8"))


def of_markdown(path: str, text: str) -> Iterator[Text]:
    """Lines outside code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield Text(path, number, MARKDOWN_CODE.sub("``", line))


def of_source(path: str, text: str) -> Iterator[Text]:
    """String literals without their placeholders, up to the tests of a Rust file; in cli/ the documentation of options too."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip()
        if stripped.startswith("#[cfg(test)]"):
            return
        if stripped.startswith(("//", "*", "/*")):
            if path.startswith("cli/src/commands/") and stripped.startswith("///"):
                yield Text(path, number, stripped)
            continue
        if stripped.startswith("assert"):
            continue
        for match in LITERAL.finditer(line):
            yield Text(path, number, PLACEHOLDER.sub("{}", match.group(1)))
