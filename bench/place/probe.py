"""The classification error of the occupancy probe by a single shot: the share on the wrong side of the threshold.

Blocks: in each, sets are found and calibrated again; the thresholds are those of that publication, fixed before the first shot that is judged
(`split_probe_threshold`), which another process fires at other sections. Judged are fresh sections that stream, write and gather. Shots across a
context switch are fired again; those next to which lines vanish while nothing is done (the other thread of a core at work, in a virtual machine
another guest's) are counted separately, as decided by two shots at nothing before and two after, never by their own result.
"""

import statistics
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import evidence
from figure import Bar, Figure
from processes import Trouble
from servers import REPOSITORY, Playground

PROGRAM = REPOSITORY / "build/place/sections/probe_shots"
BAR = Bar(2.0)
PAIRS = ((256, 1024), (512, 2048))
SIZES = (16, 64, 256, 512, 1024, 2048, 4096)
JUDGED = ("stream", "write", "gather")
BUDGET = 0.005


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Errors of both pairs with their bars; displaced shares by size; the cost of a probe."""
    if not PROGRAM.exists():
        raise Trouble(f"there is no {PROGRAM}\n  remedy: make build-place")
    blocks, shots = (2, 20) if quick else (8, 60)
    done = []
    # In memory, like a machine's /run: pages of a file on a disk may be dropped between publication and shots.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else playground.folder
    with tempfile.TemporaryDirectory(prefix="hardmeter-probe-", dir=memory) as folder:
        for number in range(blocks):
            say(f"probe: block {number + 1} of {blocks}: sets are found, then {shots} shots for each shape and size")
            done.append(Block.of(folder, number + 1, shots))
    by_random_lines = sum(block.random_lines for block in done)
    what = "publications for which no full sets were found, so that random lines were published; the rest of the figures is of them all"
    sets = Figure("published: random lines", 100 * by_random_lines / blocks, "%", blocks, what)
    return [sets, *errors(done), *displaced(done), *costs(done)]


@dataclass
class Shot:
    """A section between prime and count."""

    shape: str
    fresh: bool
    kilobytes: int
    displaced: float
    cycles: int
    calm: bool


@dataclass
class Block:
    """One publication, and the shots that were judged by it."""

    thresholds: Dict[Tuple[int, int], float]
    cycles_per_second: float
    random_lines: bool
    found_seconds: float
    shots: List[Shot]

    @staticmethod
    def of(folder: str, seed: int, shots: int) -> "Block":
        published = _run("publish", folder, seed)
        fired = _run("shoot", folder, shots, 1000 + seed, *SIZES)
        thresholds = {(int(line[0]), int(line[1])): float(line[2]) for line in fired["threshold"]}
        return Block(
            thresholds=thresholds,
            cycles_per_second=float(fired["cycles_per_second"][0][0]),
            random_lines=published["outcome"][0][0] != "full_sets",
            found_seconds=float(published["outcome"][0][2]),
            shots=_among_calm([_shot(line) for line in fired["shot"]]),
        )

    def wrong(self, pair: Tuple[int, int], chosen: Callable[[Shot], bool]) -> List[bool]:
        """For each shot of either size, whether it was taken for the other size."""
        small, large = pair
        threshold = self.thresholds[pair]
        if threshold < 0:
            raise Trouble("calibration left a size out\n  remedy: a calmer machine")
        judged = [shot for shot in self.shots if shot.kilobytes in pair and chosen(shot)]
        return [(shot.displaced > threshold) == (shot.kilobytes == small) for shot in judged]


def errors(blocks: List[Block]) -> List[Figure]:
    """Single shots on the wrong side, over all blocks: shots are independent, and errors too few for medians of
    blocks.
    """
    groups = {
        "": (lambda shot: shot.calm and shot.fresh and shot.shape in JUDGED, BAR, "fresh, calm"),
        ", disturbed too": (lambda shot: shot.fresh and shot.shape in JUDGED, None, "fresh, calm or not"),
        ", chases": (lambda shot: shot.calm and shot.fresh and shot.shape == "chase", None, "fresh, calm, dependent loads"),
        ", hot data": (lambda shot: shot.calm and not shot.fresh, None, "all shapes, calm, over data in the cache already"),
    }
    figures = []
    for pair in PAIRS:
        for suffix, (chosen, bar, words) in groups.items():
            by_block = [block.wrong(pair, chosen) for block in blocks]
            wrong = [one for block in by_block for one in block]
            if not wrong:
                raise Trouble(f"no shots at {pair[0]} and {pair[1]} KB were left ({words})\n  remedy: a calmer machine")
            low, high = evidence.share_interval(sum(wrong), len(wrong)) or (0.0, 1.0)
            figures.append(
                Figure(
                    name=f"{pair[0]} | {pair[1]} KB taken wrongly{suffix}",
                    value=100 * sum(wrong) / len(wrong),
                    unit="%",
                    n=len(wrong),
                    what=f"single shots at sections ({words}), by the threshold of the calibration before",
                    bar=bar,
                    interval=(100 * low, 100 * high),
                    blocks=[100 * sum(block) / len(block) for block in by_block if block],
                )
            )
    fresh = [shot for block in blocks for shot in block.shots if shot.fresh and shot.shape in JUDGED]
    share = 100 * sum(not shot.calm for shot in fresh) / len(fresh)
    what = "shots within two of which lines vanished while nothing was done"
    figures.append(Figure(name="shots that were disturbed", value=share, unit="%", n=len(fresh), what=what))
    return figures


def displaced(blocks: List[Block]) -> List[Figure]:
    """The median share by size, which must increase with it."""
    figures, medians = [], []
    for size in SIZES:
        shares = [
            statistics.median(found)
            for block in blocks
            if (found := [s.displaced for s in block.shots if s.calm and s.fresh and s.shape in JUDGED and s.kilobytes == size])
        ]
        if shares:
            medians.append(statistics.median(shares))
            what = "median share of the probe's lines that fresh sections displace, calm"
            figures.append(Figure.of_blocks(f"displaced by {size} KB", [100 * share for share in shares], "%", what))
    falls = sum(later < earlier for earlier, later in zip(medians, medians[1:]))
    what = "sizes from 16 KB to 4 MB that displace less than the next smaller one, by median"
    figures.append(Figure(name="sizes out of order", value=falls, unit="", n=len(medians), what=what, bar=Bar(0)))
    return figures


def costs(blocks: List[Block]) -> List[Figure]:
    """A prime and a count: with few lines displaced, and with all."""
    figures, per_shot = [], defaultdict(list)
    for block in blocks:
        for size in (16, 512, 4096):
            cycles = [shot.cycles for shot in block.shots if shot.kilobytes == size]
            per_shot[size].append(1e6 * statistics.median(cycles) / block.cycles_per_second)
    for size, blocks_of in per_shot.items():
        what = f"median time of a prime and a count around a section of {size} KB"
        figures.append(Figure.of_blocks(f"a probe, {size} KB", blocks_of, "us", what))
    rates = [BUDGET * 1e6 / cost for cost in per_shot[512]]
    what = "probes that 0.5 % of a core's time pays for, each at 512 KB's cost"
    figures.append(Figure.of_blocks("probes at 0.5 % of a core", rates, "/s", what))
    found = [block.found_seconds for block in blocks]
    figures.append(Figure.of_blocks("finding sets, with calibration", found, "s", "time on the clock of a publication"))
    return figures


def _among_calm(shots: List[Shot]) -> List[Shot]:
    """Other guests' activity lasts about ten milliseconds: a shot counts as calm only if its neighbours do."""
    calm = [False, *(shot.calm for shot in shots), False]
    return [replace(shot, calm=all(around)) for shot, around in zip(shots, zip(calm, calm[1:], calm[2:]))]


def _shot(words: List[str]) -> Shot:
    shape, fresh, kilobytes, share, prime, count, calm = words
    return Shot(shape, fresh == "fresh", int(kilobytes), float(share), int(prime) + int(count), calm == "calm")


def _run(*words) -> Dict[str, List[List[str]]]:
    """The program's lines by their first word."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Trouble(f"{PROGRAM.name} failed: {done.stderr.strip() or done.stdout.strip()}")
    lines: Dict[str, List[List[str]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        first, *rest = line.split()
        lines[first].append(rest)
    return lines
