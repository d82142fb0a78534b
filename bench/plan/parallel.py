"""The 22 queries of TPC-H with two workers allowed, by stock PostgreSQL and with the extension, whose scans, joins and aggregates run in workers."""

import contextlib
from typing import Callable, List

import queries
import tpch
from figure import Figure
from servers import Playground

WORKERS = "max_parallel_workers_per_gather=2"
PRESET = "default"
NODES = {
    "plans with workers": "Gather",
    "plans with BatchScan in workers": "Parallel Custom Scan (BatchScan)",
    "plans with a shared hash table": "Shared Hash Table",
    "plans with BatchAgg in workers": "Partial Mode: Partial",
}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Elapsed time, because only it shows the gain by workers; the same bars for answers and for slower queries."""
    scale, blocks = tpch.scale(quick), 1 if quick else 6
    server = tpch.server(playground, scale, say)
    extension = tpch.Extension(playground)
    ways = {"stock": WORKERS, "ccopt": f"{extension.settings}; {WORKERS}"}
    with server.running():
        figures = []
        for way, settings in ways.items():
            plans = _plans(server, settings, scale)
            for name, node in NODES.items():
                if way == "stock" and node != "Gather":
                    continue
                having = sum(any(node in line for line in plan) for plan in plans)
                what = f"of the 22 plans at scale {scale}, those with a {node}"
                figures.append(Figure(f"parallel: {name}, {way}", having, "", len(plans), what))
        say(f"22 queries at scale {scale} with two workers allowed, {blocks} blocks")
        variants = [word for way, settings in ways.items() for word in ("--variant", f"{way}={settings}")]
        report = server.tpch("--settings", PRESET, "--clock", "wall", "--blocks", str(blocks), *variants)
    return queries.of_parallel(report, scale) + figures


def _plans(server: tpch.TpchServer, settings: str, scale: str) -> List[List[str]]:
    """The lines of each of the 22 plans, in a session with these settings and the preset's."""
    preset = ["random_page_cost=4", "work_mem=256MB", "enable_bitmapscan=off", "jit=off"]
    with contextlib.closing(server.connect_to(tpch.DATABASE)) as connection:
        for statement in tpch.statements("; ".join([*preset, settings])):
            connection.query(statement)
        plans = [connection.query(f"EXPLAIN (COSTS OFF) {tpch.text(query, scale)}") for query in range(1, 23)]
    return [[line for (line,) in plan] for plan in plans]
