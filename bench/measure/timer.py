"""What sampling by the timer costs: pgbench with and without `hardmeter record --source timer -F 1000` beside it."""

import re
from dataclasses import dataclass
from typing import Callable, List

from figure import Bar, Figure
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
    blocks, seconds = (2, 1) if quick else (12, 4)
    figures = []
    with playground.server("native").running() as server:
        for name, options in SCRIPTS.items():
            command = [server.program("pgbench"), "-n", "-c", "2", "-T", str(seconds), *options]
            run(command, env=server.environment())
            cpu, rate = [], []
            for block in range(blocks):
                say(f"timer at 1 kHz, pgbench {name}: block {block + 1} of {blocks}")
                # ABBA, and BAAB in every other block.
                order = [False, True, True, False] if block % 2 == 0 else [True, False, False, True]
                legs = [(sampled, _leg(server, command, sampled)) for sampled in order]
                off = _together([leg for sampled, leg in legs if not sampled])
                on = _together([leg for sampled, leg in legs if sampled])
                cpu.append((on.server_cpu / on.transactions / (off.server_cpu / off.transactions) - 1) * 100)
                rate.append((1 - on.per_second / off.per_second) * 100)
            what = f"more CPU time of the server per transaction, pgbench {name}, cpu-clock sampled at 1 kHz"
            figures.append(Figure.of_blocks(f"timer, {name}: CPU time", cpu, "% more", what, Bar(BAR_PERCENT)))
            what = f"fewer transactions per second, pgbench {name}, cpu-clock sampled at 1 kHz"
            figures.append(Figure.of_blocks(f"timer, {name}: throughput", rate, "% less", what, Bar(BAR_PERCENT)))
    return figures


def _leg(server: Server, command: List[str], sampled: bool) -> Leg:
    if sampled:
        recorded = [HARDMETER, "--quiet", "record", "--source", "timer", "-F", "1000", "-o", server.capture]
        command = [*recorded, "--server", server.folder, "--", *command]
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
