"""Eight processes that read a store of 1,000,000 objects while another one commits 1,000 small transactions a second.

A visit of all objects after a refresh, with everything in memory, is compared with one while no process writes, by CPU time of
the process that visits, since there are more processes than processors. A refresh is timed after one commit that changed
100 objects.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List

import build
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

MEMORY = Path("/dev/shm")
COMMITS = 1000  # a second, as readers.c paces them


def _run(playground: Playground, program: Path, arguments: List[int]) -> Dict[str, Any]:
    # A disk that syncs 1,000 times a second is rare, and readers do not wait for it.
    in_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    store = (MEMORY if in_memory else playground.folder) / f"hardmeter-readers-{os.getpid()}.p3l"
    try:
        command = [str(program), str(store), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        for left in store.parent.glob(f"{store.name}*"):
            left.unlink()
    if done.returncode not in (0, 1):
        raise Trouble(f"readers: exit status {done.returncode}\n{done.stdout}{done.stderr.strip()}")
    found: Dict[str, Any] = json.loads(done.stdout)
    return found


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Warm visits beside a writer, refreshes, and the number of wrong sums."""
    objects, readers, blocks, visits, refreshes = (100_000, 4, 6, 2, 20) if quick else (1_000_000, 8, 10, 2, 100)
    folder = playground.folder / "readers"
    folder.mkdir()
    program = build.compiled(folder, "readers")
    say(f"{readers} readers of {objects:,} objects beside a writer: {blocks} blocks")
    found = _run(playground, program, [objects, readers, blocks, visits, refreshes])
    ratios = [beside / quiet for beside, quiet in zip(found["beside_ns"], found["quiet_ns"])]
    what = f"CPU time of a warm visit of {objects:,} objects, {readers} processes, a refresh before each"
    wall = [value / 1e3 for value in found["refresh_ns"]]
    cpu = [value / 1e3 for value in found["refresh_cpu_ns"]]
    each = f"after a commit of 100 objects, by each of {readers} processes in turn; the median of them"
    done = sum(visits * readers for _ in ratios) * 2 + 2 * readers
    return [
        Figure.of_blocks("readers: warm visit, writer / none", ratios, "x", what, Bar(1.05)),
        Figure.of_blocks("readers: refresh", wall, "us", each, Bar(200)),
        Figure.of_blocks("readers: refresh, CPU time", cpu, "us", each),
        Figure.of_blocks(
            "readers: commits meanwhile",
            found["commits_per_second"],
            "/s",
            f"of {COMMITS} asked for, two objects each; less where {readers + 1} processes share too few processors",
        ),
        Figure("readers: wrong sums", found["wrong_sums"], "", done, "visits that did not find one version", Bar(0)),
    ]
