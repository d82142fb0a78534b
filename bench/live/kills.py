"""What a server notices when its recorder is killed or stopped at a random moment: nothing.

    pgbench -S     |==================================================================|   its exit status, its longest latency
    watcher        state and time slices of each process of the server, every half millisecond, at real-time priority
    recorder       [start --- signal]  [start - signal]  [start ------- signal] ...        record --ghosts with stall samples
"""

import contextlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

import loads
from figure import Bar, Figure
from processes import Trouble
from servers import HARDMETER, Playground, Server

Say = Callable[[str], None]
Family = Dict[int, str]
LOOK_EVERY = 0.0005
# A recording begins with its self-test and a look into the server: both are among the moments.
LONGEST = 4.0
PATIENCE = 15.0


@dataclass
class Seen:
    """What the watcher saw of the server's processes."""

    looks: int = 0
    standing: int = 0
    """Looks at which a process stood."""
    longest: float = 0.0
    """Seconds between the first and the last look at one stop: it took that long at least."""
    at_most: float = 0.0
    """Seconds from the look before a stop to the one behind it."""
    gap: float = 0.0
    """The longest time between two looks, in seconds."""
    ended: Set[int] = field(default_factory=set)


def measure(playground: Playground, quick: bool, say: Say) -> List[Figure]:
    """Kills, then stops. HARDMETER_KILLS and HARDMETER_STOPS set other numbers."""
    figures: List[Figure] = []
    with loads._server(playground).running() as server:
        for name, number, times in (
            ("SIGKILL", signal.SIGKILL, _times("HARDMETER_KILLS", 20 if quick else 1000)),
            ("SIGSTOP", signal.SIGSTOP, _times("HARDMETER_STOPS", 10 if quick else 100)),
        ):
            figures += _signals(server, name, number, times, say)
    return figures


def _times(variable: str, usual: int) -> int:
    return int(os.environ.get(variable) or usual)


def _signals(server: Server, name: str, number: int, times: int, say: Say) -> Iterator[Figure]:
    chance, left = random.Random(), 0
    victims: Dict[str, int] = {}
    with _load(server) as load:
        watched = server.processes()
        with _watcher(watched) as seen:
            for one in range(times):
                victim, remaining = _record_and_signal(server, number, chance, watched)
                victims[victim] = victims.get(victim, 0) + 1
                left += remaining
                if one % 10 == 9:
                    say(f"{name}: {one + 1} of {times}")
            lost = seen.ended | (set(watched) - set(server.processes()))
    of = ", ".join(f"{count} of {victim}" for victim, count in sorted(victims.items()))
    what = f"{name} at a random moment of record --ghosts beside pgbench -S -c 2: {of}"
    lost |= seen.ended
    yield Figure(f"{name}: backends lost", len(lost), "of all", times, what, Bar(0))
    yield Figure(f"{name}: errors at clients", load.errors, "errors", load.transactions, f"transactions; {what}", Bar(0))
    yield Figure(f"{name}: longest stop of a backend", 1000 * seen.longest, "ms", times, what, Bar(20))
    yield Figure(f"{name}: traced or recording afterwards", left, "left", times, what, Bar(0))
    yield Figure(f"{name}: longest stop, at most", 1000 * seen.at_most, "ms", times, "from the look before to the look behind")
    yield Figure(f"{name}: longest latency", load.longest_ms, "ms", load.transactions, f"transactions; {what}")
    yield Figure(f"{name}: looks at stopped backends", seen.standing, "looks", seen.looks, "looks of the watcher")
    yield Figure(f"{name}: longest time without a look", 1000 * seen.gap, "ms", seen.looks, "looks of the watcher")


