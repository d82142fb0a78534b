"""The cost of the compiler plugin's orthogonal mode to unmodified programs: Lua's interpreter and SQLite.

Both are built from Debian's source packages three times, by the same clang with the same options: plain, with the
plugin (every pointer load is checked, every store is marked), and with checks alone. No store is opened, and it would
make no difference: what is measured is the way past checks and marks, which memory that is not persistent always
takes. Outputs of all builds must be equal. Instructions are not counted: Valgrind maps programs below 2^46, where a
mark has to look twice.
"""

import os
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from figure import Bar, Figure, interleaved
from processes import Trouble, run, run_measured
from servers import REPOSITORY, Playground

BAR = 1.08
HERE = Path(__file__).resolve().parent
WRAPPER = REPOSITORY / "build/persist/plugin/p3l-clang"
# Aligned: the placement of an interpreter's loops changes a program's time by more than a tenth on AMD EPYC (fib took
# 1.07 or 1.26 with 1 % more instructions). All builds equally.
OPTIMISED = ["-O2", "-w", "-falign-functions=64", "-falign-loops=32"]
LOADS_ONLY = ["-Xclang", "-mllvm", "-Xclang", "-p3l-loads-only"]
# Builds, with the options of p3l-clang.
BUILDS = {
    "plain": ["--p3l=off"],
    "orthogonal": ["--p3l=orthogonal"],
    "loads only": ["--p3l=orthogonal", *LOADS_ONLY],
}
# The library's names for a program that opens no store.
NO_STORE = """
#include <stdlib.h>
#include "p3l_access.h"
p3l_memory p3l_persistent_memory;
void *p3l_swizzle(void *slot, const void *surrogate) { (void)slot; return (void *)surrogate; }
void p3l_will_write(void *address, size_t bytes) { (void)address, (void)bytes; abort(); }
"""
SOURCES_LIST = "deb-src http://deb.debian.org/debian bookworm main\n"
MIRROR_REMEDY = "remedy: this needs Debian's mirror; P3L_SOURCES names a folder with lua5.4_*.orig.tar.* and sqlite3_*"


