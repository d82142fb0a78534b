"""Exposed stall time of 24 kernels, modelled and native.

Native is the time beyond that of the same kernel in the first level. The model is calibrated by the chases and by the
stream through memory, which are therefore not independent; the other twenty are predictions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, List, Sequence

from figure import Bar, Figure
from model import Times, calibrate, compile_kernels, exposed, native
from servers import Playground

LEVELS = ("L2", "L3", "memory")
KERNELS = [(kernel, level) for kernel in ("stream", "random", "chase", "gather", "hash", "btree") for level in LEVELS]
KERNELS += [(kernel, level) for kernel in ("transpose", "stencil", "multiply") for level in ("L3", "memory")]
CALIBRATING = {("chase", level) for level in LEVELS} | {("stream", "memory")}

# Below this, in nanoseconds an operation, a time is no more than the noise of two clocks.
NOISE = 0.3
WITHIN_PERCENT = 30


@dataclass
class Kernel:
    """One kernel at one size."""

    kernel: str
    level: str
    modelled: float
    native: float

    @property
    def error_percent(self) -> float:
        """The relative error of the model; None for times within the noise."""
        if max(self.modelled, self.native) < NOISE:
            return 0
        return abs(self.modelled - self.native) / max(self.native, NOISE) * 100


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """A line for each kernel, and the figures of all."""
    folder = playground.folder
    program = compile_kernels(folder)
    rounds, operations = (3, 100_000) if quick else (15, 300_000)
    times = native_times(program, rounds, 2 * operations, say)
    model = calibrate(times, folder, say)
    found: List[Kernel] = []
    for kernel, level in KERNELS:
        say(f"simulating {kernel}, {level}")
        modelled = exposed(program, model, folder, kernel, level, operations)
        one = Kernel(kernel, level, modelled, max(0.0, times[kernel, level] - times[kernel, "L1"]))
        found.append(one)
        what = f"stall of an operation: modelled {one.modelled:.2f} ns, native {one.native:.2f} ns"
        mark = " (calibrates)" if (kernel, level) in CALIBRATING else ""
        name = f"{kernel}, {level}: {one.modelled:.1f} of {one.native:.1f} ns{mark}"
        yield Figure(name, one.error_percent, "% off", rounds, what)
    yield from summary(found)


def native_times(program: Path, rounds: int, operations: int, say: Callable[[str], None]) -> Times:
    """The minimum over several rounds of all kernels: a temporarily busy machine affects all equally."""
    kernels = KERNELS + [(kernel, "L1") for kernel in dict.fromkeys(kernel for kernel, _ in KERNELS)]
    times: Times = {}
    for one in range(rounds):
        say(f"native times, round {one + 1} of {rounds}")
        for kernel, level in kernels:
            time = native(program, kernel, level, operations)
            times[kernel, level] = min(time, times.get((kernel, level), time))
    return times


def summary(found: Sequence[Kernel]) -> Iterator[Figure]:
    """The bars."""
    modelled, measured = ranks([one.modelled for one in found]), ranks([one.native for one in found])
    correlation = pearson(modelled, measured)
    what = "Spearman's rank correlation of modelled exposed stall against native excess time"
    yield Figure("rank correlation", correlation, "", len(found), what, Bar(0.95, at_most=False))
    outside = [one for one in found if one.error_percent > WITHIN_PERCENT]
    what = "outside: " + (", ".join(f"{one.kernel} {one.level}" for one in outside) or "none")
    yield Figure(f"kernels not within {WITHIN_PERCENT} %", len(outside), "of 24", len(found), what, Bar(0))
    wrong = sum(third(a, len(found)) != third(b, len(found)) for a, b in zip(modelled, measured))
    what = "kernels that the model puts into another third than the machine"
    yield Figure("kernels in the wrong third", wrong, "of 24", len(found), what, Bar(0))


def ranks(values: Sequence[float]) -> List[float]:
    """1 for the smallest; equal ones share the mean of their ranks."""
    return [sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values]


def third(rank: float, count: int) -> int:
    """0, 1 or 2."""
    return min(2, int((rank - 0.5) * 3 / count))


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The correlation of two series."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    product = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys))
    squares = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return product / squares**0.5 if squares > 0 else 0.0
