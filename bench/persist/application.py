"""A dictionary of 1,000,000 words and a graph of as many nodes, in P3L and beside it: LMDB, SQLite, RocksDB, libpmemobj,
Boost.Interprocess, and the standard's containers in RAM (bench/persist/application).

Each contestant builds the same data, by commits of 10,000 nodes as durable as it has them by default, in one process; is
opened and used in others, in turns. Answers are checked. A contestant whose library is not installed has no figures.
"""

import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Callable, Dict, List

from build import ARCHIVES, BUILT
from figure import Bar, Figure
from processes import Trouble
from servers import REPOSITORY, Playground

HERE = Path(__file__).resolve().parent / "application"
LIBRARIES = {
    "p3l": [*(str(BUILT / archive) for archive in ARCHIVES), "-lisal", "-luring"],
    "std": [],
    "lmdb": ["-llmdb"],
    "sqlite": ["-lsqlite3"],
    "rocksdb": ["-lrocksdb"],
    "pmemobj": ["-lpmemobj"],
    "interprocess": ["-lrt"],
}
COMMITS = (1, 100, 10000)
Figures = Dict[str, float]


class Contestant:
    """A program, and the store that it made."""

    def __init__(self, name: str, folder: Path):
        self.name, self.store = name, folder / f"{name}.store"
        self._program = folder / f"application-{name}"
        compiler = shutil.which("c++")
        if compiler is None:
            raise Trouble("there is no C++ compiler\n  remedy: make setup")
        command = [compiler, "-std=c++17", "-O2", f"-I{REPOSITORY / 'persist/include'}", f'-DPEER="peer_{name}.hpp"']
        command += [str(HERE / "main.cpp"), *LIBRARIES[name], "-pthread", "-o", str(self._program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Trouble(f"compiling the application for {name}\n{done.stderr.strip()}")

    def run(self, *words: object, **environment: str) -> Figures:
        """What the program printed."""
        command = [str(self._program), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
        if done.returncode != 0:
            raise Trouble(f"{self.name}: exit status {done.returncode}\n{done.stdout}{done.stderr.strip()}")
        figures: Figures = json.loads(done.stdout)
        if figures.get("wrong", 0) != 0:
            raise Trouble(f"{self.name}: {figures['wrong']} answers are wrong")
        return figures

    def build(self, how: str, nodes: int) -> Figures:
        """Builds the store again; in RAM that is a part of each run."""
        for old in self.store.parent.glob(f"{self.store.name}*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        # With a sync for each step libpmemobj would take an hour: it is built as if the disk was persistent memory.
        return self.run(self.store, how, nodes, **({"PMEM_IS_PMEM_FORCE": "1"} if self.name == "pmemobj" else {}))

    def use(self, nodes: int, lookups: int, commits: int) -> Figures:
        """Opens it in a new process."""
        return self.run("" if self.name == "std" else self.store, "run", nodes, lookups, commits)

    def bytes(self) -> int:
        """What its files take on the disk."""
        files = [self.store, *self.store.parent.glob(f"{self.store.name}-*")]
        if self.store.is_dir():
            files = list(self.store.iterdir())
        return sum(file.stat().st_blocks * 512 for file in files)


def contestants(folder: Path, names: List[str], say: Callable[[str], None]) -> List[Contestant]:
    """Those whose library is here; P3L, LMDB and RAM have to be."""
    found = []
    for name in names:
        try:
            found.append(Contestant(name, folder))
        except Trouble as trouble:
            if name in ("p3l", "std", "lmdb"):
                raise
            say(f"{name} cannot be compiled here, and no figure is of it: {str(trouble).splitlines()[-1]}")
    return found


def _built(all_of: List[Contestant], nodes: int, say: Callable[[str], None]) -> List[Figure]:
    """The time to build, and the log."""
    took, figures = {}, []
    for one in all_of:
        if one.name == "std":
            continue
        for how in ("load", "build") if one.name == "p3l" else ("build",):
            say(f"{one.name}: {how}, {nodes:,} nodes")
            built = one.build(how, nodes)
            took[one.name, how] = built["build"]
            what = f"{nodes:,} nodes and words, {built['peak'] / 1e6:.0f} MB of memory at most"
            what += ", without any sync" if one.name in ("pmemobj", "interprocess") else ""
            figures.append(Figure(f"application: {how}, {one.name}", built["build"], "s", 1, what))
            if one.name == "p3l":
                ratio = built["logged"] / one.store.stat().st_size
                what = f"{built['logged'] / 1e6:.1f} MB of log"
                figures.append(Figure(f"application: {how}, log / store", ratio, "x", 1, what, Bar(2.0)))
    for how, bar in (("load", None), ("build", Bar(1.0))):
        ratio = took["p3l", how] / took["lmdb", "build"]
        what = "both by commits of 10,000 nodes" if bar else "P3L without a log, durable at the end"
        figures.append(Figure(f"application: {how}, p3l / lmdb", ratio, "x", 1, what, bar))
    return figures


def _ratios(runs: Dict[str, List[Figures]], name: str, over: str, under: str, key: str) -> Figure:
    blocks = [a[key] / b[key] for a, b in zip(runs[over], runs[under])]
    return Figure.of_blocks(name, blocks, "x", f"{key}: {over} / {under}, run by run")


def _used(all_of: List[Contestant], runs: Dict[str, List[Figures]]) -> List[Figure]:
    """Of each contestant what a run printed, medians."""
    figures = []
    units = {"open": ("ms", 1e3), "lookup1": ("ns", 1e9), "lookup": ("ns", 1e9), "walk": ("ns", 1e9)}
    units.update({"scan": ("ns", 1e9), "resident": ("MB", 1e-6)})
    for changes in COMMITS:
        units[f"commit{changes}"] = units[f"worst{changes}"] = ("ms", 1e3)
    for one in all_of:
        for key, (unit, scale) in units.items():
            values = [run[key] * scale for run in runs[one.name] if key in run]
            if not values:
                continue
            what = f"{key} of {one.name}, the median over processes"
            value = max(values) if key.startswith("worst") else statistics.median(values)
            figures.append(Figure(f"application: {key}, {one.name}", value, unit, len(values), what))
    return figures


def _bars(runs: Dict[str, List[Figures]], store_bytes: int) -> List[Figure]:
    figures = []
    for name, over, under, key, bar in (
        ("look-up, p3l / RAM", "p3l", "std", "lookup", Bar(1.3)),
        ("look-up, lmdb / p3l", "lmdb", "p3l", "lookup", Bar(5.0, at_most=False)),
        ("commit of 1, p3l / lmdb", "p3l", "lmdb", "commit1", Bar(1.0)),
        ("commit of 100, p3l / lmdb", "p3l", "lmdb", "commit100", Bar(1.0)),
        ("commit of 10,000, p3l / lmdb", "p3l", "lmdb", "commit10000", None),
    ):
        figure = _ratios(runs, f"application: {name}", over, under, key)
        figure.bar = bar
        figures.append(figure)
    opened = [run["open"] * 1e3 for run in runs["p3l"]]
    what = "from opening to the first answer; the page cache has the file"
    figures.append(Figure.of_blocks("application: open, p3l, bar", opened, "ms", what, Bar(10.0)))
    ram = statistics.median(run["anonymous"] for run in runs["std"])
    what = f"{store_bytes / 1e6:.0f} MB on the disk, {ram / 1e6:.0f} MB in RAM"
    figures.append(Figure("application: size, p3l / RAM", store_bytes / ram, "x", 1, what, Bar(1.3)))
    return figures


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Builds once each; then look-ups and commits in turns."""
    nodes, lookups, rounds, commits = (50_000, 50_000, 1, 20) if quick else (1_000_000, 1_000_000, 6, 100)
    folder = playground.folder / "application"
    folder.mkdir()
    all_of = contestants(folder, list(LIBRARIES), say)
    figures = _built(all_of, nodes, say)
    sizes = {one.name: one.bytes() for one in all_of if one.name != "std"}
    for name, size in sizes.items():
        figures.append(Figure(f"application: size, {name}", size / 1e6, "MB", 1, "on the disk"))
    runs: Dict[str, List[Figures]] = {one.name: [] for one in all_of}
    for number in range(rounds):
        say(f"look-ups and commits, round {number + 1} of {rounds}")
        for one in all_of if number % 2 == 0 else reversed(all_of):
            runs[one.name].append(one.use(nodes, lookups, commits))
    return figures + _bars(runs, sizes["p3l"]) + _used(all_of, runs)
