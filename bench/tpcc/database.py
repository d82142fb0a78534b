"""A throwaway PostgreSQL with TPC-C in it, and runs of the kit on it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from processes import Trouble, Used, run, run_measured
from servers import HARDMETER, Playground, environment

# fsync stays on: a commit waits for the disk, as for users.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min", "max_connections": "200"}


class Database:
    """One server; it runs until the end of the playground."""

    def __init__(self, playground: Playground, name: str = "tpcc"):
        self.folder = playground.folder / name
        self._playground = playground
        playground.adopt(self)
        settings = [word for item in SETTINGS.items() for word in ("--set", "=".join(item))]
        self.server("start", "postgres", *settings)
        self._description = json.loads(self.server("status", "--format", "json"))

    def server(self, action: str, *words) -> str:
        return run([HARDMETER, "--quiet", "server", action, *words, "--dir", self.folder])

    def remove(self) -> None:
        if (self.folder / "state.json").exists():
            self.server("remove")

    def command(self, *words) -> list:
        """The command line of a subcommand on this server."""
        return [HARDMETER, "--quiet", "tpcc", *words, "--server", self.folder]

    def tpcc(self, *words, statuses: Sequence[int] = (0,)) -> dict:
        """The JSON output of a subcommand."""
        return json.loads(run(self.command(*words, "--format", "json"), statuses))

    def environment(self) -> dict:
        """Environment variables with which PostgreSQL's programs find it."""
        return environment(self._description, "tpcc")

    def program(self, name: str) -> str:
        """One of PostgreSQL's own programs."""
        return str(Path(self._description["programs"]) / name)

    def sql(self, statement: str) -> str:
        words = [self.program("psql"), "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]
        return run(words, env=self.environment()).strip()

    def new_orders(self) -> int:
        """Number of New-Orders in the database, by the districts' counters: independent of any driver."""
        return int(self.sql("SELECT sum(d_next_o_id) FROM district"))


@dataclass
class Run:
    """A run of the kit."""

    file: Path
    result: dict
    used: Used
    new_orders: int

    def driver_cpu(self) -> float:
        """CPU seconds of the drivers per 1000 New-Orders in the measurement interval, rolled back ones too."""
        return 1000 * sum(part["cpu_seconds"] for part in self.result["drivers"]) / self.completed()

    def completed(self) -> int:
        """New-Orders of the measurement interval, rolled back ones too."""
        return self.result["kinds"][0]["completed"]


def run_tpcc(database: Database, *words, check: bool = False) -> Run:
    """Runs `hardmeter tpcc run`, with or without its check of the conditions, and reads its result file."""
    file = database.folder.parent / "run.json"
    before = database.new_orders()
    whole: list = [*words, "--output", file.with_suffix(""), "--overwrite", *([] if check else ["--no-check"])]
    used = run_measured(database.command("run", *whole))
    after = database.new_orders()
    if not file.exists():
        raise Trouble(f"hardmeter tpcc run left no {file}")
    return Run(file, json.loads(file.read_text()), used, after - before)
