#!/usr/bin/env python3
"""Readers of the column cache beside writers: what must hold whatever the order of events.

    plan/test/cache-sessions [--seconds N]

Two writers move amounts between rows (so that the sum stays), insert pairs of rows that cancel each other, delete such
pairs, and roll some of it back; one vacuums. Three readers sum all rows, by whole statements, by cursors that are read in
steps, and in transactions that keep their snapshot. Each sum must be the one that was there in the beginning, and a
snapshot must see the same rows each time. A fourth reader is killed while it reads and fills; then the server restarts,
and the cache is empty and works.

Before that, four readers ask for six tables that do not fit the cache together, which two of them being the favourites for
a while: chunks are evicted while others are read, and each answer must be stock's.
"""

import argparse
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "differential"))

from libpq import Connection, ConnectionLost, SqlError  # noqa: E402

ROWS, AMOUNT = 6000, 100
LIMIT = 300  # seconds
TOTAL = ROWS * AMOUNT
READER = "SET ccopt.force = on; SET max_parallel_workers_per_gather = 0"
SUM = "SELECT sum(amount), sum(amount2)::bigint, count(*) - count(pair) FROM accounts"
TABLE = """
DROP TABLE IF EXISTS accounts;
CREATE TABLE accounts (id int, amount int, amount2 numeric(10,2), pair int, filler char(60) NOT NULL DEFAULT '');
CREATE INDEX ON accounts (id);
CREATE INDEX ON accounts (pair);
"""


class Stage:
    """What the threads share."""

    def __init__(self, conninfo: str, seconds: float):
        self.conninfo, self.seconds, self.goal, self.end, self.limit = conninfo, seconds, "", 0.0, 0.0
        self.wrong, self.counts, self.lock = [], {}, threading.Lock()

    def begin(self, goal: str):
        """From now on for its seconds, and on a slow machine until this condition on ccopt_cache holds."""
        now = time.monotonic()
        self.goal, self.end, self.limit = goal, now + self.seconds, now + LIMIT

    def watch(self):
        """Prolongs the stage until it has its goal."""
        connection = Connection(self.conninfo)
        while self.goes_on():
            if connection.run(f"SELECT {self.goal} FROM ccopt.ccopt_cache") == [(b"t",)]:
                self.limit = self.end
            time.sleep(0.2)
        connection.close()

    def goes_on(self) -> bool:
        return time.monotonic() < max(self.end, self.limit) and not self.wrong

    def note(self, what: str):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def check(self, rows, expected, who: str):
        if rows != expected:
            self.wrong.append(f"{who}: {rows} where {expected} was expected")
        self.note(who)


EXPECTED = [(str(TOTAL).encode(), str(TOTAL).encode(), str(ROWS).encode())]


def write(stage: Stage, number: int):
    rng, connection = random.Random(number), Connection(stage.conninfo)
    while stage.goes_on():
        one, two, pair = rng.randrange(ROWS), rng.randrange(ROWS), rng.randrange(10**6)
        kind = rng.randrange(4)
        if kind == 0:
            change = (f"INSERT INTO accounts SELECT {ROWS} + g, s, s, {pair} "
                      f"FROM generate_series(1, {rng.randrange(60)}) g, (VALUES (7), (-7)) AS v(s)")
        elif kind == 1:
            change = f"DELETE FROM accounts WHERE pair BETWEEN {pair} AND {pair + 100000}"
        else:
            change = (f"UPDATE accounts SET amount = amount + CASE id WHEN {one} THEN 5 ELSE -5 END, "
                      f"amount2 = amount2 + CASE id WHEN {one} THEN 5 ELSE -5 END WHERE id IN ({one}, {two}) AND {one} <> {two}")
        # Both rows of a transfer in one statement; rows that another writer has changed meanwhile are waited for.
        result = connection.try_run(f"BEGIN; {change}; {rng.choice(('COMMIT', 'COMMIT', 'COMMIT', 'ROLLBACK'))}")
        if result.sqlstate:
            connection.run("ROLLBACK")
        stage.note("changes")
        time.sleep(rng.random() * 0.01)
    connection.close()


