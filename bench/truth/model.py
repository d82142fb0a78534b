"""A model of this machine, calibrated by four of the kernels, and its predictions."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Tuple

from processes import Trouble, run
from servers import HARDMETER, REPOSITORY

SOURCE = Path(__file__).resolve().parent / "kernels.c"

# Nanoseconds an operation, by kernel and level.
Times = Dict[Tuple[str, str], float]

KIB, MIB = 1 << 10, 1 << 20
# Sizes of a kernel's memory by level: for an L2 of 1 or 2 MiB, and pages that the TLBs hold up to the third level.
SIZES = {"L1": 16 * KIB, "L2": 512 * KIB, "L3": 8 * MIB, "memory": 128 * MIB}
# The size of the model's last level, whatever the real one is: between the two sizes.
L3 = 32 * MIB
L1_LATENCY, WALK = 5, 60

MACHINE = """name = "calibrated"
title = "this machine, calibrated by four kernels"
source = "bench/truth"
cores = 1
clock_mhz = {clock}
base_cpi = 0.25
memory_latency = {memory}
page_walk_latency = {walk}
{caches}
[core]
{core}source = "the assumptions of --machine this; line_cycles calibrated"
"""


@dataclass
class Model:
    """A machine file, and the clock rate that converts its cycles to nanoseconds."""

    file: Path
    clock_mhz: int

    def nanoseconds(self, cycles: float) -> float:
        return cycles * 1000 / self.clock_mhz


def compile_kernels(folder: Path) -> Path:
    """The program of all kernels."""
    program = folder / "kernels"
    # Without vectors, since the simulation has no AVX-512: both run the same instructions.
    run(["gcc", "-O2", "-fno-tree-vectorize", "-o", program, SOURCE])
    return program


def native(program: Path, kernel: str, level: str, operations: int) -> float:
    """Nanoseconds per operation."""
    return float(run([program, kernel, str(SIZES[level]), str(operations)]))


def calibrate(times: Times, folder: Path, say: Callable[[str], None]) -> Model:
    """Latencies of the levels from native times of the chases, the bandwidth from that of the stream through memory."""
    cycle = times["chase", "L1"] / L1_LATENCY
    l2, l3, memory = (round(times["chase", level] / cycle) for level in ("L2", "L3", "memory"))
    line = times["stream", "memory"] / cycle
    clock = round(1000 / cycle)
    # The measured time of a chase through memory includes the page walk, which the model adds again.
    l3, memory = max(l3, l2 + 1), max(memory - WALK, l3 + 1)
    file = folder / "calibrated.toml"
    caches, core = _caches(l2, l3), _core(max(1, round(line)))
    file.write_text(MACHINE.format(clock=clock, memory=memory, walk=WALK, caches=caches, core=core))
    say(f"calibrated: {clock} MHz, L2 {l2}, L3 {l3}, memory {memory}, a line in {line:.1f} cycles")
    return Model(file, clock)


def _caches(l2: int, l3: int) -> str:
    tables = [
        ("l1i", 'size = "32 KiB"', 8, L1_LATENCY),
        ("l1d", 'size = "48 KiB"', 12, L1_LATENCY),
        ("l2", 'size = "2 MiB"', 16, l2),
        ("l3", f"size = {L3}", 16, l3),
        ("itlb", "entries = 256", 8, 0),
        ("dtlb", "entries = 96", 6, 0),
        ("stlb", "entries = 2048", 16, 7),
    ]
    return "\n".join(f"[{name}]\n{size}\nways = {ways}\nlatency = {latency}" for name, size, ways, latency in tables)


def _core(line_cycles: int) -> str:
    """The core of the model that ships for processors of this kind."""
    text = (REPOSITORY / "ground/samples/machines/sapphire-rapids.toml").read_text().split("[core]\n")[1]
    kept = [line for line in text.splitlines() if not line.startswith(("line_cycles", "source"))]
    return "\n".join([*kept, f"line_cycles = {line_cycles}"]) + "\n"


def exposed(program: Path, model: Model, folder: Path, kernel: str, level: str, operations: int) -> float:
    """Modelled stall time in nanoseconds per operation: a long run minus a short one, without the start-up."""

    def cycles(count: int) -> float:
        capture = folder / "kernel.data"
        words = [HARDMETER, "--quiet", "record", "--source", "simulated", "--no-causes", "-e", "l1d-miss", "-c", "10007"]
        words += ["-o", str(capture), "--machine", str(model.file), "--", str(program), kernel, str(SIZES[level])]
        run([*words, str(count)], statuses=(0, 1))  # 1: too short for a sample
        notes = json.loads(Path(f"{capture}.json").read_text())
        if "hidden_latency" not in notes:
            raise Trouble(f"{kernel}: the capture has no exposed latency")
        return float(notes["hidden_latency"]["exposed"])

    # The program does each count twice.
    return model.nanoseconds((cycles(2 * operations) - cycles(operations)) / (2 * operations))
