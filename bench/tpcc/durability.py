"""The server is repeatedly killed by SIGKILL under load: acknowledged orders must be there afterwards.

A negative control follows, with `synchronous_commit = off`: the same test must report lost orders, otherwise it proves nothing.
(`fsync = off` is none: what the kernel has in its page cache outlives a killed process.)
"""

import json
import os
import signal
import subprocess
from typing import Callable, List

from database import Database
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

WAREHOUSES = 2


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Acknowledged orders that are not there, and kills after which a condition does not hold."""
    kills, control = (2, 1) if quick else (20, 3)
    database = Database(playground, "durability")
    say(f"loading {WAREHOUSES} warehouses")
    database.tpcc("load", "--warehouses", str(WAREHOUSES))
    say(f"killing the server {kills} times")
    found = _acid(database, kills)
    acknowledged, lost = _sum(found, "acknowledged"), _lost(found)
    broken = sum(bool(kill["broken_conditions"]) for kill in found)
    in_checkpoint = sum(kill["moment"] == "in-checkpoint" for kill in found)
    behind = sum(kill["payments"][0] - min(kill["payments"]) for kill in found)
    of_orders = f"of {acknowledged} acknowledged New-Orders in {kills} kills, {in_checkpoint} in a checkpoint"
    figures = [
        Figure("durability: kills", kills, "", 1, f"{in_checkpoint} in a checkpoint"),
        Figure("durability: acknowledged New-Orders", acknowledged, "", kills, "before the kills"),
        Figure("durability: New-Orders lost", lost, "", acknowledged, of_orders, Bar(0)),
        Figure("durability: Payments lost", behind, "", _payments(found), "rows that HISTORY lacks", Bar(0)),
        Figure("durability: conditions broken", broken, "", kills, "kills after which one does not hold", Bar(0)),
        Figure("durability: other faults", _other_faults(found), "", kills, "as the command says", Bar(0)),
        Figure.of_blocks(
            "durability: recovery", [kill["recovery_seconds"] for kill in found], "s", "from start to first connection"
        ),
    ]
    say(f"negative control, {control} kills")
    database.sql("ALTER SYSTEM SET synchronous_commit = off")
    database.sql("SELECT pg_reload_conf()")
    found = []
    for _ in range(control):
        # PostgreSQL 15's log writer is woken for each page of log: otherwise it leaves an order or two to be lost.
        writer = database.sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
        os.kill(int(writer), signal.SIGSTOP)
        found += _acid(database, 1)
    what = f"of {_sum(found, 'acknowledged')} acknowledged with synchronous_commit off: they must be missed"
    figures.append(Figure("control: New-Orders lost", _lost(found), "", control, what, Bar(1, at_most=False)))
    return figures


def _acid(database: Database, kills: int) -> list:
    """The kills, one by one. Exit status 1 reports a loss, and is not an error."""
    words = database.command("acid", "--only", "durability", "--kills", str(kills), "--format", "json")
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    try:
        return json.loads(done.stdout)["durability"]["kills"]
    except (ValueError, KeyError, TypeError) as error:
        raise Trouble(f"hardmeter tpcc acid: exit status {done.returncode}\n{done.stderr.strip()}") from error


def _sum(kills: list, name: str) -> int:
    return sum(kill[name] for kill in kills)


def _lost(kills: list) -> int:
    return _sum(kills, "missing") + _sum(kills, "incomplete")


def _payments(kills: list) -> int:
    return sum(kill["payments"][0] for kill in kills)


def _other_faults(kills: list) -> int:
    return sum(len(kill["faults"]) for kill in kills)
