"""The texts that are checked: Markdown, string literals of the product, comments."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import re
import subprocess
import tokenize
from collections.abc import Iterator

MARKDOWN_CODE = re.compile(r"`[^`]*`")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)(?:"|\\?$)')
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
SOURCES = (".rs", ".c", ".h", ".cpp", ".hpp")
TESTS = re.compile(r"(^|/)(tests?|testing|fuzz|examples|bench)(/|$)|_tests?\.|(^|/)tests?[._]|testing\.rs$|live\.rs$")


BACKTICKS = re.compile(r"`[^`]*`")
START_OF_COMMENT = re.compile(r"//|/\*")
# Languages of which only lines that are comments are read, with the mark of a comment.
LINE_COMMENTS = {".sql": "--", ".sh": "#", ".cmake": "#"}
# Tokens after which a string is a statement: a docstring.
BEFORE_A_STATEMENT = (tokenize.ENCODING, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


@dataclasses.dataclass(frozen=True)
class Text:
    """A piece of text with its place."""

    path: str
    line: int
    text: str
    comment: bool = False


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
        elif path.endswith(SOURCES):
            text = file.read_text(encoding="utf-8")
            if not TESTS.search(path):
                yield from of_source(path, text)
            yield from of_comments(path, text)
        elif path.endswith(".py"):
            yield from of_python(path, file.read_text(encoding="utf-8"))
        elif mark := _mark_of_comments(file):
            yield from of_lines(path, file.read_text(encoding="utf-8"), mark)


def of_markdown(path: str, text: str) -> Iterator[Text]:
    """Lines outside code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield Text(path, number, MARKDOWN_CODE.sub("``", line))


def of_source(path: str, text: str) -> Iterator[Text]:
    """String literals without their placeholders, up to the tests of a Rust file."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip()
        if stripped.startswith("#[cfg(test)]"):
            return
        if stripped.startswith(("//", "*", "/*", "assert")):
            continue
        for match in LITERAL.finditer(line):
            yield Text(path, number, PLACEHOLDER.sub("{}", match.group(1)))


def of_comments(path: str, text: str) -> Iterator[Text]:
    """Lines of comments of Rust, C and C++, without code in backticks."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        comment, inside = _comment_of(line, inside)
        if comment:
            yield Text(path, number, BACKTICKS.sub("``", comment), comment=True)


def _mark_of_comments(file: pathlib.Path) -> str:
    """The beginning of comments in a file of SQL, shell, make or CMake, or in a script; empty for other files."""
    if file.name in ("Makefile", "CMakeLists.txt"):
        return "#"
    if not file.suffix:
        with file.open("rb") as start:
            return "#" if start.read(2) == b"#!" else ""
    return LINE_COMMENTS.get(file.suffix, "")


def of_lines(path: str, text: str, mark: str) -> Iterator[Text]:
    """Lines that are comments, without code in backticks."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(mark):
            yield Text(path, number, BACKTICKS.sub("``", line), comment=True)


def _comment_of(line: str, inside: bool) -> tuple[str, bool]:
    """The comment in a line, and whether a block comment continues in the next line."""
    if not inside:
        line = LITERAL.sub('""', line)
        start = START_OF_COMMENT.search(line)
        if not start:
            return "", False
        line = line[start.start() :]
        if line.startswith("//"):
            return line, False
    comment, end, _code = line.partition("*/")
    return comment, not end


def of_python(path: str, text: str) -> Iterator[Text]:
    """Lines of comments and docstrings, without code in backticks."""
    before = tokenize.ENCODING
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        docstring = token.type == tokenize.STRING and before in BEFORE_A_STATEMENT
        if docstring or token.type == tokenize.COMMENT:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield Text(path, number, BACKTICKS.sub("``", line), comment=True)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type
