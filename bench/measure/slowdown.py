"""The cost of one query, one transaction and one new backend under the software PMU, cachegrind, Valgrind, and
natively.

All five servers run in parallel, each with one warm backend, and are used in turn. The cost is the backend's CPU
time: on a machine that others use too, time on the clock says little. To the software PMU's cost that of `hardmeter
record`, which writes the samples meanwhile, is added.
"""

import contextlib
import random
import time
from typing import Callable, Dict, List

from figure import Bar, Figure, interleaved
from postgres import Connection
from processes import settled_cpu_seconds
from servers import KINDS, Playground, Server

# Reads every account, computes on each, keeps at most three values: CPU-bound.
QUERY = (
    "select count(*), sum(abalance + aid % 7), max(length(filler)) from pgbench_accounts where aid % 3 <> 1"
)

# The statements of pgbench's own transaction ("TPC-B, sort of"), one message each, as pgbench sends them.
TRANSACTION = [
    "begin",
    "update pgbench_accounts set abalance = abalance + {delta} where aid = {aid}",
    "select abalance from pgbench_accounts where aid = {aid}",
    "update pgbench_tellers set tbalance = tbalance + {delta} where tid = {tid}",
    "update pgbench_branches set bbalance = bbalance + {delta} where bid = 1",
    "insert into pgbench_history (tid, bid, aid, delta, mtime) values ({tid}, 1, {aid}, {delta}, current_timestamp)",
    "end",
]


class Warm:
    """A server with a warmed-up backend."""

    def __init__(self, server: Server, connection: Connection):
        self.server = server
        self.connection = connection
        self.transactions = 0

    def cost_of(self, work: Callable[[], None]) -> float:
        """CPU seconds of the backend, and of the recorder if there is one, for some work."""
        before = self._cpu()
        work()
        return self._cpu() - before

    def query(self) -> None:
        self.connection.query(QUERY)

    def transaction(self, count: int) -> None:
        """Transactions on accounts all over the table: the same ones in the same order on each server."""
        for _ in range(count):
            number = self.transactions
            self.transactions += 1
            values = {"aid": number * 7919 % 100_000 + 1, "tid": number % 10 + 1, "delta": number % 1000 - 500}
            for statement in TRANSACTION:
                self.connection.query(statement.format(**values))

    def fresh(self) -> Dict[str, float]:
        """A new backend, from connecting to its first answer."""
        before, start = settled_cpu_seconds(self.server.postmaster), time.monotonic()
        connection = self.server.connect()
        try:
            connection.query("select 1")
            wall = time.monotonic() - start
            # A new process starts at zero; the fork itself is the first process's work.
            fork = settled_cpu_seconds(self.server.postmaster) - before
            return {"wall": wall, "cpu": settled_cpu_seconds(connection.backend) + fork}
        finally:
            connection.close()

    def _cpu(self) -> float:
        return settled_cpu_seconds(self.connection.backend) + self.server.recorder_cpu()


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figures 1 to 4, and the slowdowns against native for information."""
    blocks, transactions = (1, 10) if quick else (15, 100)
    chance = random.Random(1)
    with contextlib.ExitStack() as stack:
        warm: Dict[str, Warm] = {}
        for kind in KINDS:
            say(f"starting {kind}")
            server = stack.enter_context(playground.server(kind).running())
            warm[kind] = Warm(server, stack.enter_context(contextlib.closing(server.connect())))
        for kind in KINDS:
            say(f"warming {kind}")
            warm[kind].query()
            warm[kind].transaction(transactions)
            warm[kind].fresh()
        query: Dict[str, List[float]] = {kind: [] for kind in KINDS}
        transaction: Dict[str, List[float]] = {kind: [] for kind in KINDS}
        fresh: Dict[str, List[Dict[str, float]]] = {kind: [] for kind in KINDS}
        for block in range(blocks):
            say(f"query, transaction, new backend: block {block + 1} of {blocks}")
            order = interleaved(KINDS, chance)
            _collect(query, order, lambda kind: warm[kind].cost_of(warm[kind].query))
            order = interleaved(KINDS, chance)
            _collect(
                transaction,
                order,
                lambda kind: warm[kind].cost_of(lambda: warm[kind].transaction(transactions)) / transactions,
            )
            for kind in interleaved(KINDS, chance):
                fresh[kind].append(warm[kind].fresh())
    return _ratios(query, transaction) + _fresh(fresh) + _slowdowns(query, transaction)


def _collect(costs: Dict[str, List[float]], order: List[str], cost: Callable[[str], float]) -> None:
    """Runs one block; adds the mean of its two runs to each kind."""
    of_block: Dict[str, List[float]] = {}
    for kind in order:
        of_block.setdefault(kind, []).append(cost(kind))
    for kind, pair in of_block.items():
        costs[kind].append(sum(pair) / len(pair))


def _ratio(costs: Dict[str, List[float]], kind: str, to: str) -> List[float]:
    return [ours / theirs for ours, theirs in zip(costs[kind], costs[to])]


def _ratios(query: Dict[str, List[float]], transaction: Dict[str, List[float]]) -> List[Figure]:
    figures = []
    for costs, work, exact, sampled in ((query, "query", 0.20, 0.10), (transaction, "transaction", 0.45, 0.20)):
        # For comparison, Valgrind without any instrumentation: a lower limit for every tool.
        contestants = (("softpmu", work, Bar(exact)), ("softpmu-16", f"{work}, 1 line in 16", Bar(sampled)))
        for kind, name, bar in (*contestants, ("none", f"{work}, the floor: none", None)):
            what = f"CPU time of one {work}, {kind} / cachegrind"
            ratio = _ratio(costs, kind, "cachegrind")
            figures.append(Figure.of_blocks(f"{name} / cachegrind", ratio, "x", what, bar))
    return figures


def _fresh(fresh: Dict[str, List[Dict[str, float]]]) -> List[Figure]:
    figures = []
    for clock, title in (("cpu", "CPU"), ("wall", "clock")):
        what = f"{title} time of a new backend of a warmed server on the software PMU, from connecting to its answer"
        seconds = [one[clock] for one in fresh["softpmu"]]
        figures.append(Figure.of_blocks(f"new backend, {title} time", seconds, "s", what, Bar(0.5)))
    for kind in ("native", "none", "cachegrind"):
        what = f"CPU time of a new backend, {kind}"
        figures.append(Figure.of_blocks(f"new backend, {kind}", [one["cpu"] for one in fresh[kind]], "s", what))
    return figures


def _slowdowns(query: Dict[str, List[float]], transaction: Dict[str, List[float]]) -> List[Figure]:
    figures = []
    for costs, work in ((query, "query"), (transaction, "transaction")):
        what = f"CPU time of one {work}, native"
        milliseconds = [seconds * 1e3 for seconds in costs["native"]]
        figures.append(Figure.of_blocks(f"{work}, native", milliseconds, "ms", what))
        for kind in KINDS[1:]:
            what = f"CPU time of one {work}, {kind} / native"
            figures.append(Figure.of_blocks(f"{work}, {kind} / native", _ratio(costs, kind, "native"), "x", what))
    return figures