def vacuum(stage: Stage):
    rng, connection = random.Random(99), Connection(stage.conninfo)
    while stage.goes_on():
        connection.run(rng.choice(("VACUUM accounts", "VACUUM accounts", "VACUUM (FREEZE) accounts")))
        stage.note("vacuums")
        time.sleep(rng.random() * 0.05)
    connection.close()


def read_sums(stage: Stage):
    connection = Connection(stage.conninfo)
    connection.run(READER)
    while stage.goes_on():
        stage.check(connection.run(SUM), EXPECTED, "sums")
    connection.close()


def read_cursors(stage: Stage):
    connection = Connection(stage.conninfo)
    connection.run(READER)
    while stage.goes_on():
        connection.run("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT amount FROM generate_series(1, 1), accounts")
        amounts, rows = 0, connection.run("FETCH 10 FROM c")
        while rows:
            amounts += sum(int(row[0]) for row in rows)
            time.sleep(0.001)
            rows = connection.run("FETCH 900 FROM c")
        connection.run("COMMIT")
        stage.check(amounts, TOTAL, "cursors")
    connection.close()


def read_snapshots(stage: Stage):
    connection = Connection(stage.conninfo)
    connection.run(READER)
    whole = "SELECT md5(string_agg(id || ' ' || amount || ' ' || amount2, ',' ORDER BY id, amount, pair)) FROM accounts"
    while stage.goes_on():
        connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.run("SET ccopt.enabled = off")
        first = connection.run(whole)
        connection.run("SET ccopt.enabled = on")
        for _ in range(4):
            stage.check(connection.run(whole), first, "snapshots")
            time.sleep(0.01)
        connection.run("COMMIT")
    connection.close()


