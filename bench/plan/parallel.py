"""The 22 queries of TPC-H with two workers allowed, by stock PostgreSQL and with the extension, whose nodes run in one process."""

import contextlib
from typing import Callable, List

import queries
import tpch
from figure import Figure
from servers import Playground

WORKERS = "max_parallel_workers_per_gather=2"
PRESET = "default"


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Time on the wall, which alone tells what workers gain; the same bars for answers and for slower queries."""
    scale, blocks = ("0.1", 1) if quick else ("1", 6)
    server = tpch.server(playground, scale, say)
    extension = tpch.Extension(playground)
    ways = {"stock": WORKERS, "ccopt": f"{extension.settings}; {WORKERS}"}
    with server.running():
        figures = [
            Figure(
                f"parallel: plans with workers, {way}",
                sum(has_workers),
                "",
                len(has_workers),
                f"of the 22 plans at scale {scale}, those with a Gather",
            )
            for way, has_workers in ((way, _plans_with_workers(server, settings, scale)) for way, settings in ways.items())
        ]
        say(f"22 queries at scale {scale} with two workers allowed, {blocks} blocks")
        variants = [word for way, settings in ways.items() for word in ("--variant", f"{way}={settings}")]
        report = server.tpch("--settings", PRESET, "--clock", "wall", "--blocks", str(blocks), *variants)
    return queries.of_parallel(report) + figures


def _plans_with_workers(server: tpch.TpchServer, settings: str, scale: str) -> List[bool]:
    """Whether each of the 22 plans has a Gather, in a session with these settings and the preset's."""
    preset = ["random_page_cost=4", "work_mem=256MB", "enable_bitmapscan=off", "jit=off"]
    with contextlib.closing(server.connect_to(tpch.DATABASE)) as connection:
        for statement in tpch.statements("; ".join([*preset, settings])):
            connection.query(statement)
        plans = [connection.query(f"EXPLAIN (COSTS OFF) {tpch.text(query, scale)}") for query in range(1, 23)]
    return [any("Gather" in line for (line,) in plan) for plan in plans]
