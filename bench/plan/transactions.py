"""The cost of the extension where it has no effect: pgbench with and without it.

Without a bar: forty blocks on a shared machine leave an interval of several percent around one. statements.py decides.
"""

import random
from typing import Callable, Dict, List

import tpch
from figure import Figure, interleaved
from pgbench import Leg, leg, together
from processes import run
from servers import Playground

SCRIPTS = {"TPC-B": [], "select-only": ["--select-only"]}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Throughput with the extension loaded, relative to that without."""
    # Many short legs, as in closed_run.py.
    blocks, seconds = (2, 2) if quick else (40, 2)
    chance = random.Random(1)
    extension = tpch.Extension(playground)
    settings = {"shared_buffers": "512MB", **extension.server_settings()}
    figures = []
    with playground.server("native", scale=10, settings=settings).running() as server:
        for name, options in SCRIPTS.items():
            # One client: two would share two processors with pgbench and the log writer.
            pgbench = [server.program("pgbench"), "-n", "-c", "1", "-T", str(seconds), *options]
            ways = {"stock": pgbench, "loaded": ["env", f"PGOPTIONS={extension.options()}", *pgbench]}
            run(pgbench, env=server.environment())
            throughput: List[float] = []
            work: List[float] = []
            for block in range(blocks):
                say(f"pgbench {name}: block {block + 1} of {blocks}")
                legs: Dict[str, List[Leg]] = {way: [] for way in ways}
                for way in interleaved(list(ways), chance):
                    legs[way].append(leg(server, ways[way]))
                stock, loaded = together(legs["stock"]), together(legs["loaded"])
                throughput.append(loaded.per_second / stock.per_second)
                work.append((loaded.server_cpu / loaded.transactions) / (stock.server_cpu / stock.transactions))
            what = f"transactions per second of pgbench {name} with the extension loaded, to stock; 1 client"
            figures.append(Figure.of_blocks(f"pgbench {name}: throughput", throughput, "x", what))
            what = f"CPU time of the server per transaction of pgbench {name} with the extension loaded, to stock"
            figures.append(Figure.of_blocks(f"pgbench {name}: CPU time", work, "x", what))
    return figures
