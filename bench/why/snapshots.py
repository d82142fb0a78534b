"""What looking into a server costs it: pgbench under `hardmeter record` with and without object snapshots.

Both recordings are the same but for `--no-objects`: first touches of pages (page faults carry a data address, on any
machine) and the timer, so that there is something to look up.
"""

import random
from typing import Callable, Dict, List

from figure import Bar, Figure, interleaved
from pgbench import Leg, leg, together
from processes import run
from servers import HARDMETER, Playground

BAR_PERCENT = 2.0
# "select" touches many buffers and is steady; "tpcb" is pgbench's default, which also waits for locks and the log.
SCRIPTS = {"select": ["--select-only"], "tpcb": []}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Throughput lost to object snapshots."""
    # Six seconds: attaching takes a tenth of one, and a recording is not made for two.
    blocks, seconds = (2, 2) if quick else (16, 6)
    chance = random.Random(1)
    figures = []
    with playground.server("native").running() as server:
        record = [HARDMETER, "--quiet", "record", "--source", "hardware", "-e", "cpu-clock,page-faults"]
        record += ["-o", server.capture]
        ways = {
            "without": [*record, "--no-objects", "--server", server.folder, "--"],
            "with": [*record, "--server", server.folder, "--"],
        }
        for name, options in SCRIPTS.items():
            pgbench = [server.program("pgbench"), "-n", "-c", "2", "-T", str(seconds), *options]
            run(pgbench, env=server.environment())
            less: List[float] = []
            for block in range(blocks):
                say(f"object snapshots, pgbench {name}: block {block + 1} of {blocks}")
                legs: Dict[str, List[Leg]] = {way: [] for way in ways}
                for way in interleaved(list(ways), chance):
                    legs[way].append(leg(server, [*ways[way], *pgbench]))
                rates = {way: together(pair).per_second for way, pair in legs.items()}
                less.append((1 - rates["with"] / rates["without"]) * 100)
            what = f"fewer transactions per second with object snapshots than without, pgbench {name}, 2 clients"
            figures.append(Figure.of_blocks(f"snapshots, {name}: throughput", less, "% less", what, Bar(BAR_PERCENT)))
    return figures
