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
    """Something that this measurement needs went wrong; the text names cause and remedy."""


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads so far, in nanoseconds' resolution.

    `/proc/PID/stat` counts in ticks of 10 ms: too coarse for one transaction.
    """
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def settled_cpu_seconds(pid: int) -> float:
    """CPU time of a process once it sleeps: after its answer has arrived, a server still has things to put away."""
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
    """CPU time of a process and of those children that ended and were waited for; the latter in ticks of 10 ms."""
    fields = _stat(pid)
    # Fields 16 and 17 of proc(5), cutime and cstime; the first here is number 3.
    dead = (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND
    return cpu_seconds(pid) + dead


def children(pid: int) -> List[int]:
    """The children of a process, those included that ended and were not yet waited for."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def _stat(pid: int) -> List[str]:
    """The fields of `/proc/PID/stat` from the third on: the second, the name, may itself hold blanks and brackets."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 1 :].split()


@dataclass
class Used:
    """What a command used."""

    cpu_seconds: float
    peak_bytes: int


# Runs a command and prints what it used. The kernel's peak begins with that of the process that forked, and this
# program has grown by then; an interpreter without modules has some 9 MB, less than anything measured here.
LAUNCHER = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(child, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) and 1)
"""


def run_measured(words: Sequence, environment=None) -> Used:
    """Runs a command to its end, its output thrown away; its CPU time and peak memory, children's included."""
    output = run([sys.executable, "-I", "-S", "-c", LAUNCHER, *words], env=environment)
    cpu, peak = output.split()
    return Used(float(cpu), int(peak) * 1024)


def run(words: Sequence, statuses: Sequence[int] = (0,), **options) -> str:
    """Runs a command, which ends with one of the statuses; its standard output. It has a session of its own: Ctrl-C is
    for us to handle."""
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
            # Gently: hardmeter then brings a server that it restarted back to where it was.
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode not in statuses:
        raise Trouble(f"{' '.join(map(str, words))}: exit status {process.returncode}\n{complaint.strip()}")
    return output
