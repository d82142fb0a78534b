"""Known causes and verdicts of sharing: programs whose misses can all be computed."""

import json
from pathlib import Path
from typing import Callable, Dict, List

from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, REPOSITORY, Playground

TESTS = REPOSITORY / "tests"
TURNS = "500"

# Figure, program of tests/microkernels with its arguments, machine of tests/machines, event, the routine whose misses
# count, and the cause of nearly all of them. In `small`, L1D has 16 sets of 4 ways, 64 lines of 64 bytes.
KNOWN = [
    ("stride over one set", ["walk", "load", "1024", "5", "0", "1000"], "small", "l1d-miss", "main", "conflict"),
    ("twice the cache", ["walk", "load", "64", "128", "0", "200"], "small", "l1d-miss", "main", "capacity"),
    ("first touches", ["walk", "load", "64", "4096", "0", "1"], "small", "l1d-miss", "main", "cold"),
] + [
    (f"{who}, {words} word", ["sharing", who, words, TURNS], "small-2", "coherence-miss", "access_line", cause)
    for who in ("processes", "threads")
    for words, cause in (("same", "true-sharing"), ("different", "false-sharing"))
]


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Share of misses with the right cause, program by program. Not shortened by --quick: it takes seconds."""
    del quick
    figures = []
    for name, command, machine, event, routine, cause in KNOWN:
        say(f"causes: {name}")
        program = _compile(playground.folder, command[0])
        found = _causes(playground.folder, machine, event, [program, *command[1:]], routine)
        total = sum(found.values())
        if total == 0:
            raise Trouble(f"{name}: no miss of {routine} was sampled")
        what = f"misses of {' '.join(command)} in {routine} that are told to be {cause}, exact (simulated)"
        right = 100 * found.get(cause, 0) / total
        figures.append(Figure(f"cause, {name}", right, "%", total, what, Bar(99, at_most=False)))
    return figures


def _compile(folder: Path, source: str) -> str:
    program = folder / source
    if not program.exists():
        path = TESTS / "microkernels" / f"{source}.c"
        run(["cc", "-O2", "-g", "-pthread", "-static", "-no-pie", "-o", program, path])
    return str(program)


def _causes(folder: Path, machine: str, event: str, command: List[str], routine: str) -> Dict[str, int]:
    """The misses of a routine by cause."""
    capture = folder / "known.data"
    record = [HARDMETER, "--quiet", "record", "--source", "simulated", "-c", "1", "-e", event, "-o", capture]
    run([*record, "--machine", TESTS / "machines" / f"{machine}.toml", "--", *command])
    why = json.loads(run([HARDMETER, "--quiet", "why", "--format", "json", "--top", "100000", "-i", capture]))
    (told,) = [one for one in why["events"] if one["event"] == event]
    found: Dict[str, int] = {}
    for cause in told["causes"]:
        here = sum(place["count"] for place in cause["places"] if place["routine"] == routine)
        found[cause["cause"]] = found.get(cause["cause"], 0) + here
    return found
