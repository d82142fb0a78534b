"""Analytic statements beyond the 22 queries: DISTINCT, grouping sets, windows, ORDER BY with LIMIT, INSERT ...
SELECT, cursors. On the tables of TPC-H."""

import contextlib
import random
from typing import Callable, Dict, List, Sequence

import tpch
from figure import Bar, Figure, interleaved
from postgres import Connection
from processes import Trouble, cpu_seconds
from servers import Playground

SLOWER = 1.02
SETTINGS = "random_page_cost=4; work_mem=256MB; enable_bitmapscan=off; jit=off; max_parallel_workers_per_gather=0"
TARGET = "CREATE TEMPORARY TABLE kept (k bigint, n bigint, s numeric)"
REVENUE = "SELECT l_suppkey, count(*), sum(l_extendedprice * (1 - l_discount)) FROM lineitem GROUP BY l_suppkey"
CUSTOMERS = "SELECT c_name, o_orderdate, o_totalprice FROM customer JOIN orders ON o_custkey = c_custkey WHERE o_totalprice > 200000"

# One statement after the other; what they return is the answer, and the last undoes what they did.
STATEMENTS: Dict[str, Sequence[str]] = {
    "count(DISTINCT)": ["SELECT count(DISTINCT l_suppkey) FROM lineitem"],
    "count(DISTINCT) in groups": [
        "SELECT l_shipmode, count(DISTINCT l_partkey) FROM lineitem GROUP BY l_shipmode",
    ],
    "SELECT DISTINCT": ["SELECT DISTINCT l_shipdate, l_shipmode FROM lineitem"],
    "ROLLUP": [
        "SELECT l_returnflag, l_linestatus, l_shipmode, count(*), sum(l_quantity), avg(l_extendedprice) FROM lineitem "
        "GROUP BY ROLLUP (l_returnflag, l_linestatus, l_shipmode)",
    ],
    "CUBE": [
        "SELECT l_returnflag, l_linestatus, l_shipmode, count(*), sum(l_extendedprice * (1 - l_discount)) FROM lineitem "
        "GROUP BY CUBE (l_returnflag, l_linestatus, l_shipmode)",
    ],
    "GROUPING SETS": [
        "SELECT l_suppkey, l_shipdate, GROUPING(l_suppkey), sum(l_quantity) FROM lineitem "
        "GROUP BY GROUPING SETS ((l_suppkey), (l_shipdate), ())",
    ],
    "first 10 rows": ["SELECT * FROM lineitem ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 10"],
    "first 100 rows, few keys": [
        "SELECT l_orderkey, l_comment FROM lineitem ORDER BY l_shipdate DESC, l_orderkey, l_linenumber LIMIT 100",
    ],
    "first 10 groups": [
        "SELECT l_partkey, sum(l_quantity) AS n, count(*) FROM lineitem GROUP BY l_partkey ORDER BY n DESC, l_partkey LIMIT 10",
    ],
    "window: ranks": [
        "SELECT l_orderkey, l_linenumber, row_number() OVER (PARTITION BY l_suppkey ORDER BY l_shipdate, l_orderkey, l_linenumber) "
        "FROM lineitem",
    ],
    "window: running sums": [
        "SELECT l_orderkey, l_linenumber, sum(l_quantity) OVER w, count(*) OVER (PARTITION BY l_suppkey), lag(l_shipdate) OVER w "
        "FROM lineitem WINDOW w AS (PARTITION BY l_suppkey ORDER BY l_shipdate, l_orderkey, l_linenumber)",
    ],
    "window: first 3 of each": [
        "SELECT * FROM (SELECT l_suppkey, l_partkey, l_extendedprice, "
        "rank() OVER (PARTITION BY l_suppkey ORDER BY l_extendedprice DESC) AS r FROM lineitem) AS ranked WHERE r <= 3",
    ],
    "INSERT ... SELECT, groups": [f"INSERT INTO kept {REVENUE}", "SELECT * FROM kept", "TRUNCATE kept"],
    "INSERT ... SELECT, rows": [
        "INSERT INTO kept SELECT l_orderkey, l_linenumber, l_tax FROM lineitem WHERE l_discount = 0.07",
        "SELECT count(*), sum(k), sum(s) FROM kept",
        "TRUNCATE kept",
    ],
    "CREATE TABLE AS": [
        f"CREATE TEMPORARY TABLE made AS {REVENUE}",
        "SELECT * FROM made",
        "DROP TABLE made",
    ],
    "cursor over groups": ["BEGIN", f"DECLARE c CURSOR FOR {REVENUE}", "FETCH ALL FROM c", "COMMIT"],
    "cursor over a join": ["BEGIN", f"DECLARE c CURSOR FOR {CUSTOMERS}", "FETCH ALL FROM c", "COMMIT"],
}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """CPU time of the backend, to stock, in ABBA blocks; the answers are compared as sorted rows."""
    scale, blocks = tpch.scale(quick), 1 if quick else 6
    server = tpch.server(playground, scale, say)
    chance = random.Random(1)
    figures: List[Figure] = []
    with server.running(), contextlib.ExitStack() as stack:
        ways: Dict[str, Connection] = {}
        for way, settings in {"stock": "", "ccopt": tpch.Extension(playground).settings}.items():
            connection = stack.enter_context(contextlib.closing(server.connect_to(tpch.DATABASE)))
            for statement in [*tpch.statements(settings), *tpch.statements(SETTINGS), TARGET]:
                connection.query(statement)
            ways[way] = connection
        for name, statements in STATEMENTS.items():
            say(f"{name} at scale {scale}, {blocks} blocks")
            answers = {way: _answer(connection, statements) for way, connection in ways.items()}
            if answers["ccopt"] != answers["stock"]:
                raise Trouble(f"{name}: ccopt's rows are not those of stock")
            ratios = [_block(ways, statements, chance) for _ in range(blocks)]
            what = f"CPU time of the backend at scale {scale}, to stock; the same rows: {'; '.join(statements)}"
            figures.append(Figure.of_blocks(f"breadth: {name}", ratios, "x", what, Bar(SLOWER)))
    return figures


def _answer(connection: Connection, statements: Sequence[str]) -> list:
    return sorted((row for statement in statements for row in connection.query(statement)), key=repr)


def _block(ways: Dict[str, Connection], statements: Sequence[str], chance: random.Random) -> float:
    took = dict.fromkeys(ways, 0.0)
    for way in interleaved(list(ways), chance):
        before = cpu_seconds(ways[way].backend)
        for statement in statements:
            ways[way].query(statement)
        took[way] += cpu_seconds(ways[way].backend) - before
    return took["ccopt"] / took["stock"]