class Workshop:
    """The folder in which the programs are built."""

    def __init__(self, playground: Playground, say: Callable[[str], None]):
        self.folder = playground.folder / "orthogonal"
        self.folder.mkdir()
        self.say = say
        self.clang = os.environ.get("P3L_CLANG", str(WRAPPER))
        if not shutil.which(self.clang):
            raise Trouble(f"there is no {self.clang}\n  remedy: make build with clang-19 and llvm-19-dev, or P3L_CLANG")
        self.library: List[Path] = []

    def fetch(self) -> Path:
        """The folder with the source packages. apt's own configuration stays as it is."""
        if "P3L_SOURCES" in os.environ:
            return Path(os.environ["P3L_SOURCES"])
        apt = self.folder / "apt"
        (apt / "lists/partial").mkdir(parents=True)
        (apt / "sources.list").write_text(SOURCES_LIST)
        settings = {
            "Dir::Etc::sourcelist": apt / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": apt / "lists",
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
        }
        if os.geteuid() == 0:
            settings["APT::Sandbox::User"] = "root"  # apt's sandbox account cannot enter the playground
        options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        self.say("sources of Lua 5.4 and SQLite from Debian")
        try:
            run(["apt-get", "-q", *options, "update"], cwd=apt)
            run(["apt-get", "-q", *options, "source", "--download-only", "lua5.4", "sqlite3"], cwd=apt)
        except (Trouble, OSError) as error:
            raise Trouble(f"{error}\n  {MIRROR_REMEDY}") from error
        return apt

    def unpack(self, packages: Path, pattern: str, name: str) -> Path:
        found = sorted(path for path in packages.glob(pattern) if "orig-" not in path.name)
        if not found:
            raise Trouble(f"there is no {pattern} in {packages}\n  {MIRROR_REMEDY}")
        folder = self.folder / name
        folder.mkdir()
        run(["tar", "xf", found[-1], "-C", folder, "--strip-components=1"])
        return folder

    def compile(self, build: str, sources: Sequence[Path], options: Sequence[str], program: str) -> Path:
        """Builds one variant of a program."""
        self.say(f"building {program}, {build}")
        folder = self.folder / f"{program}-{build.replace(' ', '-')}"
        folder.mkdir()
        objects = [folder / f"{source.stem}.o" for source in sources]
        commands = [
            [self.clang, *BUILDS[build], *OPTIMISED, *options, "-c", source, "-o", made]
            for source, made in zip(sources, objects)
        ]
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as compilers:
            list(compilers.map(run, commands))
        run([self.clang, "--p3l=off", *objects, *self._library(), "-lm", "-ldl", "-Wl,-E", "-o", folder / program])
        return folder / program

    def _library(self) -> List[Path]:
        if not self.library:
            source = self.folder / "no_store.c"
            source.write_text(NO_STORE)
            persist = REPOSITORY / "persist"
            for origin in (source, persist / "runtime/swizzle_entry.S"):
                made = self.folder / f"{origin.stem}.o"
                run([self.clang, "--p3l=off", "-O2", f"-I{persist / 'include'}", "-c", origin, "-o", made])
                self.library.append(made)
        return self.library

    def amalgamation(self, tree: Path) -> Path:
        """SQLite's amalgamation, as its makefile generates it."""
        if not shutil.which("tclsh"):
            raise Trouble("SQLite's makefile needs tclsh\n  remedy: apt-get install tcl")
        folder = self.folder / "sqlite-made"
        folder.mkdir()
        run([tree / "configure", "-q", "--disable-tcl"], cwd=folder)
        run(["make", "-s", "sqlite3.c"], cwd=folder)
        return folder


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The bar: at most 1.08 of plain clang."""
    workshop = Workshop(playground, say)
    packages = workshop.fetch()
    if quick:  # compiling SQLite three times takes minutes
        return _lua(workshop, packages, quick)
    return [*_lua(workshop, packages, quick), *_sqlite(workshop, packages, quick)]


def _lua(workshop: Workshop, packages: Path, quick: bool) -> List[Figure]:
    tree = workshop.unpack(packages, "lua5.4_*.orig.tar.*", "lua")
    sources = [path for path in sorted((tree / "src").glob("*.c")) if path.name != "luac.c"]
    # Lua seeds its hashes with the time, which moves objects and changes a run's time by 3 %.
    options = ["-DLUA_USE_LINUX", "-DLUA_COMPAT_5_3", "-Dluai_makeseed(L)=42"]
    programs = {build: workshop.compile(build, sources, options, "lua") for build in BUILDS}
    scripts = sorted((HERE / "orthogonal_lua").glob("*.lua"))
    commands = {build: [[program, script] for script in scripts] for build, program in programs.items()}
    figures = _compare(workshop, "Lua 5.4", programs, commands, blocks=1 if quick else 15)
    return figures


def _sqlite(workshop: Workshop, packages: Path, quick: bool) -> List[Figure]:
    tree = workshop.unpack(packages, "sqlite3_*.orig.tar.*", "sqlite")
    made = workshop.amalgamation(tree)
    sources = [made / "sqlite3.c", tree / "test/speedtest1.c"]
    options = ["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", f"-I{made}"]
    programs = {build: workshop.compile(build, sources, options, "speedtest1") for build in BUILDS}
    words = ["--memdb", "--size", "15" if quick else "50"]
    # --verify prints a checksum of all results; only those lines are compared, since it also prints times.
    for build, program in programs.items():
        output = run([program, "--verify", *words])
        told = [line for line in output.splitlines() if "hash" in line.lower()]
        if build == "plain":
            expected = told
        if not told or told != expected:
            raise Trouble(f"speedtest1, {build}, has other results than plain: {told}, {expected}")
    commands = {build: [[program, *words]] for build, program in programs.items()}
    return _compare(workshop, "SQLite speedtest1", programs, commands, blocks=2 if quick else 15)


def _compare(
    workshop: Workshop, name: str, programs: Dict[str, Path], commands: Dict[str, list], blocks: int
) -> List[Figure]:
    """CPU time of each build relative to plain, by block; each command also separately."""
    if name.startswith("Lua"):
        for index in range(len(commands["plain"])):
            outputs = {run(commands[build][index]) for build in BUILDS}
            if len(outputs) != 1:
                raise Trouble(f"{commands['plain'][index][-1]}: the builds print different things")
    chance = random.Random(1)
    ratios: Dict[str, List[float]] = {build: [] for build in BUILDS if build != "plain"}
    alone: Dict[int, List[float]] = {index: [] for index in range(len(commands["plain"]))}
    for block in range(blocks):
        workshop.say(f"{name}: block {block + 1} of {blocks}")
        used = {build: [0.0] * len(commands[build]) for build in BUILDS}
        for index in range(len(commands["plain"])):
            for build in interleaved(list(BUILDS), chance):
                used[build][index] += run_measured(commands[build][index]).cpu_seconds
        for build, values in ratios.items():
            values.append(sum(used[build]) / sum(used["plain"]))
        for index, values in alone.items():
            values.append(used["orthogonal"][index] / used["plain"][index])
    what = f"CPU time of {name}, all pointer loads checked and all stores marked, over that of plain clang -O2"
    figures = [
        Figure.of_blocks(f"{name}: orthogonal", ratios["orthogonal"], "x", what, Bar(BAR)),
        Figure.of_blocks(f"{name}: loads only", ratios["loads only"], "x", f"{what}; checks without marks"),
    ]
    if len(alone) > 1:
        for index, values in alone.items():
            script = Path(commands["plain"][index][-1]).stem
            figures.append(Figure.of_blocks(f"{name}: {script}", values, "x", f"{what}; this script alone"))
    text = {build: _text_bytes(program) for build, program in programs.items()}
    ratio = text["orthogonal"] / text["plain"]
    figures.append(Figure(f"{name}: code size", ratio, "x", 1, f"bytes of machine code of {name}, over plain"))
    return figures


def _text_bytes(program: Path) -> int:
    output = subprocess.run(["size", program], capture_output=True, text=True, check=True).stdout
    return int(output.splitlines()[1].split()[0])
