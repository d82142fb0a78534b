"""Arrows that build files draw: dependencies between crates, and paths that lead out of a folder.

Crates: `cargo metadata`; what only tests need (dev-dependencies) draws no arrow. CMake, make and
build.rs, and what Rust includes from elsewhere (`include_str!`, `#[path]`): each path with a `..`
that leads to a file or folder of this tree. CMake also: the name of a
target that another top-level folder defines.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from arrows.in_rust import without_tests
from arrows.tree import Arrows, Tree

BUILD_FILES = ("CMakeLists.txt", "Makefile", "build.rs")
COMMENT = re.compile(r"(?m)^[ \t]*(?:#(?!\[)|//)[^\n]*|[ \t](?:#|//) [^\n]*")
VARIABLE = re.compile(r"\$[({]\w+[)}]/?|\$<\w+:?|%/")
LEADING_OUT = re.compile(r"(?:[\w.-]+/)*\.\.(?:/[\w.*-]+)+")
RUST_INCLUDE = re.compile(r'(?:include(?:_str|_bytes)?!\(\s*|#\[path\s*=\s*)"([^"]*\.\./[^"]*)"')
TARGET = re.compile(r"^\s*add_(?:library|executable)\(\s*([\w-]+)", re.MULTILINE)
WORD = re.compile(r"(?<![^\s()<>:\"])[\w-]+(?![^\s()<>\"])")


@dataclass
class Crates:
    """cargo's description of the workspace: the arrows between folders, and the targets' root files."""

    arrows: Arrows
    roots: list[Path]


def read_crates(tree: Tree, cargo: list[str]) -> Crates:
    """Reads the workspace from cargo. A tree without Cargo.toml has no crates."""
    arrows = Arrows()
    roots: list[Path] = []
    if "Cargo.toml" not in tree.files:
        return Crates(arrows, roots)
    command = [*cargo, "metadata", "--no-deps", "--offline", "--format-version", "1"]
    answer = subprocess.run(command, cwd=tree.root, check=True, capture_output=True)
    packages = json.loads(answer.stdout)["packages"]
    folders = {Path(one["manifest_path"]).parent: one["name"] for one in packages}
    for package in packages:
        folder = Path(package["manifest_path"]).parent
        manifest = (folder / "Cargo.toml").relative_to(tree.root).as_posix()
        for needed in package["dependencies"]:
            path = needed.get("path")
            if path and needed["kind"] != "dev" and Path(path).is_relative_to(tree.root):
                used = (Path(path) / "Cargo.toml").relative_to(tree.root).as_posix()
                arrows.add(manifest, used, folders.get(Path(path), needed["name"]))
        for target in package["targets"]:
            root = Path(target["src_path"])
            if {"lib", "bin", "proc-macro"} & set(target["kind"]) and root.is_relative_to(
                tree.root
            ):
                roots.append(root)
    return Crates(arrows, roots)


def find_arrows(tree: Tree) -> Arrows:
    """The arrows that CMake, make, build.rs and Rust's includes draw."""
    arrows = Arrows()
    known = set(tree.files)
    for path in tree.files:
        known.update(str(parent) for parent in PurePosixPath(path).parents)
    builds = [path for path in tree.files if PurePosixPath(path).name in BUILD_FILES]
    targets: dict[str, str] = {}
    for path in builds:
        if path.endswith("CMakeLists.txt"):
            for name in TARGET.findall(tree.text(path)):
                targets.setdefault(name, path)
    for path in builds:
        text = VARIABLE.sub("", COMMENT.sub("", tree.text(path)))
        for way in LEADING_OUT.findall(text):
            if used := _inside(path, way, known):
                arrows.add(path, used, way)
        if path.endswith("CMakeLists.txt"):
            top = PurePosixPath(path).parts[0]
            for name in WORD.findall(text):
                if name in targets and PurePosixPath(targets[name]).parts[0] != top:
                    arrows.add(path, targets[name], name)
    for path in tree.with_suffix(".rs"):
        for way in RUST_INCLUDE.findall(without_tests(tree.text(path))[0]):
            if used := _inside(path, way, known):
                arrows.add(path, used, way)
    return arrows


def _inside(path: str, way: str, known: set[str]) -> str | None:
    """The file of this tree that a relative path leads to, or None."""
    parts = list(PurePosixPath(path).parts[:-1])
    for step in PurePosixPath(way).parts:
        if step == "..":
            if not parts:
                return None
            parts.pop()
        elif "*" in step:
            break
        else:
            parts.append(step)
    found = "/".join(parts)
    return found if found in known and found != "." else None