def _record_and_signal(server: Server, number: int, chance: random.Random, watched: List[int]) -> Tuple[str, int]:
    """One recording and one signal to one of its processes; returns which, and how much was left of it afterwards."""
    command = [str(HARDMETER), "--quiet", "record", "--ghosts", "-o", str(server.capture), "--server", str(server.folder)]
    recorder = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    family: Family = {}
    try:
        time.sleep(chance.uniform(0, LONGEST))
        family = _family(recorder.pid)
        others = [pid for pid in family if pid != recorder.pid]
        # The recorder itself in half of the cases, if it has others.
        pid = chance.choice(others) if others and chance.random() < 0.5 else recorder.pid
        victim = _name(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(chance.uniform(0.1, 1.0))
            # What it stopped must not need it: the rest is ended without being continued.
            _end(family)
        elif pid != recorder.pid:
            # The recorder goes on without its follower until it is ended.
            time.sleep(chance.uniform(0, 0.5))
            recorder.send_signal(signal.SIGINT)
        remaining = _wait_for(lambda: len(_living(family)))
        return victim, remaining + _wait_for(lambda: len([one for one in watched if _tracer(one)]))
    finally:
        _end({**family, **_family(recorder.pid)})
        recorder.wait()
        for partial in server.capture.parent.glob(server.capture.name + ".*.partial"):
            partial.unlink()


def _wait_for(count: Callable[[], int]) -> int:
    """What is left when it is time."""
    deadline = time.monotonic() + PATIENCE
    while (left := count()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _end(family: Family) -> None:
    for pid in _living(family):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _family(root: int) -> Family:
    """A process and its descendants, by number, with the time at which each began: a number may be used again."""
    stats = {int(folder.name): _stat(int(folder.name)) for folder in Path("/proc").iterdir() if folder.name.isdigit()}
    members = {root}
    while more := {pid for pid, fields in stats.items() if fields and int(fields[1]) in members} - members:
        members |= more
    return {pid: stats[pid][19] for pid in members if stats.get(pid)}


def _living(family: Family) -> List[int]:
    """Those that still run."""
    now = {pid: _stat(pid) for pid in family}
    return [pid for pid, began in family.items() if now[pid] and now[pid][0] not in "ZX" and now[pid][19] == began]


def _name(pid: int) -> str:
    """The name of a process of a recording; its follower has executed itself as `exe`."""
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return "hardmeter-ghost" if name == "exe" else name
    return "ended"


def _stat(pid: int) -> List[str]:
    """The fields of `/proc/PID/stat` from the third on; none if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 1 :].split()


def _tracer(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    tracer = re.search(r"TracerPid:\s*(\d+)", text)
    return int(tracer[1]) if tracer else 0


@dataclass
class Load:
    """pgbench, and what it reports at its end."""

    backends: Set[int] = field(default_factory=set)
    transactions: int = 0
    errors: int = 0
    longest_ms: float = 0.0


@contextlib.contextmanager
def _load(server: Server, clients: int = 2) -> Iterator[Load]:
    """pgbench -S with some clients."""
    before, prefix = set(server.processes()), server.capture.parent / "latency"
    command = ["pgbench", "-n", "-S", "-c", str(clients), "-T", "1000000"]
    command += ["--log", "--aggregate-interval=1", f"--log-prefix={prefix}"]
    output = subprocess.PIPE
    with subprocess.Popen(
        command, env=server.environment(), stdout=output, stderr=output, text=True, start_new_session=True
    ) as pgbench:
        try:
            load = Load()
            deadline, connected = time.monotonic() + 60, 0
            # Its first connection, which asks for the scale, does not stay.
            while connected < 10:
                if time.monotonic() > deadline or pgbench.poll() is not None:
                    raise Trouble("pgbench does not connect\n  remedy: see what the server's log says")
                time.sleep(0.1)
                backends = set(server.processes()) - before
                connected = connected + 1 if len(backends) == clients and backends == load.backends else 0
                load.backends = backends
            yield load
            pgbench.send_signal(signal.SIGALRM)  # the end of -T: it prints its summary
            said, complaints = pgbench.communicate(timeout=60)
        finally:
            pgbench.kill()
    counted = re.search(r"transactions actually processed: (\d+)", said)
    load.transactions = int(counted[1]) if counted else 0
    # Warnings are complaints, too: a client that lost its connection, a query that failed.
    load.errors = len([line for line in complaints.splitlines() if "error" in line.lower()])
    load.errors += int(pgbench.returncode != 0)
    logs = list(prefix.parent.glob(prefix.name + ".*"))
    seconds = [line.split() for log in logs for line in log.read_text().splitlines()]
    load.longest_ms = max((int(fields[5]) / 1000 for fields in seconds), default=0.0)
    for log in logs:
        log.unlink()


@contextlib.contextmanager
def _watcher(pids: List[int], every: float = LOOK_EVERY) -> Iterator[Seen]:
    """A process that looks at the server's all the time; the result is complete when the block ends."""
    context = multiprocessing.get_context("fork")
    own, other = context.Pipe()
    process = context.Process(target=_watch, args=(pids, other, every), daemon=True)
    process.start()
    seen = Seen()
    try:
        if not own.poll(30):
            raise Trouble("the watcher does not start")
        own.recv()
        yield seen
    finally:
        own.send(None)
        if own.poll(30):
            seen.__dict__.update(own.recv().__dict__)
        process.join(10)
        process.kill()


def _watch(pids: List[int], pipe: Pipe, every: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    files: Dict[int, Tuple[int, int]] = {
        pid: (os.open(f"/proc/{pid}/stat", os.O_RDONLY), os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)) for pid in pids
    }
    # A process that stands has the same number of time slices at each look.
    # Of each stop: the look before it, the first look at it, and the slices.
    stops: Dict[int, Optional[Tuple[float, float, bytes]]] = dict.fromkeys(pids)
    before: Dict[int, float] = dict.fromkeys(pids, time.monotonic())
    seen, last = Seen(), time.monotonic()
    pipe.send(None)
    while not pipe.poll(every):
        now = time.monotonic()
        seen.looks, seen.gap, last = seen.looks + 1, max(seen.gap, now - last), now
        for pid, (stat, schedule) in list(files.items()):
            try:
                text = os.pread(stat, 1024, 0)
                stands = text[text.rindex(b")") + 2 : text.rindex(b")") + 3] in b"tT"
                slices = os.pread(schedule, 128, 0).split()[2] if stands else b""
            except (ProcessLookupError, FileNotFoundError):
                seen.ended.add(pid)
                del files[pid]
                continue
            stop, now = stops[pid], time.monotonic()
            if stop and stop[2] != slices:
                seen.at_most = max(seen.at_most, now - stop[0])
                stop = None
            if stands:
                seen.standing += 1
                stops[pid] = stop = stop or (before[pid], now, slices)
                seen.longest = max(seen.longest, now - stop[1])
            else:
                stops[pid] = None
            before[pid] = now
    pipe.send(seen)
