"""Three ways to run the same load: the kernel alone, policy `time`, and classes set by hand.

By hand is what users set in UFS (arXiv 2605.02377) by SQL functions, with the means of a stock kernel: sessions that a person knows to be
heavy are in the background (SCHED_IDLE), those that are known to be light have the shortest time slice.
"""

import contextlib
import ctypes
import os
import shutil
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List

from processes import children
from servers import Server
from slices_load import Load

SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
SHORTEST_US = 100


# After policy `time`, each backend takes its slice and class back when its next request begins.
TAKEN_BACK = 1.0


class Arms:
    """Switches between the three ways; with `stock` the module is loaded and measures, but changes nothing."""

    def __init__(self, server: Server, load: Load):
        self._server, self._load = server, load
        self._stop = threading.Event()
        self._by_hand = False
        self._apply: Dict[str, Callable[[], None]] = {"stock": self._stock, "time": self._time, "by hand": self._hand}

    @contextlib.contextmanager
    def watching(self, parallel: bool) -> Iterator["Arms"]:
        """Parallel workers are new processes, so without the policy they must be searched for ten times a second."""
        thread = threading.Thread(target=self._watch_workers, daemon=True)
        if parallel:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            if parallel:
                thread.join(timeout=10)

    def switch(self, arm: str) -> None:
        self._apply[arm]()

    def _stock(self) -> None:
        self._place(False)

    def _time(self) -> None:
        self._place(True)

    def _hand(self) -> None:
        self._place(False)
        time.sleep(TAKEN_BACK)
        for backend in self._load.light:
            set_attributes(backend, os.SCHED_OTHER, SHORTEST_US)
        for backend in self._load.heavy:
            set_attributes(backend, os.SCHED_IDLE, 0)
        self._by_hand = True

    def _place(self, on: bool) -> None:
        self._by_hand = False
        for backend in self._load.light + self._load.heavy:
            set_attributes(backend, os.SCHED_OTHER, 0)
        session = self._server.connect()
        try:
            session.query(f"alter system set split.place = {'on' if on else 'off'}")
            session.query("select pg_reload_conf()")
        finally:
            session.close()

    def _watch_workers(self) -> None:
        known: set = set()
        while not self._stop.wait(0.1):
            if not self._by_hand:
                known.clear()
                continue
            for process in set(_parallel_workers(self._server)) - known:
                known.add(process)
                set_attributes(process, os.SCHED_IDLE, 0)


def _parallel_workers(server: Server) -> Iterator[int]:
    for process in children(server.postmaster):
        with contextlib.suppress(OSError):
            if b"parallel worker" in Path(f"/proc/{process}/cmdline").read_bytes():
                yield process


def set_attributes(process: int, policy: int, slice_us: int) -> None:
    """Sets a class and a time slice (0: the kernel's). Does nothing if the process has just ended."""
    attributes = struct.pack("IIQiIQQQ", 48, policy, 0, 0, 0, slice_us * 1000, 0, 0)
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(SCHED_SETATTR[os.uname().machine], process, attributes, 0) != 0:
        error = ctypes.get_errno()
        if error != 3:  # ESRCH
            raise OSError(error, os.strerror(error), f"sched_setattr of {process}")


class NiceServer(Server):
    """A server whose threads may come back from the background: a copy of its program has CAP_SYS_NICE, where root may give that
    (`setcap`). In production that is `LimitNICE=+0` of the systemd unit. Without the right it is a server like any other."""

    def make(self) -> None:
        super().make()
        self._programs.mkdir(mode=0o755, exist_ok=True)
        copy = self._programs / "postgres"
        shutil.copy2(self.program("postgres"), copy)
        done = subprocess.run(["setcap", "cap_sys_nice+ep", copy], stderr=subprocess.DEVNULL, check=False)
        self._may = done.returncode == 0

    def programs(self) -> list:
        return ["--programs", self._programs] if getattr(self, "_may", False) else []


class Group:
    """A cpu cgroup for the server alone, like that of a container or a systemd unit. Needs root."""

    def __init__(self, name: str):
        first = Path("/sys/fs/cgroup/cpu")
        self._root = first if first.is_dir() else Path("/sys/fs/cgroup")
        self._folder = self._root / name

    def __enter__(self) -> "Group":
        if not (self._root / "cpu.shares").exists():
            (self._root / "cgroup.subtree_control").write_text("+cpu")
        self._folder.mkdir()
        return self

    def __exit__(self, *_) -> None:
        for process in self._processes():
            with contextlib.suppress(OSError):
                (self._root / "cgroup.procs").write_text(process)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def take(self, processes: List[int]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                (self._folder / "cgroup.procs").write_text(str(process))

    def _processes(self) -> List[str]:
        return (self._folder / "cgroup.procs").read_text().split()
