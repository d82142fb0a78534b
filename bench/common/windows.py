"""Measurement windows during one pgbench run, with and without a recording.

Neighbours in time are two to four seconds apart, and no window pays for connecting or for cold caches. pgbench itself reports
its throughput once a second.

    pgbench     |....|....|....|....|....|....|....|....|....|      a progress line each second
    recording    [ attach |-- counted --] [ attach |-- counted --]
"""

import contextlib
import queue
import random
import statistics
import subprocess
import threading
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from figure import interleaved
from processes import Trouble, cpu_seconds
from servers import Server

CLIENTS = 2
COUNTED = 2  # seconds of each window; attaching takes less than the preceding second

# "select" is CPU-bound and steady; "tpcb" is pgbench's default, which also waits for locks and the log.
SCRIPTS: Dict[str, List[str]] = {"select": ["--select-only"], "tpcb": []}


@dataclass
class Window:
    """A few seconds of pgbench, with a recording or without."""

    per_second: float
    recorder: float  # CPU seconds a second
    backends: float  # CPU seconds a transaction


@dataclass
class Block:
    """The windows of one ABBA block, the mean of each way's two."""

    of: Dict[str, Window]

    def throughput_less(self, way: str, to: str) -> float:
        """The lost throughput in percent."""
        return (1 - self.of[way].per_second / self.of[to].per_second) * 100

    def backends_more(self, way: str, to: str) -> float:
        """Additional CPU time per transaction in percent."""
        return (self.of[way].backends / self.of[to].backends - 1) * 100

    def recorder_more(self, way: str, to: str) -> float:
        """CPU time of the recorder, in percent of one processor."""
        return (self.of[way].recorder - self.of[to].recorder) * 100


def blocks_of(
    server: Server, script: str, ways: Dict[str, Optional[Sequence]], count: int, say: Callable[[str], None]
) -> List[Block]:
    """`blocks` ABBA blocks during one pgbench run. A way is the command of a recording that lasts until `cat`, its
    last word, ends; or None: no recording.
    """
    chance = random.Random(1)
    blocks: List[Block] = []
    with _Pgbench(server, SCRIPTS[script]) as pgbench:
        for number in range(count):
            say(f"pgbench {script}: block {number + 1} of {count}")
            windows: Dict[str, List[Window]] = {way: [] for way in ways}
            for way in interleaved(list(ways), chance):
                windows[way].append(_window(pgbench, ways[way]))
            blocks.append(Block({way: _mean(pair) for way, pair in windows.items()}))
    return blocks


def _mean(windows: List[Window]) -> Window:
    def of(name: str) -> float:
        return statistics.mean(getattr(window, name) for window in windows)

    return Window(of("per_second"), of("recorder"), of("backends"))


def _window(pgbench: "_Pgbench", command: Optional[Sequence]) -> Window:
    with contextlib.nullcontext() if command is None else _recording(command) as recorder:

        def recorder_cpu() -> float:
            return 0.0 if recorder is None else cpu_seconds(recorder)

        pgbench.settle()
        recorder_before, backends_before = recorder_cpu(), pgbench.backends_cpu()
        per_second = statistics.mean(pgbench.seconds(COUNTED))
        taken = (recorder_cpu() - recorder_before) / COUNTED
        backends = (pgbench.backends_cpu() - backends_before) / (per_second * COUNTED)
    return Window(per_second, taken, backends)


@contextlib.contextmanager
def _recording(command: Sequence) -> Iterator[int]:
    """Runs a recorder; yields its process."""
    words = " ".join(map(str, command))
    recorder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        # cat's echo shows that the recording has begun.
        recorder.stdin.write(b"ready\n")
        recorder.stdin.flush()
        if recorder.stdout.readline() != b"ready\n":
            raise Trouble(f"{words}: the recording did not begin")
        yield recorder.pid
    finally:
        recorder.stdin.close()
        recorder.stdout.close()
        recorder.wait(timeout=60)
    if recorder.returncode != 0:
        raise Trouble(f"{words}: exit status {recorder.returncode}")


class _Pgbench:
    """A pgbench that runs as long as needed."""

    def __init__(self, server: Server, options: List[str]):
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
        """Transactions per second in the next seconds, by pgbench's count."""
        try:
            return [self._rates.get(timeout=30) for _ in range(count)]
        except queue.Empty:
            raise Trouble("pgbench tells nothing any more\n  remedy: see the server's log") from None

    def backends_cpu(self) -> float:
        """CPU seconds of the server's processes so far. pgbench's backends run as long as it does."""
        return sum(cpu_seconds(process) for process in self._server.processes())
