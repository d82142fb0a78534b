"""The list of words, the exemptions, and the search."""

from __future__ import annotations

import dataclasses
import fnmatch
import pathlib
import re
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Rule:
    """A word to avoid, and what to write instead."""

    pattern: re.Pattern[str]
    advice: str


class Exemptions:
    """Texts that may keep a word: a pattern of paths and a part of the text."""

    def __init__(self, entries: list[tuple[str, str]]) -> None:
        self._entries = entries
        self._used: set[tuple[str, str]] = set()

    def covers(self, path: str, text: str) -> bool:
        """True if an entry exempts this text. The path of a comment has `comments:` before it."""
        found = [entry for entry in self._entries if fnmatch.fnmatch(path, entry[0]) and entry[1] in text]
        self._used.update(found)
        return bool(found)

    def unused(self) -> list[str]:
        """Entries that no text needed. Those of whole folders remain until they are taken out."""
        entries = [entry for entry in self._entries if entry[1]]
        return [f"{path}\t{part}" for path, part in entries if (path, part) not in self._used]


def _lines(path: pathlib.Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.split("\t")


def read_rules(path: pathlib.Path) -> list[Rule]:
    """The list of words."""
    rules = []
    for pattern, advice in _lines(path):
        rules.append(Rule(re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE), advice))
    return rules


def read_exemptions(path: pathlib.Path) -> Exemptions:
    """The list of exempt texts: path pattern, part of the text, reason."""
    return Exemptions([(path_pattern, part) for path_pattern, part, _reason in _lines(path)])


def find(rules: list[Rule], text: str) -> Iterator[tuple[Rule, str]]:
    """Each rule that the text breaks, with the words it found."""
    for rule in rules:
        match = rule.pattern.search(text)
        if match:
            yield rule, match.group()
