"""The knee: throughput and CPU per New-Order over 1 to 64 connections, and where `--connections auto` lands."""

import json
from typing import Callable, List

from database import Database
from figure import Bar, Figure
from processes import run
from servers import HARDMETER, Playground

WAREHOUSES = 4
BAR_PERCENT = 10


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """How far the throughput at auto's choice lies below the best of the sweep."""
    database = Database(playground, "knee")
    say(f"loading {WAREHOUSES} warehouses")
    database.tpcc("load", "--warehouses", str(WAREHOUSES))
    say("sweeping over connections")
    words = ["--leg", "2s", "--rounds", "1"] if quick else []
    sweep = json.loads(run([HARDMETER, "--quiet", "tpcc", "sweep", "--server", database.folder, "--format", "json", *words]))
    points = sweep["points"]
    best = max(point["new_orders_per_minute"] for point in points)
    chosen = next(point for point in points if point["connections"] == sweep["auto"])
    below = (1 - chosen["new_orders_per_minute"] / best) * 100
    what = f"New-Orders a minute at {sweep['auto']} connections, which auto chose, below the best of the sweep"
    figures = [Figure("auto below the best", below, "%", len(points), what, Bar(BAR_PERCENT))]
    for point in points:
        name = f"{point['connections']} connections"
        figures.append(Figure(name, point["new_orders_per_minute"], "/min", point["legs"], "New-Orders a minute"))
        cost = point["server_cpu_per_1000"]
        if cost is not None:
            figures.append(Figure(f"{name}, server's CPU", cost, "s/1000", point["legs"], "per 1000 New-Orders"))
    return figures
