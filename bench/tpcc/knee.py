"""The knee: throughput and CPU per New-Order over 1 to 64 connections, and the choice of `--connections auto`."""

import json
from typing import Callable, List

from database import Database
from figure import Bar, Figure
from processes import run
from servers import Playground

WAREHOUSES = 4
BAR_PERCENT = 10


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """How far the throughput at auto's choice is below the best of the sweep."""
    database = Database(playground, "knee")
    say(f"loading {WAREHOUSES} warehouses")
    database.tpcc("load", "--warehouses", str(WAREHOUSES))
    say("sweeping over connections")
    words = ["--leg", "1", "--rounds", "1"] if quick else ["--rounds", "5"]
    sweep = json.loads(run([*database.command("sweep", *words), "--format", "json"]))
    points = sweep["points"]
    chosen = next(point for point in points if point["connections"] == sweep["chosen"])
    what = f"New-Orders a minute at {sweep['chosen']} connections, which auto chose, below the best of the sweep"
    rounds = len(chosen["throughputs"])
    figures = [Figure("auto below the best", (1 - chosen["of_best"]) * 100, "%", rounds, what, Bar(BAR_PERCENT))]
    for point in points:
        name, rounds = f"{point['connections']} connections", len(point["throughputs"])
        figures.append(Figure(name, point["throughput"], "/min", rounds, "New-Orders a minute"))
        if point["server_cpu"] is not None:
            figures.append(Figure(f"{name}, server's CPU", point["server_cpu"], "s/1000", rounds, "per 1000 New-Orders"))
    return figures
