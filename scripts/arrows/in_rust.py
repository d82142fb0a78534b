"""Arrows between the modules of a Rust crate: what they import, and the paths in their code.

An import is followed through re-exports (`pub use`) to the file that defines the name; a re-export
does not count as a use. Code under `#[cfg(test)]` is left out.

Limits: methods are not seen (their types are, where they are named), nor are names that a macro
builds; a module that is written inside another's file counts as that file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from arrows.tree import Arrows, Tree

SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?\*/|\bb?r(#*)\".*?\"\1|\bb?\"(?:\\.|[^\"\\])*\"|\"(?:\\.|[^\"\\])*\""
    r"|b?'(?:\\[^\n]{1,8}?|[^\\'\n])'",
    re.DOTALL,
)
TEST_ITEM = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]")
MODULE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?mod[ \t]+(\w+)[ \t]*;", re.MULTILINE)
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?[ \t]+)?use[ \t\n]+([^;]+);", re.MULTILINE)
DEFINITION = re.compile(
    r"^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?(?:async[ \t]+|unsafe[ \t]+|const[ \t]+|extern[ \t]+)*"
    r"(?:fn|struct|enum|trait|type|const|static|union)[ \t]+(?:mut[ \t]+)?(\w+)",
    re.MULTILINE,
)
CALLED_PATH = re.compile(r"(?<![\w:])(\w+(?:::\w+)+)")

Steps = tuple[str, ...]


@dataclass
class Module:
    """A module's file: its definitions, declarations and imports."""

    path: str
    steps: Steps
    body: str
    defined: set[str]
    children: set[str]
    # Imported name -> its path; globs and re-exports separately.
    imports: dict[str, Steps] = field(default_factory=dict)
    reexports: dict[str, Steps] = field(default_factory=dict)
    globs: list[Steps] = field(default_factory=list)


def _blank(found: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else " " for character in found[0])


def without_tests(text: str) -> tuple[str, set[str]]:
    """The text without items under `#[cfg(test)]`, and the names of modules declared so."""
    tests: set[str] = set()
    while found := TEST_ITEM.search(text):
        end, depth = found.end(), 0
        while end < len(text):
            character = text[end]
            end += 1
            if character in "{([":
                depth += 1
            elif character in "})]":
                depth -= 1
                if depth == 0 and character == "}":
                    break
            elif character == ";" and depth == 0:
                break
        item = text[found.start() : end]
        tests |= {declared[1] for declared in re.finditer(r"\bmod\s+(\w+)\s*;", item)}
        text = text[: found.start()] + text[end:]
    return text, tests


def expand(tree: str) -> list[tuple[Steps, str]]:
    """The paths of an import, each with the name under which it is known ("*" for a glob)."""
    tree = tree.strip()
    opened = tree.find("{")
    if opened < 0:
        path, _, alias = tree.partition(" as ")
        steps = tuple(step.strip() for step in path.split("::") if step.strip())
        if not steps:
            return []
        if steps[-1] == "self" and len(steps) > 1:
            steps = steps[:-1]
        return [(steps, alias.strip() or steps[-1])]
    before = tuple(step.strip() for step in tree[:opened].split("::") if step.strip())
    inner = tree[opened + 1 : tree.rfind("}")]
    paths: list[tuple[Steps, str]] = []
    depth, piece = 0, ""
    for character in inner + ",":
        if character == "," and depth == 0:
            for steps, name in expand(piece):
                if steps == ("self",):
                    paths.append((before, before[-1] if name == "self" else name))
                else:
                    paths.append((before + steps, name))
            piece = ""
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        piece += character
    return paths


class Crate:
    """The modules of one target of a crate, and where the names in them lead."""

    def __init__(self, tree: Tree, root: str) -> None:
        self.tree = tree
        self.files = set(tree.files)
        self.modules: dict[Steps, Module] = {}
        self._read(root, (), PurePosixPath(root).parent)

    def _read(self, path: str, steps: Steps, folder: PurePosixPath) -> None:
        text = SKIPPED.sub(_blank, self.tree.text(path))
        text, tests = without_tests(text)
        module = Module(path, steps, "", set(), set())
        for visible, imported in USE.findall(text):
            for way, name in expand(imported):
                if name == "*":
                    module.globs.append(way[:-1])
                elif visible:
                    module.reexports[name] = way
                else:
                    module.imports[name] = way
        module.body = USE.sub(_blank, text)
        module.defined = set(DEFINITION.findall(module.body))
        module.defined |= set(re.findall(r"macro_rules![ \t]*(\w+)", module.body))
        self.modules[steps] = module
        for child in MODULE.findall(module.body):
            for name in (f"{child}.rs", f"{child}/mod.rs"):
                file = str(folder / name)
                if child not in tests and file in self.files:
                    module.children.add(child)
                    self._read(file, steps + (child,), folder / child)

    def absolute(self, module: Module, way: Steps) -> Steps | None:
        """A path relative to the crate's root; None if it leads to another crate."""
        first, rest = way[0], way[1:]
        if first == "crate":
            return rest
        if first == "self":
            return module.steps + rest
        if first == "super":
            here = module.steps
            while way and way[0] == "super":
                here, way = here[:-1], way[1:]
            return here + way
        if first in module.children:
            return module.steps + way
        known = module.imports.get(first) or module.reexports.get(first)
        if known is not None and known[0] != first:
            base = self.absolute(module, known)
            return None if base is None else base + rest
        return None

    def define(self, way: Steps, depth: int = 0) -> tuple[str, str] | None:
        """The file that defines what a path from the root leads to, and its name there."""
        here: Steps = ()
        for step in way:
            if step not in self.modules[here].children:
                break
            here += (step,)
        module, rest = self.modules[here], way[len(here) :]
        if not rest:
            return None
        name = rest[0]
        if name in module.defined or depth > 8:
            return module.path, name
        known = module.reexports.get(name) or module.imports.get(name)
        if known is not None:
            target = self.absolute(module, known)
            return None if target is None else self.define(target + rest[1:], depth + 1)
        for glob in module.globs:
            target = self.absolute(module, glob)
            if target is not None and name in self.names(target):
                return self.define(target + rest, depth + 1)
        return module.path, name

    def names(self, way: Steps) -> set[str]:
        """The names that a module offers to a glob import."""
        module = self.modules.get(way)
        if module is None:
            return set()
        return module.defined | set(module.reexports) | set(module.imports)

    def find_arrows(self, arrows: Arrows) -> None:
        """Adds the arrows between the files of this target."""
        for module in self.modules.values():
            # The declaration of a module does not count as a use of a function with its name.
            words = set(re.findall(r"\w+", MODULE.sub(" ", module.body)))
            used: list[Steps] = list(module.imports.values())
            used += [way for name, way in module.reexports.items() if name in words]
            used += [tuple(path.split("::")) for path in CALLED_PATH.findall(module.body)]
            for glob in module.globs:
                target = self.absolute(module, glob)
                if target is not None:
                    offered = (self.names(target) & words) - module.defined
                    used += [("crate",) + target + (name,) for name in offered]
            for way in used:
                target = self.absolute(module, way)
                found = None if target is None else self.define(target)
                if found is not None:
                    arrows.add(module.path, found[0], found[1])


def find_arrows(tree: Tree, roots: list[Path]) -> Arrows:
    """The arrows inside the crates whose root files (lib.rs, main.rs) are given."""
    arrows = Arrows()
    for root in roots:
        Crate(tree, root.relative_to(tree.root).as_posix()).find_arrows(arrows)
    return arrows
