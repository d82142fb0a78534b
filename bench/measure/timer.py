"""What sampling by the timer costs: pgbench with and without `hardmeter record --source timer -F 1000` beside it.

`perf record -a -e cpu-clock -F 1000` takes turns with it, for information: what both cost is the kernel's and the
machine's.
"""

import os
import random
import shutil
from typing import Callable, Dict, List

from figure import Bar, Figure, interleaved
from pgbench import Leg, leg, together
from processes import run
from servers import HARDMETER, Playground, Server

# "select" is bound by the processor and steady; "tpcb" is pgbench's default, which also waits for locks and the log.
SCRIPTS = {"select": ["--select-only"], "tpcb": []}
BAR_PERCENT = 1.0


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figure 6."""
    blocks, seconds = (2, 1) if quick else (24, 2)
    chance = random.Random(1)
    figures = []
    with playground.server("native").running() as server:
        samplers = _samplers(server)
        for name, options in SCRIPTS.items():
            pgbench = [server.program("pgbench"), "-n", "-c", "2", "-T", str(seconds), *options]
            run(pgbench, env=server.environment())
            cpu: Dict[str, List[float]] = {sampler: [] for sampler in samplers}
            rate: Dict[str, List[float]] = {sampler: [] for sampler in samplers}
            for block in range(blocks):
                say(f"timer at 1 kHz, pgbench {name}: block {block + 1} of {blocks}")
                legs: Dict[str, List[Leg]] = {sampler: [] for sampler in samplers}
                for sampler in interleaved(list(samplers), chance):
                    legs[sampler].append(leg(server, [*samplers[sampler], *pgbench]))
                summed = {sampler: together(pair) for sampler, pair in legs.items()}
                for sampler, run_of_it in summed.items():
                    off = summed["off"]
                    more = (run_of_it.server_cpu / run_of_it.transactions) / (off.server_cpu / off.transactions) - 1
                    cpu[sampler].append(more * 100)
                    rate[sampler].append((1 - run_of_it.per_second / off.per_second) * 100)
            for sampler in samplers:
                if sampler != "off":
                    figures += _figures(sampler, name, cpu[sampler], rate[sampler])
    return figures


def _samplers(server: Server) -> Dict[str, list]:
    """What stands before pgbench's own words."""
    ours = [HARDMETER, "--quiet", "record", "--source", "timer", "-F", "1000", "-o", server.capture]
    samplers = {"off": [], "hardmeter": [*ours, "--server", server.folder, "--"]}
    # Only root may sample all processors.
    if os.geteuid() == 0 and shutil.which("perf"):
        theirs = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "1000", "-o", f"{server.capture}.perf"]
        samplers["perf"] = [*theirs, "--"]
    return samplers


def _figures(sampler: str, script: str, cpu: List[float], rate: List[float]) -> List[Figure]:
    bar = Bar(BAR_PERCENT) if sampler == "hardmeter" else None
    title = f"timer, {script}" if sampler == "hardmeter" else f"timer by {sampler}, {script}"
    by = f"pgbench {script}, cpu-clock sampled at 1 kHz by {sampler}"
    more, fewer = f"more CPU time of the server per transaction, {by}", f"fewer transactions per second, {by}"
    return [
        Figure.of_blocks(f"{title}: CPU time", cpu, "% more", more, bar),
        Figure.of_blocks(f"{title}: throughput", rate, "% less", fewer, bar),
    ]
