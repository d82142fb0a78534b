"""A graph built from nothing: 1,000,000 nodes and 8,000,000 edges in random order, a commit every 10,000 changes.

It is built once by durable commits, and once as a load, which is durable at its end. A separate program does each, then
reopens the store and counts the edges.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List

from figure import Bar, Figure
from processes import Trouble
from servers import REPOSITORY, Playground

HERE = Path(__file__).resolve().parent
BUILT = REPOSITORY / "build/persist"
ARCHIVES = ["runtime/libp3l.a", "objects/libp3l_objects.a", "store/libp3l_store.a"]


def compiled(folder: Path, name: str) -> Path:
    """The program of NAME.c in this folder, with the library that `make build` made."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    archives = [BUILT / archive for archive in ARCHIVES]
    if compiler is None or not all(archive.exists() for archive in archives):
        raise Trouble(f"there is no C compiler, or no library in {BUILT}\n  remedy: make build")
    program = folder / name
    command = [compiler, "-std=c11", "-O2", f"-I{REPOSITORY / 'persist/include'}", str(HERE / f"{name}.c")]
    command += [*map(str, archives), "-lisal", "-luring", "-pthread", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(f"compiling {name}.c\n{done.stderr.strip()}")
    return program


def _build(program: Path, mode: str, nodes: int, edges: int) -> Dict[str, float]:
    store = program.parent / f"{mode}.p3l"
    command = [str(program), str(store), mode, str(nodes), str(edges), "10000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(f"build_graph {mode}: exit status {done.returncode}\n{done.stdout}{done.stderr.strip()}")
    for left in (store, Path(f"{store}-log")):
        left.unlink()
    figures: Dict[str, float] = json.loads(done.stdout)
    return figures


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The bytes logged relative to the store's size, the time, and the worst commit."""
    nodes, edges = (100_000, 800_000) if quick else (1_000_000, 8_000_000)
    folder = playground.folder / "build"
    folder.mkdir()
    program = compiled(folder, "build_graph")
    figures = []
    for mode in ("load", "commits"):
        say(f"building {nodes:,} nodes and {edges:,} edges, {mode}")
        built = _build(program, mode, nodes, edges)
        megabytes = built["store_bytes"] / 1e6
        said = f"{built['logged_bytes'] / 1e6:.1f} MB of log for a store of {megabytes:.0f} MB, {mode}"
        ratio = built["logged_bytes"] / built["store_bytes"]
        figures.append(Figure(f"build, {mode}: log / store", ratio, "x", 1, said, Bar(2.0)))
        what = f"from opening to closing; {built['peak_kb'] / 1024:.0f} MB of memory at most"
        figures.append(Figure(f"build, {mode}: time", built["seconds"], "s", 1, what, None))
        what = f"of {built['commits'] - 1:.0f} commits of edges; the median is {built['middle_ms']:.1f} ms, "
        what += f"the worst without waiting for a processor {built['own_worst_ms']:.1f} ms; "
        what += f"the commit of the nodes takes {built['first_ms']:.0f} ms"
        if mode == "load":
            what += f"; the end of the load takes {built['end_seconds'] * 1e3:.0f} ms"
        figures.append(Figure(f"build, {mode}: worst commit", built["worst_ms"], "ms", 1, what, None))
    return figures
