"""The instructions that the extension adds to short statements, which it does not optimise. Free of noise.

The throughput of the same statements (transactions.py) differs from leg to leg by more than the bar on a shared machine.
"""

import random
from pathlib import Path
from typing import Callable, Dict, List, Sequence

import tpch
from figure import Bar, Figure
from instructions import collect
from processes import run
from servers import Playground

BAR = 0.99
# The instructions of the larger run minus those of the smaller one: without start-up and first executions.
FEW, MANY = 100, 600
DATABASE = "postgres"
# Filling a new log segment with zeros costs 100,000 instructions for each of 500 transactions, in some runs only.
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


def no_rows(chance: random.Random) -> Sequence[str]:
    """Aggregates over an empty table."""
    del chance
    return ["SELECT count(*), sum(delta), max(mtime) FROM pgbench_history;"]


TRANSACTIONS = {
    "select-only": select_only,
    "TPC-B": tpc_b,
    "aggregates of 50 rows": fifty_rows,
    "aggregates of no rows": no_rows,
}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Instructions of a transaction with the extension loaded, to stock. Not shortened by --quick."""
    del quick
    extension = tpch.Extension(playground)
    server = playground.server("native", settings=extension.server_settings())
    where = (Path(server.program("postgres")).parent, server.data, server.account, DATABASE)
    settings = [*LITTLE_LOG, *(f"{name}={value}" for name, value in extension.server_settings().items())]
    ways = {"stock": [], "loaded": extension.statements()}
    figures = []
    for name, transaction in TRANSACTIONS.items():
        each: Dict[str, float] = {}
        for way, statements in ways.items():
            say(f"instructions of {name}, {way}")
            counted = []
            for transactions in (FEW, MANY):
                chance = random.Random(1)
                lines = [line for _ in range(transactions) for line in transaction(chance)]
                # Dead rows of the previous run, or another order of rows, would change this one's work.
                with server.running():
                    run([server.program("pgbench"), "--initialize", "--quiet"], env=server.environment())
                counted.append(collect(*where, [*statements, *lines], settings))
            each[way] = (counted[1] - counted[0]) / (MANY - FEW)
        what = f"instructions of a transaction ({name}) on pgbench's tables in postgres --single, by callgrind"
        ratio = each["loaded"] / each["stock"]
        bar = Bar(round(1 / BAR, 3))
        figures += [
            Figure(f"{name}: instructions", ratio, "x", MANY - FEW, f"{what}, with the extension to stock", bar),
            Figure(f"{name}: instructions of stock", each["stock"] / 1000, "thousand", MANY - FEW, what),
        ]
    return figures
