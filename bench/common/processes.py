"""CPU time of processes, from `/proc`, and of commands, from `wait4`."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import List, Sequence

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Trouble(Exception):
    """A failure of a measurement; the text has cause and remedy."""


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads so far, with nanosecond resolution.

    `/proc/PID/stat` counts in ticks of 10 ms: too coarse for one transaction.
    """
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def settled_cpu_seconds(pid: int) -> float:
    """CPU time of a process once it sleeps: after its answer a server still does cleanup work."""
    deadline = time.monotonic() + 10
    last = -1.0
    while time.monotonic() < deadline:
        state = _stat(pid)[0]
        if state in "ZX":
            raise ProcessLookupError(f"process {pid} has ended")
        if state == "S":
            now = cpu_seconds(pid)
            if now == last:
                return now
            last = now
        time.sleep(0.001)
    raise Trouble(f"process {pid} does not come to rest\n  remedy: see what else uses this server")


def cpu_seconds_with_dead_children(pid: int) -> float:
    """CPU time of a process and of its reaped children; the latter in ticks of 10 ms."""
    fields = _stat(pid)
    # Fields 16 and 17 of proc(5), cutime and cstime; the list starts at field 3.
    dead = (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND
    return cpu_seconds(pid) + dead


def children(pid: int) -> List[int]:
    """The children of a process, including ended ones that are not reaped yet."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def _stat(pid: int) -> List[str]:
    """The fields of `/proc/PID/stat` from the third on: the second, the name, may contain blanks and brackets."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 1 :].split()


@dataclass
class Used:
    """The resources that a command used."""

    cpu_seconds: float
    peak_bytes: int


# Runs a command and prints its resource use. The kernel's peak starts at that of the forking process, and this
# program is large; an interpreter without modules has about 9 MB, less than any measured program.
LAUNCHER = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(child, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


def run_measured(words: Sequence, environment=None) -> Used:
    """Runs a command to its end and discards its output; returns its CPU time and peak memory, children included."""
    output = run([sys.executable, "-I", "-S", "-c", LAUNCHER, *words], env=environment)
    cpu, peak = output.split()
    return Used(float(cpu), int(peak) * 1024)


def run(words: Sequence, statuses: Sequence[int] = (0,), **options) -> str:
    """Runs a command, which must end with one of the statuses; returns its standard output. It has its own session,
    so that Ctrl-C is handled here.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        **options,
    ) as process:
        try:
            output, complaint = process.communicate()
        except BaseException:
            # SIGINT first: hardmeter then restores a server that it restarted.
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode not in statuses:
        raise Trouble(f"{' '.join(map(str, words))}: exit status {process.returncode}\n{complaint.strip()}")
    return output
