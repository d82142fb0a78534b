"""The instructions that the extension adds to short statements, which it does not optimise. Free of noise.

The throughput of the same statements (transactions.py) differs from leg to leg by more than the bar on a shared machine.
"""

import random
from pathlib import Path
from typing import Callable, Dict, Iterator, Sequence

import tpch
from figure import Bar, Figure
from instructions import collect
from processes import run
from servers import Playground

BAR = 0.99
# The instructions of the larger run minus those of the smaller one: without start-up and first executions.
FEW, MANY = 100, 600
QUICK_FEW, QUICK_MANY = 20, 60
DATABASE = "postgres"
Transaction = Callable[[random.Random], Sequence[str]]
# A new segment of the log is filled with zeros, 100,000 instructions for each of 500 transactions: in one run and not in another.
LITTLE_LOG = ["wal_level=minimal", "max_wal_senders=0", "wal_init_zero=off", "full_page_writes=off"]


def select_only(chance: random.Random) -> Sequence[str]:
    """pgbench's select-only."""
    return [f"SELECT abalance FROM pgbench_accounts WHERE aid = {chance.randint(1, 100000)};"]


def tpc_b(chance: random.Random) -> Sequence[str]:
    """pgbench's TPC-B."""
    account, teller, delta = chance.randint(1, 100000), chance.randint(1, 10), chance.randint(-5000, 5000)
    return [
        "BEGIN;",
        f"UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account};",
        f"SELECT abalance FROM pgbench_accounts WHERE aid = {account};",
        f"UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller};",
        f"UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = 1;",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
        f"VALUES ({teller}, 1, {account}, {delta}, CURRENT_TIMESTAMP);",
        "END;",
    ]


def fifty_rows(chance: random.Random) -> Sequence[str]:
    """Aggregates over a short range of an index."""
    first = chance.randint(1, 99950)
    return [
        "SELECT count(*), sum(abalance), min(aid), max(bid) FROM pgbench_accounts "
        f"WHERE aid BETWEEN {first} AND {first + 49};"
    ]


def one_row(chance: random.Random) -> Sequence[str]:
    """Aggregates over one row of an index."""
    return [f"SELECT count(*), sum(abalance), max(bid) FROM pgbench_accounts WHERE aid = {chance.randint(1, 100000)};"]


def distinct_rows(chance: random.Random) -> Sequence[str]:
    """DISTINCT over a short range of an index, as an aggregate and as a select."""
    first = chance.randint(1, 99950)
    among = f"FROM pgbench_accounts WHERE aid BETWEEN {first} AND {first + 49};"
    return [f"SELECT count(DISTINCT abalance) {among}", f"SELECT DISTINCT bid, abalance {among}"]


def window_rows(chance: random.Random) -> Sequence[str]:
    """Ranks and sums over a short range of an index."""
    first = chance.randint(1, 99950)
    return [
        "SELECT aid, row_number() OVER (ORDER BY abalance, aid), sum(abalance) OVER () FROM pgbench_accounts "
        f"WHERE aid BETWEEN {first} AND {first + 49};"
    ]


def insert_rows(chance: random.Random) -> Sequence[str]:
    """INSERT ... SELECT of a short range of an index."""
    first = chance.randint(1, 99950)
    return [
        "INSERT INTO pgbench_history (tid, bid, aid, delta) SELECT 1, bid, aid, abalance FROM pgbench_accounts "
        f"WHERE aid BETWEEN {first} AND {first + 9};"
    ]


def join_row(chance: random.Random) -> Sequence[str]:
    """A join of two tables by their keys."""
    return [
        "SELECT abalance, bbalance FROM pgbench_accounts JOIN pgbench_branches USING (bid) "
        f"WHERE aid = {chance.randint(1, 100000)};"
    ]


def join_rows(chance: random.Random) -> Sequence[str]:
    """A sum over a join of a short range of an index."""
    first = chance.randint(1, 99991)
    return [
        "SELECT sum(abalance), max(bbalance) FROM pgbench_accounts JOIN pgbench_branches USING (bid) "
        f"WHERE aid BETWEEN {first} AND {first + 9};"
    ]


def no_rows(chance: random.Random) -> Sequence[str]:
    """Aggregates over an empty table."""
    del chance
    return ["SELECT count(*), sum(delta), max(mtime) FROM pgbench_history;"]


# First the statements by which small statements are judged, then the others.
SMALL: Dict[str, Transaction] = {
    "select-only": select_only,
    "aggregates of no rows": no_rows,
    "aggregates of 1 row": one_row,
    "aggregates of 50 rows": fifty_rows,
}
OTHERS: Dict[str, Transaction] = {
    "TPC-B": tpc_b,
    "DISTINCT of 50 rows": distinct_rows,
    "windows over 50 rows": window_rows,
    "INSERT ... SELECT of 10 rows": insert_rows,
    "join of 1 row": join_row,
    "join of 10 rows": join_rows,
}


def small(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Look-ups, and aggregates over 0, 1 and 50 rows."""
    return _measure(SMALL, playground, quick, say)


def others(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Further statements that the extension examines during planning."""
    return _measure(OTHERS, playground, quick, say)


def _measure(
    transactions: Dict[str, Transaction], playground: Playground, quick: bool, say: Callable[[str], None]
) -> Iterator[Figure]:
    """Instructions per transaction with the extension loaded, relative to stock."""
    few, many = (QUICK_FEW, QUICK_MANY) if quick else (FEW, MANY)
    extension = tpch.Extension(playground)
    server = playground.server("native", settings=extension.server_settings())
    where = (Path(server.program("postgres")).parent, server.data, server.account, DATABASE)
    settings = [*LITTLE_LOG, *(f"{name}={value}" for name, value in extension.server_settings().items())]
    ways = {"stock": [], "loaded": extension.statements()}
    for name, transaction in transactions.items():
        each: Dict[str, float] = {}
        for way, statements in ways.items():
            say(f"instructions of {name}, {way}")
            counted = []
            for times in (few, many):
                chance = random.Random(1)
                lines = [line for _ in range(times) for line in transaction(chance)]
                # Dead rows of the previous run, or another order of rows, would add work to this run.
                with server.running():
                    run([server.program("pgbench"), "--initialize", "--quiet"], env=server.environment())
                counted.append(collect(*where, [*statements, *lines], settings))
            each[way] = (counted[1] - counted[0]) / (many - few)
        what = f"instructions of a transaction ({name}) on pgbench's tables in postgres --single, by callgrind"
        ratio = each["loaded"] / each["stock"]
        bar = Bar(round(1 / BAR, 3))
        yield Figure(f"{name}: instructions", ratio, "x", many - few, f"{what}, with the extension to stock", bar)
        yield Figure(f"{name}: instructions of stock", each["stock"] / 1000, "thousand", many - few, what)
