"""What sampling by the timer costs: pgbench with and without `hardmeter record --source timer -F 1000` beside it.

`perf record -a -e cpu-clock -F 1000` takes turns with it, for information: what both cost is the kernel's and the
machine's.
"""

import os
import random
import re
import shutil
from dataclasses import dataclass
from typing import Callable, Dict, List

from figure import Bar, Figure, interleaved
from processes import Trouble, cpu_seconds_with_dead_children, run, settled_cpu_seconds
from servers import HARDMETER, Playground, Server

# "select" is bound by the processor and steady; "tpcb" is pgbench's default, which also waits for locks and the log.
SCRIPTS = {"select": ["--select-only"], "tpcb": []}
BAR_PERCENT = 1.0


@dataclass
class Leg:
    """One run of pgbench."""

    transactions: int
    per_second: float
    server_cpu: float


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
                    legs[sampler].append(_leg(server, [*samplers[sampler], *pgbench]))
                together = {sampler: _together(pair) for sampler, pair in legs.items()}
                for sampler, leg in together.items():
                    off = together["off"]
                    more = (leg.server_cpu / leg.transactions) / (off.server_cpu / off.transactions) - 1
                    cpu[sampler].append(more * 100)
                    rate[sampler].append((1 - leg.per_second / off.per_second) * 100)
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


def _leg(server: Server, command: list) -> Leg:
    before = _server_cpu(server)
    output = run(command, env=server.environment())
    used = _server_cpu(server) - before
    count = re.search(r"transactions actually processed: (\d+)", output)
    rate = re.search(r"tps = ([0-9.]+)", output)
    if not count or not rate:
        raise Trouble(f"pgbench said neither how many transactions nor how fast:\n{output}")
    return Leg(int(count[1]), float(rate[1]), used)


def _server_cpu(server: Server) -> float:
    """CPU seconds of the server so far: its first process, the backends that ended, the helpers that live."""
    while True:
        first, *helpers = server.processes()
        try:
            living = sum(settled_cpu_seconds(helper) for helper in helpers)
        except (FileNotFoundError, ProcessLookupError):
            continue  # pgbench has just left: a backend ended while we looked
        dead = cpu_seconds_with_dead_children(first)
        if server.processes() == [first, *helpers]:
            return living + dead


def _together(legs: List[Leg]) -> Leg:
    return Leg(
        transactions=sum(leg.transactions for leg in legs),
        per_second=sum(leg.per_second for leg in legs) / len(legs),
        server_cpu=sum(leg.server_cpu for leg in legs),
    )
