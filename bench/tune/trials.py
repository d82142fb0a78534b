"""Trials of `hardmeter tune try` in numbers: killed at random moments, and of a change that does nothing."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple, TypeVar

import bed
import cures
import evidence
from bed import Bed
from figure import Bar, Figure
from processes import Trouble, children, run
from servers import HARDMETER, Playground

Say = Callable[[str], None]
Result = TypeVar("Result")

# Trials last as long as their blocks, whatever else the machine does: several servers are used at once.
SERVERS = 4
PACE = ["--block", "0.5", "--settle", "0.1"]
# Few transactions: trials on several servers must not load the machine.
LOAD = ["pgbench", "-n", "-c", "1", "-R", "200", "-T", "600"]
# What is killed beside the tuner: each kind as often as the other.
VICTIMS = ("the tuner", "its watchdog, too", "the server, too", "its watchdog and the server, too")

STATE = """
    SELECT 'value', name, setting, source FROM pg_settings WHERE source NOT IN ('client', 'session')
    UNION ALL SELECT 'valid', indexrelid::regclass::text, indisvalid::text, '' FROM pg_index WHERE indexrelid > 16383
    UNION ALL SELECT 'schema', nspname, '', '' FROM pg_namespace WHERE nspname NOT LIKE 'pg_%temp%'
    ORDER BY 1, 2, 3, 4
"""
ORDERS = ["CREATE TABLE ox AS SELECT i AS id, i % 2000 AS customer FROM generate_series(1, 30000) i", "VACUUM ANALYZE ox"]
MISSING = "\\set c random(0, 1999)\nSELECT id FROM ox WHERE customer = :c;\n"


class Tried:
    """A server with a ledger of its own, on which trials are made."""

    def __init__(self, server: bed.TunedServer):
        self.server = server
        self._environment = dict(server.environment(), XDG_STATE_HOME=str(server.folder.with_suffix(".state")))

    def words(self, action: str, *words: str) -> List[str]:
        return [str(HARDMETER), "--quiet", "tune", action, *words, "--server", str(self.server.folder)]

    def start(self, *words: str) -> subprocess.Popen:
        """A trial under a load; the words are those of `tune try` before the load."""
        end = words.index("--") if "--" in words else len(words)
        command = self.words("try", *words[:end], "--yes", *PACE, "--format", "json") + ["--", *LOAD, *words[end + 1 :]]
        return subprocess.Popen(
            command,
            env=self._environment,
            start_new_session=True,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def undo(self) -> None:
        """Undoes what is open, with patience for a server that recovers and for a backend that ends."""
        end = time.monotonic() + 60
        while True:
            try:
                run(self.words("undo"), env=self._environment)
                return
            except Trouble:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def open_entries(self) -> int:
        log = json.loads(run([HARDMETER, "--quiet", "tune", "log", "--format", "json"], env=self._environment))
        return sum(entry["closed"] is None for entry in log["entries"])

    def state(self) -> list:
        """All that a trial may change."""
        lines = (self.server.data / "postgresql.auto.conf").read_text().splitlines()
        return [sorted(lines), self.server.query(cures.STATE), self.server.query(STATE)]

    def watchdogs(self) -> List[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if b"watchdog" in words and str(self.server.folder).encode() in words:
                    found.append(int(entry.name))
        return found


def _on_servers(playground: Playground, count: int, task: Callable[[Tried, int], Result]) -> Iterator[Result]:
    """The results of `task` for each number below `count`, on several servers at once."""
    with contextlib.ExitStack() as stack:
        servers = [
            Tried(stack.enter_context(bed.running(playground, Bed(f"tune-trials-{number}", 1)))) for number in range(SERVERS)
        ]
        free = list(servers)
        lock = threading.Lock()

        def one(number: int) -> Result:
            with lock:
                server = free.pop()
            try:
                return task(server, number)
            finally:
                with lock:
                    free.append(server)

        with ThreadPoolExecutor(SERVERS) as workers:
            yield from workers.map(one, range(count))


def _kill_server(server: bed.TunedServer) -> None:
    """Kills its first process, and starts it again once that process and its children are gone."""
    first = int((server.data / "postmaster.pid").read_text().split()[0])
    rest = [first, *children(first)]
    os.kill(first, signal.SIGKILL)
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in rest) and time.monotonic() < end:
        time.sleep(0.1)
    server.restart()


def _kill(tried: Tried, number: int) -> Tuple[str, bool]:
    """Kills a trial at a moment between its start and eight seconds later, and undoes it; returns the words for it and
    whether an entry was open then. The words begin with "differs" if the state is not that of before.
    """
    dice = random.Random(number)
    moment, victim, index = dice.uniform(0, 8), dice.choice(VICTIMS), dice.random() < 0.5
    if index:
        for sql in ORDERS if not tried.server.query("SELECT FROM pg_class WHERE relname = 'ox'") else []:
            tried.server.query(sql)
    script = tried.server.folder.with_suffix(".sql")
    script.write_text(MISSING)
    words = ["missing-index", "--seconds", "1", "--", "-f", str(script)] if index else ["--set", "work_mem=64MB", "--", "-S"]
    before = tried.state()
    trial = tried.start(*words)
    time.sleep(moment)
    if "watchdog" in victim:
        for pid in tried.watchdogs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    trial.kill()
    if "server" in victim:
        _kill_server(tried.server)
    trial.communicate()
    open_entries = tried.open_entries()
    tried.undo()
    end = time.monotonic() + 10
    # A reload takes a moment to reach a session.
    while (after := tried.state()) != before and time.monotonic() < end:
        time.sleep(0.2)
    said = f"kill {number}: {victim}, {'an index' if index else 'a setting'}, after {moment:.1f} s"
    return (said if after == before else f"differs: {said}: {before} {after}"), open_entries > 0


def kills(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """How many of 100 killed trials leave the state of before."""
    count = 8 if quick else 100
    same, was_open = 0, 0
    for said, is_open in _on_servers(playground, count, _kill):
        say(said)
        same += not said.startswith("differs")
        was_open += is_open
    say(f"{was_open} of {count} were open after the kill")
    what = f"settings and schema after `tune undo` as before; {was_open} were open after the kill"
    yield Figure("killed trials that leave all as before", same, f"of {count}", count, what, Bar(count, False))


def _nothing(tried: Tried, number: int) -> str:
    """The verdict on a change that does nothing for the load."""
    trial = tried.start("--set", "cursor_tuple_fraction=0.2", "--", "-S")
    output, complaint = trial.communicate()
    if trial.returncode not in (0, 1) or not output:
        raise Trouble(f"trial {number}: exit status {trial.returncode}\n{complaint}")
    page = json.loads(output)
    if page.get("closed") != "undone":
        raise Trouble(f"trial {number} was not undone: {output}")
    return page["result"]["verdict"]


def alike(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """How many of 200 trials of nothing are called a gain or a loss."""
    count = 4 if quick else 200
    verdicts: Dict[str, int] = {}
    for number, verdict in enumerate(_on_servers(playground, count, _nothing), 1):
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        say(f"trial {number} of nothing: {verdict}; {verdicts}")
    wrong = verdicts.get("better", 0) + verdicts.get("worse", 0)
    what = "trials of a change that does nothing, called: " + ", ".join(f"{name} {n}" for name, n in sorted(verdicts.items()))
    interval = evidence.share_interval(wrong, count)
    percent = interval and (interval[0] * 100, interval[1] * 100)
    yield Figure("trials of nothing called a gain or a loss", 100 * wrong / count, "%", count, what, Bar(5.0), percent)
