"""Transfers of a contended line, modelled and native, and the cost of interleaving threads.

Native transfers are an estimate by time: the additional time of an increment over that with one line per thread,
divided by the time from core to core. That time, and the model's transfer latency, are those of `hardmeter latency`.
Compared are transfers per 1,000 increments.
"""

import json
import random
import re
from pathlib import Path
from statistics import median
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from figure import Bar, Figure, interleaved
from processes import Trouble, run, run_measured
from servers import HARDMETER, REPOSITORY, Playground

PROGRAM = REPOSITORY / "tests/microkernels/contention.c"
WITHIN_PERCENT = 30
# A block in which the threads did not run together is discarded.
TOGETHER = 0.85
# A latency from core to core with a wider interval is discarded, too.
MOST_SPREAD = 1.5

# Increments of a thread: a few milliseconds for two threads, many time slices for four on two processors.
NATIVE_ROUNDS = {2: 50_000, 4: 1_000_000}
Case = Tuple[str, str, int]  # what, words, threads
CASES: List[Case] = [("locked", words, threads) for threads in (2, 4) for words in ("same", "different")]
WITHOUT_BAR: List[Case] = [("plain", "same", 2), ("plain", "different", 2)]


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """A line for each kind of counter, then the cost."""
    folder = playground.folder
    program = folder / "contention"
    run(["gcc", "-O2", "-pthread", "-o", program, PROGRAM])
    blocks, increments = (3, 20_000) if quick else (15, 100_000)
    say("the latencies of this machine")
    half_round, machine = _machine(folder)
    missing: List[str] = []
    for case in CASES + WITHOUT_BAR:
        what, words, threads = case
        say(f"{what} counters, {words}, {threads} threads: simulated")
        native = _transfers(program, case, half_round, blocks, say)
        if not native:
            missing.append(f"{what} {words} {threads}")
            continue
        modelled = _modelled(program, machine, case, increments)
        kind = "false" if words == "different" else "true"
        name = f"{what}, {kind}, {threads} threads: {modelled:.0f} of {median(native):.0f}"
        off = [abs(modelled - one) / one * 100 if one > 0 else 0.0 for one in native]
        about = "transfers per 1,000 increments: the model's, off the native estimate by time"
        yield Figure.of_blocks(name, off, "% off", about, Bar(WITHIN_PERCENT) if case in CASES else None)
    yield from _cost(program, machine, folder, 3 if quick else 9, say)
    if missing:
        raise Trouble(f"the threads never ran at the same time ({', '.join(missing)}): repeat on an idle machine")


def _native(program: Path, case: Case, rounds: int) -> Optional[float]:
    """CPU nanoseconds of a round; None if the threads did not run together."""
    what, words, threads = case
    took, together = run([program, what, words, str(threads), str(rounds)]).split()
    return float(took) if float(together) >= TOGETHER else None


def _transfers(
    program: Path, case: Case, half_round: float, blocks: int, say: Callable[[str], None]
) -> List[float]:
    """The native estimate of each block in which the threads ran together: transfers per 1,000 increments."""
    what, words, threads = case
    rounds = NATIVE_ROUNDS[threads]
    chance = random.Random(1)
    found: List[float] = []
    for block in range(blocks):
        say(f"{what} counters, {words}, {threads} threads: block {block + 1} of {blocks}")
        times: Dict[str, List[float]] = {words: [], "apart": []}
        for kind in interleaved([words, "apart"], chance) * 3:
            time = _native(program, (what, kind, threads), rounds)
            if time is not None:
                times[kind].append(time)
        if times[words] and times["apart"]:
            found.append((median(times[words]) - median(times["apart"])) / half_round * 1000)
    return found


def _machine(folder: Path) -> Tuple[float, Path]:
    """Nanoseconds of half a round from core to core, and the model of this machine with its measured latencies."""
    file = folder / "this.toml"
    report = json.loads(run([HARDMETER, "--quiet", "latency", "--format", "json", "--write-machine", file]))
    pairs = report["cores"]
    if not pairs:
        raise Trouble("no latency from core to core was measured\n  remedy: a machine with two processors")
    low, high = (median(pair[end] for pair in pairs) for end in ("low_ns", "high_ns"))
    if high > MOST_SPREAD * low:
        raise Trouble(f"from core to core it takes {low:.0f} to {high:.0f} ns\n  remedy: repeat on an idle machine")
    return median(pair["ns"] for pair in pairs), file


def _modelled(program: Path, machine: Path, case: Case, increments: int) -> float:
    what, words, threads = case
    words_of = [HARDMETER, "--quiet", "stat", "--source", "simulated", "-e", "coherence-miss", "--machine", machine]
    text = run([*words_of, "--", program, what, words, str(threads), str(increments)])
    found = re.search(r"([\d,]+)\s+coherence-miss", text)
    if found is None:
        raise Trouble(f"hardmeter stat counted no coherence misses:\n{text}")
    return int(found[1].replace(",", "")) / (threads * increments) * 1000


def _cost(
    program: Path, machine: Path, folder: Path, blocks: int, say: Callable[[str], None]
) -> Iterator[Figure]:
    """CPU time of a recording with fine turns, to one with coarse ones."""
    kernels = folder / "kernels"
    run(["gcc", "-O2", "-o", kernels, REPOSITORY / "bench/truth/kernels.c"])
    programs = {
        "one thread": [kernels, "random", str(8 << 20), "1000000"],
        "two threads, a line each": [program, "locked", "apart", "2", "20000000"],
        "two threads, one line": [program, "locked", "different", "2", "100000"],
    }
    for name, command in programs.items():
        chance = random.Random(1)
        ratios: List[float] = []
        for block in range(blocks):
            say(f"cost of interleaving, {name}: block {block + 1} of {blocks}")
            spent = {"fine": 0.0, "coarse": 0.0}
            for kind in interleaved(list(spent), chance):
                words = [HARDMETER, "--quiet", "record", "--source", "simulated", "--interleave", kind]
                words += ["-o", folder / "cost.data", "--machine", machine, "--", *command]
                spent[kind] += run_measured(words).cpu_seconds
            ratios.append(spent["fine"] / spent["coarse"])
        what = f"CPU time of recording {name}, fine turns to coarse ones"
        yield Figure.of_blocks(f"interleaving, {name}", ratios, "times", what)
