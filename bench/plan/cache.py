"""The 22 queries of TPC-H with a warm column cache, beside stock PostgreSQL and the extension without the cache; and Q1 and
Q6 beside DuckDB on one thread.
"""

import contextlib
import random
from decimal import Decimal
from pathlib import Path
from typing import Callable, Dict, List

import duckdb_peer
import tpch
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

PRESET = "default"
# A load that writes no log leaves pages that the cache does not trust (docs/plan.md).
SERVER = {
    "shared_preload_libraries": "ccopt",
    "ccopt.cache_mb": "2560",
    "ccopt.shapes": "off",
    "wal_level": "replica",
}
WAYS = {
    "stock": "ccopt.enabled=off",
    "ccopt": "ccopt.enable_cache=off",
    "cache": "ccopt.enable_cache=on",
}
# A table is cached by its second scan.
WARM_UP = 3
TOTAL, SLOWER, BESIDE_DUCKDB = 0.20, 1.02, 2.5


_made: Dict[str, tpch.TpchServer] = {}


def _server(playground: Playground, scale: str, say: Callable[[str], None]) -> tpch.TpchServer:
    """The server of a scale with a column cache, created at the first request."""
    if scale not in _made:
        server = tpch.TpchServer(playground, scale, tpch.Extension(playground), SERVER, "tpch-cache")
        playground.adopt(server)
        server.load(say)
        _made[scale] = server
    return _made[scale]


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """CPU time of the 22 queries, to stock."""
    scale, blocks = tpch.scale(quick), "1" if quick else "6"
    server = _server(playground, scale, say)
    with server.running():
        say(f"22 queries at scale {scale} with the column cache, {blocks} blocks")
        variants = [word for way, settings in WAYS.items() for word in ("--variant", f"{way}={settings}")]
        report = server.tpch("--settings", PRESET, "--warm-up", str(WARM_UP), "--blocks", blocks, *variants)
        failed = [query["query"] for query in report["queries"] if query["failure"]]
        if failed:
            raise Trouble(f"queries failed: {failed}")
        return _of_queries(report, scale) + _of_cache(server)


def _of_queries(report: dict, scale: str) -> List[Figure]:
    figures = []
    for index, way in enumerate(list(WAYS)[1:], start=1):
        total = report["totals"][index]
        name = f"{way} at scale {scale}"
        ratios = {query["query"]: query["variants"][index]["ratio"] for query in report["queries"]}
        worst = total["worst"][0]
        # What holds without the cache is the part `default`'s to judge.
        bar, slower = (Bar(TOTAL), Bar(SLOWER)) if way == "cache" else (None, None)
        answers = f"queries whose answer is not stock's, byte for byte, in any run: {total['other_answers']}"
        figures += [
            _ratio(f"{name}: total", total["ratio"], "CPU time of all 22 queries, to stock", bar),
            _ratio(f"{name}: geometric mean", total["geometric_mean"], "of the 22 ratios to stock", None),
            _ratio(f"{name}: worst, Q{worst}", ratios[worst], "the query with the largest ratio to stock", slower),
            _ratio(f"{name}: Q1", ratios[1], "CPU time of Q1, to stock", None),
            _ratio(f"{name}: Q6", ratios[6], "CPU time of Q6, to stock", None),
            Figure(f"{name}: answers not those of stock", len(total["other_answers"]), "", len(ratios), answers, Bar(0)),
        ]
    return figures


def _of_cache(server: tpch.TpchServer) -> List[Figure]:
    with contextlib.closing(server.connect_to(tpch.DATABASE)) as connection:
        hits, misses, used, limit = map(
            int, connection.query("SELECT hits, misses, used_bytes, limit_bytes FROM ccopt.ccopt_cache")[0]
        )
    share = "columns of pages that came from the cache, of those that were looked for, warm-up included"
    return [
        Figure("cache: hits", hits / max(hits + misses, 1), "", hits + misses, share),
        Figure("cache: used", used / 2**20, "MB", 1, f"contents of the cache after the queries, of {limit / 2**20:.0f} MB"),
    ]


def _ratio(name: str, ratio: dict, what: str, bar) -> Figure:
    return Figure(name, ratio["value"], "x", ratio["n"], what, bar, tpch.interval(ratio), ratio["blocks"])


def beside_duckdb(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """CPU time of Q1 and Q6 relative to DuckDB's."""
    scale, blocks = tpch.scale(quick), 2 if quick else 12
    python = duckdb_peer.peer(say)
    server = _server(playground, scale, say)
    rows = playground.folder / "lineitem.csv"
    with server.running():
        duckdb_peer.export(server, rows)
        try:
            return [_query_beside_duckdb(server, python, rows, query, scale, blocks, say) for query in (1, 6)]
        finally:
            rows.unlink()


def _query_beside_duckdb(
    server: tpch.TpchServer, python: Path, rows: Path, number: int, scale: str, blocks: int, say: Callable[[str], None]
) -> Figure:
    query, chance = tpch.text(number, scale), random.Random(number)
    with contextlib.closing(server.connect_to(tpch.DATABASE)) as connection:
        for setting in tpch.statements("max_parallel_workers_per_gather=0; jit=off"):
            connection.query(setting)
        with duckdb_peer.Duck(python, rows, query) as duck:
            for _ in range(WARM_UP):
                answer = connection.query(query)
            if number == 1:
                duckdb_peer.same_answer(answer, duck.answer)
            elif Decimal(answer[0][0]) != Decimal(duck.answer[0][0]):
                raise Trouble(f"DuckDB answers Q{number} otherwise: {duck.answer} and PostgreSQL {answer}")
            ratios = duckdb_peer.ratios_of(number, query, connection, duck, blocks, chance, say)
    what = f"CPU time of Q{number} at scale {scale} with a warm column cache, to DuckDB {duckdb_peer.VERSION} on one thread"
    return Figure.of_blocks(f"cache: Q{number} beside DuckDB", ratios, "x", what, Bar(BESIDE_DUCKDB))
