"""The cost of the time model: the same simulations on a machine with a core model and on one without."""

import random
from pathlib import Path
from typing import Callable, Dict, Iterator, List

from figure import Bar, Figure, interleaved
from model import SIZES, compile_kernels
from processes import run, run_measured
from servers import HARDMETER, REPOSITORY, Playground

MOST_PERCENT = 15


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """CPU time of a recording with the model, to one without."""
    blocks = 3 if quick else 9
    folder = playground.folder
    machines = _machines(folder)
    for name, command in _programs(folder, quick).items():
        chance = random.Random(1)
        ratios: List[float] = []
        for block in range(blocks):
            say(f"cost of the time model, {name}: block {block + 1} of {blocks}")
            spent: Dict[str, float] = {kind: 0 for kind in machines}
            for kind in interleaved(list(machines), chance):
                words = [HARDMETER, "--quiet", "record", "--source", "simulated", "-e", "l1d-miss,l2-miss"]
                words += ["-o", folder / "cost.data", "--machine", machines[kind], "--", *command]
                spent[kind] += run_measured(words).cpu_seconds
            ratios.append(spent["with"] / spent["without"] * 100 - 100)
        what = f"CPU time of recording {name} with the time model, beyond that without"
        yield Figure.of_blocks(f"time model, {name}", ratios, "% more", what, Bar(MOST_PERCENT))


def _machines(folder: Path) -> Dict[str, Path]:
    text = (REPOSITORY / "ground/samples/machines/sapphire-rapids.toml").read_text()
    machines = {"with": folder / "with.toml", "without": folder / "without.toml"}
    machines["with"].write_text(text)
    machines["without"].write_text(text.split("# What the core hides")[0])
    return machines


def _programs(folder: Path, quick: bool) -> Dict[str, List[str]]:
    kernels = compile_kernels(folder)
    mixture = folder / "mixture"
    run(["gcc", "-O2", "-o", mixture, REPOSITORY / "tests/microkernels/mixture.c"])
    count = "100000" if quick else "1000000"
    return {
        "a mixture": [str(mixture), "50000" if quick else "200000"],
        "random lines": [str(kernels), "random", str(SIZES["memory"]), count],
        "a chase": [str(kernels), "chase", str(SIZES["L3"]), count],
    }
