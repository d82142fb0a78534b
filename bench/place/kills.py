"""The analyzer of policy `time` with admission, killed at any moment (SIGKILL), beside a server that goes on working.

After each kill: within a second no statement is held back, and the server's processes have their own time slice, class, nice and affinity;
at the end, /dev/shm has no files that were not there before.
"""

import ctypes
import os
import random
import struct
import threading
import time
from pathlib import Path
from typing import Callable, List, Set, Tuple

import locks
from figure import Bar, Figure
from mixes import analyzer
from processes import Trouble
from servers import Playground, Server
from slices import SERIAL, serving

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
ROUNDS, QUICK_ROUNDS = 200, 5
BAR_SECONDS = Bar(1.0)
Schedule = Tuple[int, int, int, int, Tuple[int, ...]]  # class, flags, nice, slice in ns, processors


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The longest time until all is as before, and what was left."""
    rounds, chance = QUICK_ROUNDS if quick else ROUNDS, random.Random(1)
    shared = _in_shared_memory()
    took: List[float] = []
    changed = waited = 0
    with serving(SERIAL, playground) as (server, segments):
        control = server.connect()
        locks.prepare(control)
        with Clients(server) as clients:
            own = {process: schedule(process) for process in clients.backends}
            for number in range(rounds):
                before = locks.counters(control)["admission_waits"]
                with analyzer(
                    segments,
                    "time",
                    False,
                    ["--admit", "1", "--interval", "100ms", "--no-probe"],
                ) as process:
                    _until(
                        lambda: any(schedule(one) != own[one] for one in own),
                        "a time slice",
                    )
                    time.sleep(chance.random())
                    changed += any(schedule(one) != own[one] for one in own)
                    process.kill()
                    killed = time.monotonic()
                # Every fourth time no statement begins that would notice the kill.
                clients.pause(number % 4 == 3)
                _until(
                    lambda: all(schedule(one) == own[one] for one in own),
                    "what the processes had before",
                )
                _until(
                    lambda: locks.counters(control)["admission_waiting"] == 0,
                    "an empty queue",
                )
                took.append(time.monotonic() - killed)
                clients.pause(False)
                waited += locks.counters(control)["admission_waits"] - before
                clients.until_all_go_on()
                if number % 20 == 19:
                    say(f"kills: {number + 1} of {rounds}, all as before after at most {max(took):.2f} s")
        control.close()
    what = f"until own slice, class, nice, affinity, and an empty queue; changed at {changed} of {rounds} kills, {waited} statements waited"
    left = sorted(_in_shared_memory() - shared)
    return [
        Figure("kills: longest until all is as before", max(took), "s", rounds, what, BAR_SECONDS),
        Figure("kills: left in /dev/shm", len(left), "files", rounds, ", ".join(left), Bar(0)),
    ]


class Clients:
    """Two clients of a long statement and two of a short one, until the end of the context."""

    def __init__(self, server: Server):
        self._connections = [server.connect() for _ in range(4)]
        self._paused, self._over = threading.Event(), threading.Event()
        self._answers = [0] * len(self._connections)
        self._threads = [threading.Thread(target=self._ask, args=(number,), daemon=True) for number in range(4)]
        self.failures: List[str] = []
        self.backends = [connection.backend for connection in self._connections]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:  # type: ignore[no-untyped-def]
        self._over.set()
        for thread, connection in zip(self._threads, self._connections):
            thread.join(timeout=30)
            connection.close()

    def pause(self, pause: bool) -> None:
        """No further statements, or statements again."""
        (self._paused.set if pause else self._paused.clear)()

    def until_all_go_on(self) -> None:
        """Each client gets another answer."""
        before = list(self._answers)
        _until(
            lambda: all(now > then for now, then in zip(self._answers, before)),
            "answers after a kill",
        )
        if self.failures:
            raise Trouble(f"a statement failed: {self.failures[0]}")

    def _ask(self, number: int) -> None:
        while not self._over.is_set():
            if self._paused.is_set():
                time.sleep(0.002)
                continue
            try:
                self._connections[number].query(locks.LONG if number < 2 else locks.SHORT)
            except Trouble as error:
                self.failures.append(str(error))
                return
            self._answers[number] += 1
            time.sleep(0.001)


def schedule(process: int) -> Schedule:
    """How the kernel schedules a process now."""
    attributes = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None, use_errno=True).syscall(SCHED_GETATTR[os.uname().machine], process, attributes, 48, 0) != 0:
        raise Trouble(f"sched_getattr of {process}: {os.strerror(ctypes.get_errno())}")
    _, policy, flags, nice, _, slice_ns = struct.unpack_from("IIQiIQ", attributes)
    return policy, flags, nice, slice_ns, tuple(sorted(os.sched_getaffinity(process)))


def _in_shared_memory() -> Set[str]:
    return {one.name for one in Path("/dev/shm").iterdir() if "split" in one.name or "hardmeter" in one.name}


def _until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        if time.monotonic() > deadline:
            raise Trouble(f"{what}: not within a minute")
        time.sleep(0.005)
