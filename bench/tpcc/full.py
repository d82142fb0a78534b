"""A run by the specification: 100 warehouses, 1,000 terminals with keying and think times, ten minutes."""

import json
import os
from typing import Callable, List

from database import Database
from figure import Bar, Figure
from processes import run
from servers import Playground

CEILING = 12.86  # New-Orders a minute and warehouse if everything answered at once (clause 4.2)


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """How near the ceiling, and how many verdicts are not held."""
    warehouses = int(os.environ.get("HARDMETER_BENCH_WAREHOUSES", "2" if quick else "100"))
    ramp, interval = ("30s", "30s") if quick else ("3m", "10m")
    database = Database(playground, "full")
    say(f"loading {warehouses} warehouses")
    database.tpcc("load", "--warehouses", str(warehouses))
    say(f"running {10 * warehouses} terminals: {ramp} to get going, {interval} measured")
    name = playground.folder / "full"
    run(database.command("run", "--ramp", ramp, "--interval", interval, "--output", name, "--allow-short"))
    result = json.loads(name.with_suffix(".json").read_text())
    shown = json.loads(run(database.show(name.with_suffix(".json"))))
    orders = result["kinds"][0]["completed"]
    rate = orders * 60 / result["measured_seconds"] / warehouses
    short = [verdict["name"] for verdict in shown["verdicts"] if verdict["verdict"] == "short"]
    return [
        Figure("New-Orders a minute and warehouse", rate, "/min", orders, "", Bar(0.98 * CEILING, at_most=False)),
        Figure("the same, of the ceiling", 100 * rate / CEILING, "%", orders, f"of {CEILING}", None),
        Figure("verdicts short", len(short), "", len(shown["verdicts"]), ", ".join(short) or "none", Bar(0)),
    ]
