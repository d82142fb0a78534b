"""The cost of the driver: its CPU time per 1000 New-Orders, compared with pgbench that calls the same procedures.

Throughput is noisy on a shared machine, CPU time per unit of work is much less so. All drive the same server with 16
connections and no think time; New-Orders are counted by the server's districts, for every driver.
"""

import random
from pathlib import Path
from typing import Callable, Dict, List

from database import Database, run_tpcc
from figure import Bar, Figure, interleaved
from processes import run_measured
from servers import Playground

WAREHOUSES, CONNECTIONS = 4, 16
BARS = {"procedures": 0.06, "client": 0.25}
SCRIPTS = Path(__file__).resolve().parent / "pgbench"
# The deck of 23 cards (clause 5.2.4.2), as weights.
DECK = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """CPU time of drivers per 1000 New-Orders."""
    blocks, seconds = (1, 2) if quick else (6, 10)
    database = Database(playground)
    say(f"loading {WAREHOUSES} warehouses")
    database.tpcc("load", "--warehouses", str(WAREHOUSES))
    _ours(database, "procedures", 2)  # installs the procedures, which pgbench calls, too; warms caches
    chance = random.Random(1)
    ways = [*BARS, "pgbench"]
    driver: Dict[str, List[float]] = {way: [] for way in ways}
    whole: Dict[str, List[float]] = {way: [] for way in ways}
    rates: Dict[str, List[float]] = {way: [] for way in ways}
    for block in range(blocks):
        legs: Dict[str, list] = {way: [] for way in ways}
        for way in interleaved(ways, chance):
            say(f"driver's cost: block {block + 1} of {blocks}: {way}")
            legs[way].append(_pgbench(database, seconds) if way == "pgbench" else _ours(database, way, seconds))
        for way, pair in legs.items():
            for kept, index in ((driver, 0), (whole, 1), (rates, 2)):
                kept[way].append(sum(leg[index] for leg in pair) / len(pair))
    figures = []
    for way in ways:
        what = f"CPU seconds of the driver per 1000 New-Orders, {CONNECTIONS} connections, {WAREHOUSES} warehouses, {way}"
        bar = Bar(BARS[way]) if way in BARS else None
        figures.append(Figure.of_blocks(f"driver, {way}", driver[way], "s/1000", what, bar))
    for way in BARS:
        what = "the same of the whole process, its start and its report too, by wait4, New-Orders by the districts"
        figures.append(Figure.of_blocks(f"whole process, {way}", whole[way], "s/1000", what))
    for way in ways:
        what = "New-Orders a minute that are in the database, for information: throughput is noisy"
        figures.append(Figure.of_blocks(f"NOPM, {way}", rates[way], "/min", what))
    return figures


def _ours(database: Database, style: str, seconds: int):
    words = ["--mode", "closed", "--clients", str(CONNECTIONS), "--connections", str(CONNECTIONS), "--style", style]
    one = run_tpcc(database, *words, "--ramp", "1s", "--interval", f"{seconds}s")
    kinds = one.result["kinds"][0]
    rate = (kinds["completed"] - kinds["rolled_back"]) * 60 / one.result["measured_seconds"]
    return one.driver_cpu(), 1000 * one.used.cpu_seconds / one.new_orders, rate


def _pgbench(database: Database, seconds: int):
    before = database.new_orders()
    words = [database.program("pgbench"), "-n", "-M", "prepared", "-c", str(CONNECTIONS), "-T", str(seconds)]
    words += ["-D", f"warehouses={WAREHOUSES}"]
    words += [f"--file={SCRIPTS / name}.sql@{weight}" for name, weight in DECK.items()]
    used = run_measured(words, environment=database.environment())
    done = database.new_orders() - before
    cost = 1000 * used.cpu_seconds / done
    return cost, cost, done * 60 / seconds
