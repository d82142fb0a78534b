"""What looking into a server costs it: pgbench under `hardmeter record` with and without object snapshots.

Both recordings are the same but for `--no-objects`: first touches of pages (page faults carry a data address, on any
machine) and the timer, so that there is something to look up.

One pgbench runs through a whole part, and recordings come and go beside it: neighbours in time are two to four seconds
apart, and no leg pays for connecting or for cold caches. pgbench itself tells its throughput once a second.

    pgbench     |....|....|....|....|....|....|....|....|....|      a progress line each second
    recording    [ attach |-- counted --] [ attach |-- counted --]
"""

import queue
import random
import statistics
import subprocess
import threading
from dataclasses import dataclass
from typing import Callable, Dict, List

from figure import Bar, Figure, interleaved
from processes import Trouble, cpu_seconds
from servers import HARDMETER, Playground, Server

BAR_PERCENT = 2.0
# "select" touches many buffers and is steady; "tpcb" is pgbench's default, which also waits for locks and the log.
SCRIPTS = {"select": ["--select-only"], "tpcb": []}
CLIENTS = 2
COUNTED = 2  # seconds of each recording; attaching has taken less than the second before


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Throughput lost to object snapshots, and where it goes."""
    blocks = 2 if quick else 24
    figures = []
    with playground.server("native").running() as server:
        record = [HARDMETER, "--quiet", "record", "--source", "hardware", "-e", "cpu-clock,page-faults"]
        record += ["-o", server.capture, "--server", server.folder]
        ways = {"without": [*record, "--no-objects", "--", "cat"], "with": [*record, "--", "cat"]}
        for name, options in SCRIPTS.items():
            figures += _script(server, name, options, ways, blocks, say)
    return figures


@dataclass
class Window:
    """Some seconds of pgbench beside a recording."""

    per_second: float
    recorder: float  # CPU seconds a second
    backends: float  # CPU seconds a transaction


def _script(server, name, options, ways, blocks: int, say) -> List[Figure]:
    chance = random.Random(1)
    less: List[float] = []
    recorder: List[float] = []
    backends: List[float] = []
    with _Pgbench(server, options) as pgbench:
        for block in range(blocks):
            say(f"object snapshots, pgbench {name}: block {block + 1} of {blocks}")
            windows: Dict[str, List[Window]] = {way: [] for way in ways}
            for way in interleaved(list(ways), chance):
                windows[way].append(_window(pgbench, ways[way]))

            def mean(way: str, of: str) -> float:
                return statistics.mean(getattr(window, of) for window in windows[way])

            less.append((1 - mean("with", "per_second") / mean("without", "per_second")) * 100)
            recorder.append((mean("with", "recorder") - mean("without", "recorder")) * 100)
            backends.append((mean("with", "backends") / mean("without", "backends") - 1) * 100)
    of = f"pgbench {name}, {CLIENTS} clients"
    return [
        Figure.of_blocks(
            f"snapshots, {name}: throughput",
            less,
            "% less",
            f"fewer transactions per second with object snapshots than without, {of}",
            Bar(BAR_PERCENT),
        ),
        Figure.of_blocks(
            f"snapshots, {name}: recorder's CPU",
            recorder,
            "% of one",
            f"CPU time that the recorder takes more with object snapshots, of one processor, beside {of}",
        ),
        Figure.of_blocks(
            f"snapshots, {name}: backends' CPU",
            backends,
            "% more",
            f"CPU time of the backends per transaction with object snapshots, to without, {of}",
        ),
    ]


def _window(pgbench: "_Pgbench", command: list) -> Window:
    recorder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        # cat's echo tells that the recording has begun.
        recorder.stdin.write(b"ready\n")
        recorder.stdin.flush()
        if recorder.stdout.readline() != b"ready\n":
            raise Trouble(f"{' '.join(map(str, command))}: the recording did not begin")
        pgbench.settle()
        recorder_before, backends_before = cpu_seconds(recorder.pid), pgbench.backends_cpu()
        per_second = statistics.mean(pgbench.seconds(COUNTED))
        taken = (cpu_seconds(recorder.pid) - recorder_before) / COUNTED
        backends = (pgbench.backends_cpu() - backends_before) / (per_second * COUNTED)
    finally:
        recorder.stdin.close()
        recorder.stdout.close()
        recorder.wait(timeout=60)
    if recorder.returncode != 0:
        raise Trouble(f"{' '.join(map(str, command))}: exit status {recorder.returncode}")
    return Window(per_second, taken, backends)


class _Pgbench:
    """pgbench, running for as long as it is needed."""

    def __init__(self, server: Server, options: list):
        self._server = server
        self._command = [server.program("pgbench"), "-n", "-c", str(CLIENTS), "-T", "36000", "-P", "1", *options]
        self._rates: "queue.Queue[float]" = queue.Queue()

    def __enter__(self) -> "_Pgbench":
        self._process = subprocess.Popen(
            self._command,
            env=self._server.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        self.settle()
        return self

    def __exit__(self, *_) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        # progress: 5.0 s, 18432.0 tps, lat 0.108 ms stddev 0.046, 0 failed
        for line in self._process.stderr:
            if line.startswith("progress:"):
                self._rates.put(float(line.split()[3]))

    def settle(self) -> None:
        """Waits for one to two seconds, to the end of one of pgbench's."""
        while not self._rates.empty():
            self._rates.get()
        self.seconds(2)

    def seconds(self, count: int) -> List[float]:
        """Transactions per second of the next seconds, as pgbench counts them."""
        try:
            return [self._rates.get(timeout=30) for _ in range(count)]
        except queue.Empty:
            raise Trouble("pgbench tells nothing any more\n  remedy: see the server's log") from None

    def backends_cpu(self) -> float:
        """CPU seconds of the server's processes so far. pgbench's backends live as long as it does."""
        return sum(cpu_seconds(process) for process in self._server.processes())
