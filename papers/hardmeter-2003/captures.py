"""Throwaway servers under pgbench on the simulated machine, and what `hardmeter` says of their captures."""

import dataclasses
import json
import pathlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterable

import paper
from steps import Failure, run, say

MACHINE = "xeon-2003"
# PostgreSQL 7.3 had neither; both would add processes and code that the paper did not run.
SETTINGS = ("autovacuum=off", "jit=off")
Place = tuple[str, str]  # address, routine


@dataclasses.dataclass(frozen=True)
class Hits:
    """Samples of loads that missed, by address and routine: PEBS of 2003 sampled no stores and no code."""

    total: int
    period: int
    places: Counter[Place]

    def of_routines(self, routines: Iterable[str]) -> int:
        """The samples in these routines."""
        return sum(count for (_, routine), count in self.places.items() if routine in routines)


def read_hits(report: dict, event: str) -> Hits:
    """The loads of one event in what `hardmeter report --by address,routine,operation --all --format json` printed.

    Raises Failure if it has no table of the event.
    """
    for table in report["tables"]:
        if table["event"] == event:
            places: Counter[Place] = Counter()
            for row in table["rows"]:
                if row["operation"] == "load":
                    places[short_address(row["address"]), row["routine"]] += row["count"]
            return Hits(places.total(), round(table["events"] / max(table["samples"], 1)), places)
    raise Failure(f"the capture has no event {event}")


def short_address(text: str) -> str:
    """An address as the paper writes it: eight digits at least, without 0x."""
    return text.removeprefix("0x").rjust(8, "0")


def together(all_hits: list[Hits]) -> Hits:
    """Several runs added up. They have one period."""
    places: Counter[Place] = Counter()
    for hits in all_hits:
        places.update(hits.places)
    return Hits(sum(hits.total for hits in all_hits), all_hits[0].period, places)


class Measured:
    """The simulated machine: servers by variant of PostgreSQL, and captures of them, all below one folder."""

    def __init__(self, hardmeter: pathlib.Path, folder: pathlib.Path, programs: dict[str, pathlib.Path]) -> None:
        self.hardmeter = hardmeter
        self.folder = folder
        self.programs = programs
        self.started: list[pathlib.Path] = []

    def ask(self, *words: object, accepted: tuple[int, ...] = (0,)) -> str:
        """What a command of hardmeter prints."""
        return run([self.hardmeter, "--quiet", *words], accepted=accepted)

    def ask_json(self, *words: object) -> dict:
        """The same, of a command that takes --format json."""
        return json.loads(self.ask(*words, "--format", "json"))

    def server(self, variant: str) -> pathlib.Path:
        """The folder of a variant's server, which is made when it is first asked for."""
        place = self.folder / f"server-{variant}"
        if place not in self.started:
            self.started.append(place)
            settings = [word for setting in SETTINGS for word in ("--set", setting)]
            self.ask("server", "start", "postgres", "--dir", place, "--programs", self.programs[variant], *settings)
        return place

    def load(self, variant: str) -> dict[str, int]:
        """Loads pgbench's tables at scale 1 again; returns their numbers of rows."""
        place = self.server(variant)
        status = self.ask_json("server", "status", "--dir", place)
        if status["status"] != "running":
            self.ask("server", "start", "--dir", place)
        self.ask("server", "load", "postgres", "--scale", 1, "--dir", place)
        status = self.ask_json("server", "status", "--dir", place)
        selects = " union all ".join(f"select '{name}', count(*) from pgbench_{name}" for name in paper.TABLE_4)
        psql = [pathlib.Path(status["programs"]) / "psql", "-XAtq", "-h", status["socket_folder"], "-p", status["port"]]
        rows = run([*psql, "-U", status["user"], "-c", selects, "postgres"])
        return {name: int(count) for name, count in (line.split("|") for line in rows.split())}

    def record(self, variant: str, capture: pathlib.Path, events: dict[str, int], transactions: int) -> str:
        """Records pgbench on the variant's server, on freshly loaded tables; returns what pgbench printed."""
        self.load(variant)
        chosen = ",".join(f"{event}/period={period}/" for event, period in events.items())
        say(f"recording {capture.name}: pgbench -c {paper.CLIENTS} -t {transactions} on {MACHINE}")
        words = ["record", "--source", "simulated", "--machine", MACHINE, "--no-objects", "--no-causes", "-e", chosen]
        command = ["pgbench", "-c", paper.CLIENTS, "-t", transactions, "postgres"]
        printed = self.ask(*words, "-o", capture, "--server", self.server(variant), "--", *command)
        if not re.search(rf"{paper.CLIENTS * transactions}/{paper.CLIENTS * transactions}$", printed, re.M):
            raise Failure(f"pgbench did not process all transactions:\n{printed}")
        return printed

    def hits(self, capture: pathlib.Path, event: str) -> Hits:
        """The loads among the samples of one event in a capture."""
        by = ["--by", "address,routine,operation", "--all"]
        return read_hits(self.ask_json("report", "-i", capture, "--event", event, *by), event)

    def remove(self) -> None:
        """Removes the servers; builds and captures stay."""
        for place in self.started:
            subprocess.run([self.hardmeter, "--quiet", "server", "remove", "--dir", place], capture_output=True, check=False)
