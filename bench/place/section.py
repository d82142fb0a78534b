"""The cost of an unsampled section: split_start and split_end around nothing, CPU time of a pair.

Batches of 20,000 pairs by `section_cost` (place/libsplit/test), with keys that are numbers and texts of 40 bytes. Two looks at
the time stamp counter are in it, and in virtual machines make half of it: they are measured beside. A process lives for some ten
milliseconds, in which the other thread of the core may be at work or not, which costs a third more. Hence many short processes, both
kinds of key in turns.
"""

import statistics
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Callable, Dict, List

from figure import Bar, Figure
from processes import Trouble
from servers import REPOSITORY, Playground

PROGRAM = REPOSITORY / "build/place/libsplit/test/section_cost"
ROUNDS, QUICK_ROUNDS, BATCHES = 30, 6, 3
BAR = Bar(60)
KEYS = {"number": "number key", "text": "key of 40 bytes"}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Nanoseconds of a pair, by kind of key, with the bar; of a handle's pair, and of reading the clock alone."""
    if not PROGRAM.exists():
        raise Trouble(f"there is no {PROGRAM}\n  remedy: make build-place")
    spent: Dict[str, Dict[str, List[float]]] = {key: defaultdict(list) for key in KEYS}
    say("start and end, by number and by text in turns")
    for number in range(QUICK_ROUNDS if quick else ROUNDS):
        for key in sorted(KEYS, reverse=number % 2 == 1):
            for name, batches in batches_of(playground.folder / "section", key, BATCHES).items():
                spent[key][name].append(statistics.median(batches))
    figures, stamps = [], []
    for key, words in KEYS.items():
        what = "median over processes of three batches of 20,000 pairs around nothing, unsampled, CPU time"
        figures.append(
            Figure.of_blocks(f"split_start + split_end, {words}", spent[key]["start_end"], "ns", what, BAR)
        )
        figures.append(Figure.of_blocks(f"split_begin + split_finish, {words}", spent[key]["handle"], "ns", what))
        stamps += spent[key]["two_time_stamps"]
    figures.append(Figure.of_blocks("two time stamps alone", stamps, "ns", "what this machine's clock costs of it"))
    return figures


def batches_of(folder: Path, key: str, batches: int) -> Dict[str, List[float]]:
    """Runs the program: nanoseconds of each batch, by kind of call."""
    folder.mkdir(mode=0o700, exist_ok=True)
    done = subprocess.run([PROGRAM, folder, str(batches), key], capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"{PROGRAM} failed: {done.stderr.strip()}")
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: [float(value) for value in values] for name, *values in lines}
