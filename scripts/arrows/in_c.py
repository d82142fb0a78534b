"""Arrows between C and C++ files: what they include, and which functions and variables they use.

A source and the header of its name in the same folder are one file here, named without the suffix.
Two headers of one name (x.h for C, x.hpp for C++) are two files.

An include alone would say little: one header may declare what many sources define, and any circle
could hide behind it. So there is also an arrow from a file that names a function or a variable to
the one source that defines it. Not from a public header (in a folder `include`) to what it declares
itself: there an inline function is a part of the interface that the source implements. And not from
a folder to the source of another one that implements what a header of the first asks of its host:
that source includes the header, and so the arrow runs from it.

Limits: a name counts only where exactly one source in the part (or in the same folder) defines it,
and the user does not define it too; functions that are called through pointers are seen where the
pointer is set; what a macro builds of pieces is not seen; definitions begin in the first column.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePosixPath

from arrows.tree import Arrows, Tree, is_test

SUFFIXES = (".c", ".h", ".cpp", ".hpp")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)

# A function at the left margin: type, name, parameters, and the brace that opens its body.
FUNCTION = re.compile(
    r"^(?!static\b|typedef\b|extern \"C\"|return\b|else\b)[A-Za-z_][\w \t*\n]*?[ *\n](\w+)\([^;{}]*?\)"
    r"[^;{}()]*\{",
    re.MULTILINE,
)
STATIC_FUNCTION = re.compile(
    r"^static\b[\w \t*\n()]*?[ *\n](\w+)\([^;{}]*?\)[^;{}()]*\{", re.MULTILINE
)
# A variable at the left margin.
VARIABLE = re.compile(
    r"^(?!static\b|typedef\b|extern\b|return\b|struct \w+;|enum \w+;|union \w+;|using\b|namespace\b)"
    r"[A-Za-z_][\w \t*]*?[ *](\w+)(?:\[[^\]]*\])*[ \t]*(?:=|;)",
    re.MULTILINE,
)
# A declaration at the left margin: it uses nothing.
DECLARATION = re.compile(r"^[A-Za-z_][^;{}=]*;", re.MULTILINE)
# A name that is neither a member nor a struct's, enum's or union's tag.
WORD = re.compile(r"(?<![\w.])(?<!->)(?<!struct )(?<!enum )(?<!union )\b[A-Za-z_]\w*")
NO_NAMES = {
    "__attribute__",
    "__declspec",
    "alignas",
    "_Alignas",
    "defined",
    "if",
    "while",
    "for",
    "switch",
}


# A declared name: of a function, or of an external variable.
DECLARED = re.compile(r"(\w+)(?:\[[^\]]*\])*[ \t\n]*(?:\(|;)")


def find_rooms(paths: list[str]) -> dict[str, str]:
    """A source and its header under one name; a header in C++ beside one in C is another file."""
    known = set(paths)
    rooms: dict[str, str] = {}
    for path in paths:
        stem = str(PurePosixPath(path).with_suffix(""))
        apart = path.endswith(".hpp") and stem + ".h" in known
        rooms[path] = path if apart else stem
    return rooms


def declared_by(path: str, plain: str) -> set[str]:
    """The names that a header declares; of other files none."""
    if not path.endswith((".h", ".hpp")):
        return set()
    names: set[str] = set()
    for found in DECLARATION.finditer(plain):
        if not found[0].startswith(("typedef", "static", "using")):
            names |= {name[1] for name in [DECLARED.search(found[0])] if name}
    return names


def _blank(found: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else " " for character in found[0])


def scope(path: str) -> str:
    """The scope in which a name must be unique: the part, or the folder if a part has several programs."""
    parts = PurePosixPath(path).parts
    return parts[0] if parts[0] in ("plan", "persist") else "/".join(parts[:2])


class Includes:
    """Finds the included file."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = set(paths)
        self.by_name: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            self.by_name[PurePosixPath(path).name].append(path)

    def find(self, user: str, name: str) -> str | None:
        """The nearest file with this suffix of its path: beside the user, else the one with most in common."""
        wanted = PurePosixPath(name)
        ends = [part for part in wanted.parts if part not in ("..", ".")]
        found = [
            path
            for path in self.by_name.get(wanted.name, [])
            if list(PurePosixPath(path).parts[-len(ends) :]) == ends
        ]
        if not found:
            return None
        home = PurePosixPath(user).parts[:-1]

        def nearness(path: str) -> tuple[int, int]:
            folders = PurePosixPath(path).parts[:-1]
            shared = 0
            for one, other in zip(home, folders):
                if one != other:
                    break
                shared += 1
            return (-shared, len(folders))

        return min(found, key=nearness)


def find_arrows(tree: Tree) -> Arrows:
    """The arrows between all C and C++ files of the tree; tests use files, and are not used."""
    arrows = Arrows()
    paths = tree.with_suffix(*SUFFIXES)
    rooms = find_rooms(paths)
    includes = Includes(paths)
    bodies: dict[str, str] = {}
    definers: dict[str, set[str]] = defaultdict(set)
    own: dict[str, set[str]] = defaultdict(set)
    declared: dict[str, set[str]] = {}
    included: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        text = tree.text(path)
        plain = SKIPPED.sub(_blank, text)
        for found in INCLUDE.finditer(text):
            used = includes.find(path, found[1])
            if used is not None:
                included[path].add(used)
                arrows.add(rooms[path], rooms[used], PurePosixPath(used).name)
        defined = {found[1] for found in FUNCTION.finditer(plain)}
        defined |= {found[1] for found in VARIABLE.finditer(plain)}
        defined -= NO_NAMES
        own[rooms[path]] |= defined | {found[1] for found in STATIC_FUNCTION.finditer(plain)}
        declared[path] = declared_by(path, plain)
        if path.endswith((".c", ".cpp")) and not is_test(path):
            for name in defined:
                definers[name].add(path)
        bodies[path] = DECLARATION.sub(_blank, plain)
    for path, body in bodies.items():
        if is_test(path):
            continue
        names = set(WORD.findall(body)) - own[rooms[path]]
        if PurePosixPath(path).parent.name == "include":
            names -= declared[path]
        for name in names:
            definer = _definer(path, definers.get(name, set()))
            if definer is not None and not _is_host(path, definer, name, included, declared):
                arrows.add(rooms[path], rooms[definer], name)
    return arrows


def _is_host(
    user: str,
    definer: str,
    name: str,
    included: dict[str, set[str]],
    declared: dict[str, set[str]],
) -> bool:
    """Whether the definer implements a function that a header of the user's folder declares."""
    home = PurePosixPath(user).parent
    return PurePosixPath(definer).parent != home and any(
        PurePosixPath(header).parent == home and name in declared[header]
        for header in included[definer]
        if header in declared
    )


def _definer(user: str, definers: set[str]) -> str | None:
    """The only possible source: in the user's folder, else in its part."""
    near = [path for path in definers if PurePosixPath(path).parent == PurePosixPath(user).parent]
    wide = [path for path in definers if scope(path) == scope(user)]
    for found in (near, wide):
        if len(found) == 1:
            return found[0]
        if found:
            return None
    return None
