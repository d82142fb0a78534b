"""Planted sharings of running processes: whether `sharing` names their lines, both sides and the kind, and names none in
the same programs with a line for each process."""

import json
import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Set, Tuple

from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, REPOSITORY, Playground

PROGRAM = REPOSITORY / "tests/microkernels/planted.c"
CASES = ("counter", "lock", "queue", "flag", "pins", "beside", "slots", "reader", "ends", "records")
EVENTS = "coherence-miss,invalidation,loads"


@dataclass
class Planted:
    """The true sharing of a line: its kind, and each process's routine with the offsets that it uses."""

    kind: str
    sides: List[Tuple[str, Set[int]]] = field(default_factory=list)


def planted(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Ten programs with a shared line, ten without."""
    if (os.cpu_count() or 1) < 2:
        raise Trouble("with one processor, processes are followed in turns\n  remedy: a machine with two")
    program = playground.folder / "planted"
    run(["gcc", "-O1", "-g", "-o", program, PROGRAM])
    seconds = "4" if quick else "10"
    lines = sides = kinds = others = alone = misses = 0
    for case in CASES:
        say(f"{case}: one line")
        with _running(program, case, "together") as (pid, truth):
            found = _sharing(playground.folder, pid, seconds)
        [(address, true_line)] = truth.items()
        others += len([one for one in found if one != address])
        line = found.get(address)
        if line is None:
            say(f"{case}: the line is not found")
            continue
        lines += 1
        misses += line["counts"]["misses"]
        seen, kind = _accesses(line), line["verdict"]["kind"]
        all_sides = all(any((routine, offset) in seen for offset in offsets) for routine, offsets in true_line.sides)
        sides += all_sides
        kinds += kind == true_line.kind
        if kind != true_line.kind or not all_sides:
            say(f"{case}: {kind} instead of {true_line.kind}, seen {sorted(seen)}")
    for case in CASES:
        say(f"{case}: a line for each")
        with _running(program, case, "apart") as (pid, _):
            found = _sharing(playground.folder, pid, seconds)
        alone += bool(found)
    of, n = f"of {len(CASES)}", len(CASES)
    what = f"programs with a planted line, {seconds} s each, {misses} coherence misses"
    yield Figure("sharing: lines found", lines, of, n, what, Bar(10, False))
    yield Figure("sharing: with all sides", sides, of, n, what, Bar(10, False))
    yield Figure("sharing: kind right", kinds, of, n, what, Bar(9, False))
    yield Figure("sharing: other lines", others, "lines", n, what, Bar(0))
    yield Figure("sharing: programs without, named", alone, of, n, f"programs without, {seconds} s each", Bar(0))


@contextmanager
def _running(program: Path, case: str, how: str) -> Iterator[Tuple[int, Dict[int, Planted]]]:
    """Starts the processes; they print the true sharing of each line."""
    with subprocess.Popen([program, case, how], stdout=subprocess.PIPE, text=True) as process:
        try:
            truth: Dict[int, Planted] = {}
            for text in process.stdout or ():
                if text.strip() == "ready":
                    break
                kind, address, routine, *offsets = text.split()
                line = truth.setdefault(int(address, 16), Planted(kind))
                line.sides.append((routine, set(map(int, offsets))))
            yield process.pid, truth
        finally:
            process.kill()


def _sharing(folder: Path, pid: int, seconds: str) -> Dict[int, dict]:
    """The contended lines by address."""
    capture = folder / "planted.data"
    command = [HARDMETER, "record", "--ghosts", "-e", EVENTS, "-o", capture, "-p", str(pid)]
    run([*command, "--", "sleep", seconds])
    report = json.loads(run([HARDMETER, "sharing", "--all", "--format", "json", "-i", capture]))
    ghosts = report["capture"]["ghosts"]
    if ghosts["windows"] == ghosts["rounds"]:
        raise Trouble("no two processes were followed at the same time\n  remedy: repeat on an idle machine")
    return {int(line["address"], 16): line for line in report["lines"]}


def _accesses(line: dict) -> Set[Tuple[str, int]]:
    """Routines with the offsets at which they use a line."""
    return {(one["code"]["routine"], int(one["bytes"].split("..")[0])) for one in line["accesses"]}