def run_all(stage: Stage, calls: list):
    """Each in a thread of its own."""
    def guarded(function, *arguments):
        try:
            function(*arguments)
        except (SqlError, ConnectionLost) as error:
            stage.wrong.append(f"{function.__name__}: {error}")

    threads = [threading.Thread(target=guarded, args=call) for call in [(stage.watch,), *calls]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


TABLES = 6


def query_of(table: int) -> str:
    return (f"SELECT sum(a), sum(b), sum(n), md5(string_agg(t, ',' ORDER BY a)) FROM churned_{table} "
            f"WHERE a % {table + 1} = 0")


def make_churned(connection: Connection) -> list:
    """Makes the tables; stock's answers."""
    for table in range(TABLES):
        connection.run(f"DROP TABLE IF EXISTS churned_{table}")
        connection.run(f"CREATE TABLE churned_{table} (a int, b int8, n numeric(12,2), t text)")
        connection.run(f"INSERT INTO churned_{table} SELECT g, g * {table + 1}, g / 4.0, 'row ' || g "
                       "FROM generate_series(1, 20000) g")
        connection.run(f"VACUUM churned_{table}")
    connection.run("SET ccopt.enabled = off")
    answers = [connection.run(query_of(table)) for table in range(TABLES)]
    connection.run("SET ccopt.enabled = on")
    return answers


def read_churned(stage: Stage, number: int, answers: list):
    rng, connection = random.Random(number), Connection(stage.conninfo)
    connection.run(READER)
    favourites, asked = list(range(TABLES)), 0
    while stage.goes_on():
        table = rng.choice(favourites)
        stage.check(connection.run(query_of(table)), answers[table], "answers while evicting")
        for _ in range(20):  # time goes by in scans
            connection.run(f"SELECT count(a) FROM churned_{table} WHERE a < 0")
        asked += 1
        if asked % 30 == 0:
            favourites = rng.sample(range(TABLES), 2)
    connection.close()


def churn(stage: Stage, connection: Connection):
    answers = make_churned(connection)
    stage.begin("evicted_chunks > 0")
    run_all(stage, [(read_churned, stage, number, answers) for number in range(4)])
    if connection.run("SELECT evicted_chunks > 0 FROM ccopt.ccopt_cache") != [(b"t",)]:
        stage.wrong.append("nothing was evicted")
    for table in range(TABLES):
        connection.run(f"DROP TABLE churned_{table}")


def reconnect(conninfo: str) -> Connection:
    for _ in range(120):
        try:
            connection = Connection(conninfo)
            connection.run("SELECT 1")
            return connection
        except (ConnectionLost, SqlError):
            time.sleep(0.5)
    raise ConnectionLost("the server does not come back")


def wait_for_others(connection: Connection):
    """Until no snapshot of an earlier session keeps VACUUM from marking pages as all-visible."""
    for _ in range(6000):
        if connection.run("SELECT count(*) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL "
                          "AND pid <> pg_backend_pid()") == [(b"0",)]:
            return
        time.sleep(0.05)


def wait_for_the_crash(connection: Connection):
    """Until the server, which accepts connections until it detects the crash, has ended this one."""
    for _ in range(6000):
        try:
            connection.try_run("SELECT 1")  # its first result may be an error of a connection that is not closed yet
        except ConnectionLost:
            return
        time.sleep(0.05)
    raise SqlError("the server does not detect the crash")


def kill_a_reader(conninfo: str) -> list:
    """Kills a session in the middle of a scan that takes and fills; what is wrong after that."""
    victim = Connection(conninfo)
    wait_for_others(victim)
    victim.run("VACUUM accounts")
    victim.run(READER)
    for _ in range(3):
        victim.run(SUM)
    victim.run("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT amount FROM generate_series(1, 1), accounts; DECLARE d NO SCROLL CURSOR FOR "
               "SELECT id, filler FROM generate_series(1, 1), accounts")
    for cursor in "cd":
        victim.run(f"FETCH 1000 FROM {cursor}")
    other = Connection(conninfo)
    hits, pinned = other.run("SELECT hits, pinned_segments FROM ccopt.ccopt_cache")[0]
    wrong = [] if int(hits) > 0 and int(pinned) > 0 else [f"before the kill: {hits} hits, {pinned} pinned segments"]
    os.kill(victim.pid, signal.SIGKILL)
    wait_for_the_crash(other)
    connection = reconnect(conninfo)
    empty = connection.run("SELECT chunks, pinned_segments FROM ccopt.ccopt_cache")[0]
    if empty != (b"0", b"0"):
        wrong.append(f"after the kill the cache has {empty}")
    connection.run("VACUUM accounts")
    connection.run(READER)
    for _ in range(3):
        if connection.run(SUM) != EXPECTED:
            wrong.append("after the kill a sum is wrong")
    if int(connection.run("SELECT hits FROM ccopt.ccopt_cache")[0][0]) == 0:
        wrong.append("after the kill the cache is not used")
    connection.close()
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--seconds", type=float, default=8)
    arguments = parser.parse_args()
    connection = Connection(arguments.conninfo + " options='-c client_min_messages=warning'")
    connection.run("CREATE EXTENSION IF NOT EXISTS ccopt")
    connection.run(TABLE)
    connection.run(f"INSERT INTO accounts SELECT g, {AMOUNT}, {AMOUNT} FROM generate_series(0, {ROWS - 1}) g")
    connection.run("VACUUM ANALYZE accounts")
    stage = Stage(arguments.conninfo, arguments.seconds)
    churn(stage, connection)
    stage.begin("hits > 0 AND fills > 0 AND stale_chunks > 0")
    run_all(stage, [(write, stage, 1), (write, stage, 2), (vacuum, stage), (read_sums, stage), (read_cursors, stage),
                    (read_snapshots, stage)])
    names = ("hits", "fills", "stale_chunks", "evicted_chunks", "pinned_segments", "limit_bytes", "used_bytes")
    cache = dict(zip(names, map(int, connection.run(f"SELECT {', '.join(names)} FROM ccopt.ccopt_cache")[0])))
    connection.close()
    wrong = stage.wrong
    wrong += [f"the cache has no {name}" for name in ("hits", "fills", "stale_chunks") if cache[name] == 0]
    if cache["pinned_segments"] or cache["used_bytes"] > cache["limit_bytes"]:
        wrong.append(f"the cache is left with {cache}")
    wrong += kill_a_reader(arguments.conninfo)
    print("cache sessions: " + ", ".join(f"{count} {what}" for what, count in sorted(stage.counts.items())))
    print("  column cache: " + ", ".join(f"{name} {value}" for name, value in cache.items()))
    print(f"  wrong: {len(wrong)}" + "".join("\n    " + line for line in wrong[:5]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
