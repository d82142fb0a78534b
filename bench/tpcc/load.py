"""Duration of a load of four warehouses, and the twelve conditions after a run on them."""

import time
from typing import Callable, List

from database import Database, run_tpcc
from figure import Bar, Figure
from servers import Playground

WAREHOUSES = 4
LOAD_BAR, AUDIT_BAR = 20, 10


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Wall time in seconds: of a load with keys, vacuum and statistics; of an audit."""
    repetitions = 1 if quick else 6
    database = Database(playground, "load")
    loads = []
    for number in range(repetitions):
        say(f"loading {WAREHOUSES} warehouses: {number + 1} of {repetitions}")
        started = time.monotonic()
        database.tpcc("load", "--warehouses", str(WAREHOUSES), "--replace")
        loads.append(time.monotonic() - started)
    say("a run that the audit has something to read of")
    one = run_tpcc(database, "--mode", "closed", "--clients", "16", "--ramp", "1s", "--interval", "5s" if quick else "60s")
    audits = []
    for number in range(repetitions):
        say(f"auditing: {number + 1} of {repetitions}")
        audits.append(database.tpcc("audit", statuses=(0, 1)))  # 1: a condition failed
    broken = [
        f"{condition['number']}" for audit in audits for condition in audit["conditions"] if condition["violations"] > 0
    ]
    odd = [finding["name"] for audit in audits for finding in audit["findings"] if finding["verdict"] == "short"]
    seconds = [audit["seconds"] for audit in audits]
    orders = f"after a run of {one.new_orders} New-Orders"
    return [
        Figure.of_blocks(f"load of {WAREHOUSES} warehouses", loads, "s", "keys, vacuum, statistics too", Bar(LOAD_BAR)),
        Figure.of_blocks("twelve conditions, after a run", seconds, "s", orders, Bar(AUDIT_BAR)),
        Figure("conditions that do not hold", len(set(broken)), "", 12, orders, Bar(0)),
        Figure("draws that are not as the clauses say", len(set(odd)), "", len(audits), ", ".join(sorted(set(odd))), Bar(0)),
        Figure("New-Orders of that run", one.new_orders, "", 1, "by the districts", None),
    ]
