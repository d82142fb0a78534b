"""The cost of the extension to TPC-C, where it has almost no effect: closed runs with and without it, in turn."""

import json
import os
import random
from pathlib import Path
from typing import Callable, Dict, List

import tpch
from figure import Bar, Figure, interleaved
from processes import Trouble, run
from servers import HARDMETER, SETTINGS, Playground

BAR = 0.99
WAREHOUSES = 4
# One, as with pgbench in transactions.py: with two, the driver competes for their processor, and legs vary more.
CLIENTS = 1
DATABASE = "tpcc"
UNLOADED = "RESET session_preload_libraries"
LOADED = "SET session_preload_libraries = 'ccopt'"


class TpccServer:
    """A server with warehouses; it runs until the end of the playground."""

    def __init__(self, playground: Playground, extension: tpch.Extension):
        self.folder = playground.folder / "tpcc"
        playground.adopt(self)
        # Both would wait for the log equally: only CPU time is compared.
        settings = {**SETTINGS, "shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "60min"}
        settings.update(extension.server_settings())
        words = [word for item in settings.items() for word in ("--set", "=".join(item))]
        self._server("start", "postgres", *words)
        self._description = json.loads(self._server("status", "--format", "json"))
        self.tpcc("load", "--warehouses", WAREHOUSES)

    def _server(self, action: str, *words) -> str:
        return run([HARDMETER, "--quiet", "server", action, *words, "--dir", self.folder])

    def remove(self) -> None:
        if (self.folder / "state.json").exists():
            self._server("remove")

    def tpcc(self, action: str, *words, statuses=(0,)) -> dict:
        command = [HARDMETER, "--quiet", "tpcc", action, *words, "--server", self.folder, "--format", "json"]
        return json.loads(run(list(map(str, command)), statuses))

    def sql(self, statement: str) -> str:
        psql = str(Path(self._description["programs"]) / "psql")
        environment = dict(
            os.environ,
            PGHOST=self._description["socket_folder"],
            PGPORT=str(self._description["port"]),
            PGUSER=self._description["user"],
            PGDATABASE=DATABASE,
        )
        return run([psql, "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement], env=environment).strip()

    def leg(self, seconds: int) -> dict:
        """A closed run: New-Orders per second, and CPU seconds of the server per 1000 of them."""
        file = self.folder.parent / "tpcc-run.json"
        words = ["--mode", "closed", "--clients", CLIENTS, "--connections", CLIENTS, "--ramp", "500ms"]
        words += ["--interval", f"{seconds}s", "--no-check", "--output", file.with_suffix(""), "--overwrite"]
        command = [HARDMETER, "--quiet", "tpcc", "run", *words, "--server", self.folder]
        run(list(map(str, command)))
        result = json.loads(file.read_text())
        orders = result["kinds"][0]["completed"]
        if not orders or not result["server"]:
            raise Trouble(f"{file} has {orders} New-Orders, and {result['server']} of the server")
        return {
            "rate": orders / result["measured_seconds"],
            "cpu": 1000 * result["server"]["cpu_seconds"] / orders,
        }


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Throughput and CPU time with the extension relative to those without; and the twelve conditions afterwards."""
    # Many short legs: other load on a shared machine varies within seconds, and a block must be shorter than that.
    blocks, seconds = (1, 2) if quick else (40, 2)
    chance = random.Random(1)
    extension = tpch.Extension(playground)
    say(f"loading {WAREHOUSES} warehouses")
    server = TpccServer(playground, extension)
    ways = {"stock": UNLOADED, "loaded": LOADED if extension.server_settings() else UNLOADED}
    server.leg(2)  # creates the procedures, warms the caches
    ratios: Dict[str, List[float]] = {"rate": [], "cpu": []}
    for block in range(blocks):
        say(f"TPC-C: block {block + 1} of {blocks}")
        legs: Dict[str, List[dict]] = {way: [] for way in ways}
        for way in interleaved(list(ways), chance):
            server.sql(f"ALTER DATABASE {DATABASE} {ways[way]}")
            legs[way].append(server.leg(seconds))
        for measured, of_blocks in ratios.items():
            stock, loaded = (sum(leg[measured] for leg in legs[way]) for way in ways)
            of_blocks.append(loaded / stock)
    audit = server.tpcc("audit", statuses=(0, 1))
    broken = [condition["number"] for condition in audit["conditions"] if condition["violations"] > 0]
    run_of = f"closed runs of {CLIENTS} client on {WAREHOUSES} warehouses"
    what = f"New-Orders a second with the extension loaded, to stock; {run_of}"
    cost = f"CPU time of the server per New-Order with the extension loaded, to stock; {run_of}"
    conditions = f"of TPC-C's twelve that do not hold after all runs: {broken}"
    return [
        Figure.of_blocks("TPC-C: throughput", ratios["rate"], "x", what, Bar(BAR, at_most=False)),
        Figure.of_blocks("TPC-C: CPU time per New-Order", ratios["cpu"], "x", cost),
        Figure("TPC-C: broken conditions", len(broken), "", len(audit["conditions"]), conditions, Bar(0)),
    ]
