"""The load of `slices`: look-ups at predetermined times and a sequence of aggregates, on one PostgreSQL.

pgbench requests the look-ups and writes each to a file. With `--rate` each has an intended start, and its latency counts
from there, so that the wait of a request behind another one is included. pgbench runs before all other processes
(SCHED_FIFO), if that is allowed, because it represents clients on other machines. Threads of the bench request the
aggregates.
"""

import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, List, Sequence, Tuple

from processes import Trouble, cpu_seconds, cpu_seconds_with_dead_children
from servers import Server

LIGHT_CLIENTS, HEAVY_CLIENTS = 4, 3
ROWS = 1_000_000  # of pgbench_accounts at scale 10
LOOKUP = f"\\set aid random(1, {ROWS})\nselect abalance from pgbench_accounts where aid = :aid;\n"
AGGREGATE = "select sum(abalance), count(*), avg(length(filler)) from pgbench_accounts"
# pgbench writes its log to the file when a buffer of 4 KB is full: after a hundred look-ups.
FLUSH_SECONDS = 0.5


@dataclass
class Block:
    """The measurements of one block of a trial."""

    latencies: List[float]  # microseconds of each look-up scheduled in the block, sorted
    aggregates: float  # a second; of one that began or ended outside, the share within
    had: float  # the part of all processors' time that the server's processes used
    took: List[float] = field(default_factory=list)  # milliseconds of each aggregate that ended in the block, sorted

    def quantile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]

    def values(self) -> List[float]:
        """Mean, 95th and 99th percentile, aggregates a second."""
        mean = sum(self.latencies) / len(self.latencies)
        return [mean, self.quantile(0.95), self.quantile(0.99), self.aggregates]


class Load:
    """Runs as long as its context; blocks are cut out of it."""

    def __init__(
        self, server: Server, folder: Path, rate: int, parallel: bool, elsewhere: bool,
        clients: int = HEAVY_CLIENTS, aggregate: str = AGGREGATE,
    ):  # fmt: skip
        self._server, self._folder, self._rate = server, folder, rate
        self._parallel, self._elsewhere = parallel, elsewhere
        self._clients, self._statement = clients, aggregate
        self._done: List[Tuple[float, float]] = []
        self._stop = False
        self.heavy: List[int] = []
        self.light: List[int] = []

    @contextlib.contextmanager
    def running(self) -> Iterator["Load"]:
        connections = [self._server.connect() for _ in range(self._clients)]
        for connection in connections:
            connection.query(f"set max_parallel_workers_per_gather = {2 if self._parallel else 0}")
        self.heavy = [connection.backend for connection in connections]
        threads = [threading.Thread(target=self._aggregate, args=(one,), daemon=True) for one in connections]
        script = self._folder / "lookup.sql"
        script.write_text(LOOKUP)
        command = [
            self._server.program("pgbench"), "-n", "-M", "prepared", "-c", LIGHT_CLIENTS, "-R", self._rate, "-T", 3600,
            "-f", script, "-l", "--log-prefix", self._folder / "lookups",
        ]  # fmt: skip
        pgbench = subprocess.Popen(
            list(map(str, command)), env=self._server.environment(), cwd=self._folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_first if self._elsewhere else None,
        )  # fmt: skip
        try:
            for thread in threads:
                thread.start()
            self.light = self._lookup_backends()
            yield self
            if pgbench.poll() is not None:
                raise Trouble(f"pgbench ended: exit status {pgbench.returncode}")
        finally:
            self._stop = True
            pgbench.kill()
            pgbench.wait()
            for thread in threads:
                thread.join(timeout=30)
            for connection in connections:
                connection.close()
            for log in self._logs():
                log.unlink()

    def block(self, seconds: float) -> Block:
        """Measures the next seconds."""
        begin, cpu = time.time(), self._cpu_seconds()
        time.sleep(seconds)
        end, had = time.time(), self._cpu_seconds() - cpu
        time.sleep(FLUSH_SECONDS)
        latencies = sorted(self._latencies(begin, end))
        if not latencies:
            raise Trouble("no look-up ended in a block")
        done = list(self._done)
        rate = sum(_within(one, begin, end) for one in done) / (end - begin)
        took = sorted((ended - begun) * 1e3 for begun, ended in done if begin <= ended < end)
        return Block(latencies, rate, had / (end - begin) / (os.cpu_count() or 1), took)

    def _cpu_seconds(self) -> float:
        """CPU seconds of the server so far: permanent processes, and ended workers through the first process."""
        living = sum(map(cpu_seconds, self.light + self.heavy))
        return living + cpu_seconds_with_dead_children(self._server.postmaster)

    def _aggregate(self, connection) -> None:  # type: ignore[no-untyped-def]
        while not self._stop:
            begin = time.time()
            connection.query(self._statement)
            self._done.append((begin, time.time()))

    def _lookup_backends(self) -> List[int]:
        asking = self._server.connect()
        try:
            for _ in range(100):
                rows = asking.query("select pid from pg_stat_activity where application_name = 'pgbench'")
                if len(rows) == LIGHT_CLIENTS:
                    return [int(row[0]) for row in rows]
                time.sleep(0.1)
        finally:
            asking.close()
        raise Trouble("pgbench does not connect")

    def _logs(self) -> List[Path]:
        return list(self._folder.glob("lookups.*"))

    def _latencies(self, begin: float, end: float) -> Iterator[float]:
        # client, number, latency from the intended start in us, script, end in s and us, how late it began in us
        for log in self._logs():
            for line in log.read_text().splitlines():
                words = line.split()
                if len(words) == 7 and begin <= int(words[4]) + (int(words[5]) - int(words[2])) / 1e6 < end:
                    yield float(words[2])


def _within(one: Sequence[float], begin: float, end: float) -> float:
    """The part of an aggregate that lies in the block."""
    return max(0.0, min(one[1], end) - max(one[0], begin)) / (one[1] - one[0])


def _first() -> None:
    """Gives a process priority over all other threads of this machine, if that is allowed."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
