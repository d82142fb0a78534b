"""Locks under admission: 1,000 transactions with row locks, advisory locks, contended LWLocks and DDL, one place for long statements.

No process may wait for a statement that is held back. A hundred times a second the bench looks whether a process waits for a
lock of one that is held back, and for how long. No transaction may end in a deadlock: they take their locks in one order.
"""

import random
import threading
import time
from typing import Callable, Dict, List, Tuple

from figure import Bar, Figure
from mixes import analyzer
from postgres import Connection, PostgresError
from processes import Trouble
from servers import Playground, Server
from slices import SERIAL, module, serving

CLIENTS = 8
BAR_MS = Bar(100)
LOOK_SECONDS = 0.01
STATISTICS_SECONDS = 1.5  # a server counts its deadlocks within a second
TABLES = """
create table if not exists locked as select i as id, 0 as n, repeat('x', 50) as filler from generate_series(1, 2000) i;
create unique index if not exists locked_id on locked (id);
create table if not exists storm (id bigint, filler text);
create index if not exists storm_id on storm (id);
"""
# Some tens of milliseconds of processor time: the long kinds.
LONG = "select sum(one.n) from locked one, generate_series(1, 200) i"
STORM = "insert into storm select (random() * 1e9)::bigint, repeat('y', 50) from generate_series(1, 10000)"
SHORT = "select n from locked where id = 7"
HELD = """
select waiting.pid, held.pid from pg_stat_activity waiting, unnest(pg_blocking_pids(waiting.pid)) blocking, pg_stat_activity held
where waiting.wait_event_type = 'Lock' and held.pid = blocking and held.wait_event_type = 'Extension'
"""


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Deadlocks, failures, the longest wait for a statement that is held back, and how often one was held back."""
    runs = 100 if quick else 1000
    with serving(SERIAL, playground) as (server, segments):
        control = server.connect()
        prepare(control)
        with analyzer(segments, "admit", False, ["--admit", "1"]):
            until_limited(control)
            say("locks: long statements wait for one place")
            before = counters(control)
            trial = Trial(server, runs)
            begun = time.monotonic()
            trial.run()
            took = time.monotonic() - begun
            time.sleep(STATISTICS_SECONDS)
            after = counters(control)
        control.close()
    counted = {name: after[name] - before[name] for name in after}

    def count(name: str, counter: str, what: str) -> Figure:
        return Figure(f"locks: {name}", counted[counter], "", runs, what)

    failed = f"with {counted['deadlocks']} deadlocks; {'; '.join(trial.failures[:3])}"
    seen = f"the longest time that a process waited for one held back, by {trial.looks} looks"
    return [
        Figure("locks: transactions that ended", trial.done, "", runs, f"in {took:.0f} s", Bar(runs, at_most=False)),
        Figure("locks: failed", len(trial.failures), "", runs, failed, Bar(0)),
        Figure("locks: longest wait for one held back", trial.longest() * 1e3, "ms", len(trial.waits), seen, BAR_MS),
        count("held back", "admission_waits", "statements that waited for a place"),
        count("went on for others", "admission_for_others", "since others waited for them"),
        count("not held back", "admission_exempt", "with locks or in transactions"),
        count("after their limit", "admission_late", "held back for a second"),
    ]


class Trial:
    """Clients that share a number of transactions, and one that looks who waits for whom."""

    def __init__(self, server: Server, runs: int):
        self._server, self._left = server, runs
        self._lock, self._over = threading.Lock(), threading.Event()
        self.done, self.looks = 0, 0
        self.failures: List[str] = []
        self.waits: List[float] = []  # seconds of each wait for one that is held back

    def run(self) -> None:
        clients = [threading.Thread(target=self._client, args=(number,), daemon=True) for number in range(CLIENTS)]
        looking = threading.Thread(target=self._look, daemon=True)
        for thread in (looking, *clients):
            thread.start()
        for thread in clients:
            thread.join(timeout=600)
        self._over.set()
        looking.join(timeout=30)

    def longest(self) -> float:
        return max(self.waits, default=0.0)

    def _client(self, number: int) -> None:
        connection, chance = self._server.connect(), random.Random(number)
        kinds = (_rows, _advisory, _storm, _ddl, _plain, _plain, _plain)
        while True:
            with self._lock:
                if self._left == 0:
                    break
                self._left -= 1
            try:
                chance.choice(kinds)(connection, chance)
                with self._lock:
                    self.done += 1
            except PostgresError as error:
                self.failures.append(str(error))
                connection.query("rollback")
        connection.close()

    def _look(self) -> None:
        connection = self._server.connect()
        since: Dict[Tuple[str, str], float] = {}
        while not self._over.wait(LOOK_SECONDS):
            now, seen = (
                time.monotonic(),
                {(row[0], row[1]) for row in connection.query(HELD)},
            )
            self.looks += 1
            for pair in seen - since.keys():
                since[pair] = now
            for pair in since.keys() - seen:
                self.waits.append(now - since.pop(pair))
        self.waits.extend(time.monotonic() - begun for begun in since.values())
        connection.close()


def _rows(connection: Connection, chance: random.Random) -> None:
    """Two rows, the lower number first, and a long statement between: it has a transaction id and is not held back."""
    first, second = sorted(chance.sample(range(1, 20), 2))
    connection.query("begin")
    connection.query(f"update locked set n = n + 1 where id = {first}")
    connection.query(LONG)
    connection.query(f"update locked set n = n + 1 where id = {second}")
    connection.query("commit")


def _advisory(connection: Connection, chance: random.Random) -> None:
    key = chance.randint(1, 3)
    connection.query(f"select pg_advisory_lock({key})")
    connection.query(LONG)
    connection.query(f"select pg_advisory_unlock({key})")


def _storm(connection: Connection, chance: random.Random) -> None:
    connection.query(STORM)


def _ddl(connection: Connection, chance: random.Random) -> None:
    """Waits for all that read the table, also for those that are held back."""
    connection.query("alter table locked set (fillfactor = 90)" if chance.random() < 0.5 else "analyze locked")
    connection.query("begin")
    connection.query("lock table locked in access exclusive mode")
    connection.query("commit")


def _plain(connection: Connection, chance: random.Random) -> None:
    connection.query(LONG)
    connection.query(SHORT)


def prepare(control: Connection) -> None:
    """The tables, and the module's counters, without CREATE EXTENSION, whose files are where packages are installed."""
    for statement in filter(str.strip, TABLES.split(";")):
        control.query(statement)
    function = "create or replace function split_status(out name text, out value text) returns setof record"
    control.query(f"{function} as '{module()}', 'split_status' language c")


def until_limited(control: Connection) -> None:
    """Until the analyzer knows that LONG and STORM are long."""
    for _ in range(200):
        for statement in [SHORT] * 10 + [LONG, STORM]:
            control.query(statement)
        if _is_limited(control):
            return
        time.sleep(0.1)
    raise Trouble("no statement was limited\n  remedy: see analyzer.log in the folder of the segments")


def _is_limited(control: Connection) -> bool:
    """A long statement that may not be held back counts as exempt, if its kind is limited."""
    before = counters(control)["admission_exempt"]
    control.query("begin")
    control.query("select 1")
    for statement in (LONG, STORM):
        control.query(statement)
    control.query("rollback")
    return counters(control)["admission_exempt"] == before + 2


def counters(control: Connection) -> Dict[str, int]:
    """Of admission, and deadlocks of the database."""
    names = "'admission_waits', 'admission_for_others', 'admission_exempt', 'admission_late', 'admission_waiting'"
    rows = control.query(f"select name, value from split_status() where name in ({names})")
    deadlocks = control.query("select deadlocks from pg_stat_database where datname = current_database()")
    return {
        "deadlocks": int(deadlocks[0][0]),
        **{name: int(value) for name, value in rows},
    }
