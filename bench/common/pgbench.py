"""One run of pgbench during a measurement: number of transactions, duration, cost to the server."""

import re
from dataclasses import dataclass
from typing import List

from processes import Trouble, cpu_seconds_with_dead_children, run, settled_cpu_seconds
from servers import Server


@dataclass
class Leg:
    """One run of pgbench."""

    transactions: int
    per_second: float
    server_cpu: float


def leg(server: Server, command: list) -> Leg:
    """Runs `command`, which starts pgbench."""
    before = _cpu(server)
    output = run(command, env=server.environment())
    used = _cpu(server) - before
    count = re.search(r"transactions actually processed: (\d+)", output)
    rate = re.search(r"tps = ([0-9.]+)", output)
    if not count or not rate:
        raise Trouble(f"pgbench said neither how many transactions nor how fast:\n{output}")
    return Leg(int(count[1]), float(rate[1]), used)


def _cpu(server: Server) -> float:
    """CPU seconds of the server so far: its first process, ended backends, live helpers."""
    while True:
        first, *helpers = server.processes()
        try:
            living = sum(settled_cpu_seconds(helper) for helper in helpers)
        except (FileNotFoundError, ProcessLookupError):
            continue  # pgbench has just ended: a backend ended during the loop
        dead = cpu_seconds_with_dead_children(first)
        if server.processes() == [first, *helpers]:
            return living + dead


def together(legs: List[Leg]) -> Leg:
    """Merges several runs."""
    return Leg(
        transactions=sum(leg.transactions for leg in legs),
        per_second=sum(leg.per_second for leg in legs) / len(legs),
        server_cpu=sum(leg.server_cpu for leg in legs),
    )
