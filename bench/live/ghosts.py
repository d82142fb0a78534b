"""Ghosts of a running server: how many stretches end as the server's did, how long the server is stopped, and
whether their misses agree with source `simulated` on the same load."""

import json
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import loads
from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, Playground, Server

Say = Callable[[str], None]
EVENTS = "l1d-miss,l2-miss,stlb-miss"
# Load, arguments of pgbench, minimum share of equal stretches.
LOADS: Sequence[Tuple[str, List[str], float]] = (("pgbench -S", ["-S"], 99.0), ("TPC-B", [], 95.0))
# Event, its title, the number of points that shares of objects may be apart.
PRIVATE = ("heap", "memory context")
COMPARED = (("l1d-miss", "L1D misses", 5.0), ("l2-miss", "L2 misses", 6.0), ("stlb-miss", "page walks", None))


def checks(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The self-check, losses and pauses under two loads."""
    for load, arguments, least in LOADS:
        with loads._server(playground).running() as server:
            say(f"{load}, followed")
            _record(server, ["--ghosts", "-e", EVENTS], arguments, "10" if quick else "40")
            notes = _sidecar(server.capture)["ghosts"]
        counts = notes["stretches"]
        different = counts["other_call"] + counts["other_registers"] + counts["died"]
        checked, total = counts["same"] + different, sum(counts.values())
        what = f"stretches of {load}, 2 clients"
        yield loads._share(f"{load}: ended as the server's did", counts["same"], checked, what, Bar(least, False))
        yield loads._share(f"{load}: lost to the emulator", counts["unsupported"], total, what, Bar(1.0))
        pauses = notes["pauses"]
        for name, key, most in (("p50", "p50_ns", 0.3), ("p99", "p99_ns", 2.0), ("longest", "max_ns", 20.0)):
            yield Figure(f"{load}: pause, {name}", pauses[key] / 1e6, "ms", pauses["n"], f"pauses of {what}", Bar(most))
        followed = 100 * notes["kept_ns"] / max(1, notes["stood_for_ns"])
        yield Figure(f"{load}: CPU time followed", followed, "%", notes["windows"], f"windows of {load}")


def agreement(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Misses per 1,000 instructions, and their objects, against the simulation on the same server."""
    seconds = "10" if quick else "60"
    with loads._server(playground).running() as server:
        say("pgbench -S, followed")
        _record(server, ["--ghosts", "-e", EVENTS], ["-S"], seconds)
        ghosts, of_ghosts = _sidecar(server.capture)["counts"], _tables(server)
        say("pgbench -S, simulated")
        _record(server, ["--source", "simulated", "-e", EVENTS], ["-S"], seconds)
        simulated, of_simulated = _sidecar(server.capture)["counts"], _tables(server)
    for event, title in (("loads", "loads"), ("stores", "stores"), *((event, title) for event, title, _ in COMPARED)):
        followed, truth = (1000 * counts[event] / counts["instructions"] for counts in (ghosts, simulated))
        samples = sum(row["count"] for row in of_ghosts[event]["rows"]) if event in of_ghosts else 1
        what = f"per 1,000 instructions of pgbench -S: {followed:.3f} followed, {truth:.3f} simulated"
        yield Figure(f"rates: {title}", 100 * abs(followed / truth - 1), "% apart", samples, what, Bar(10.0))
    for event, title, most in COMPARED:
        one, other = (loads._by_name(_comparable(tables[event]), _count) for tables in (of_ghosts, of_simulated))
        apart = 50 * sum(abs(one.get(name, 0) - other.get(name, 0)) for name in {*one, *other})
        samples = sum(row["count"] for row in of_ghosts[event]["rows"])
        bar: Optional[Bar] = None if most is None else Bar(most)
        yield Figure(f"objects of {title}: total variation", apart, "points", samples, "samples of ghosts", bar)


def _comparable(table: dict) -> dict:
    """Without the log, whose buffers a restarted server clears once; private memory as one object, since ghosts' chunks
    are looked up after they were freed."""
    rows = [row for row in table["rows"] if row["class"] != "WAL"]
    private = {"class": "private memory", "name": ""}
    return {**table, "rows": [{**row, **private} if row["class"] in PRIVATE else row for row in rows]}


def _count(row: dict) -> float:
    return float(row["count"])


def _record(server: Server, source: List[str], load: List[str], seconds: str) -> None:
    command = [HARDMETER, "--quiet", "record", *source, "-o", server.capture, "--server", server.folder, "--"]
    run([*command, "pgbench", "-n", *load, "-c", "2", "-T", seconds], env=server.environment())


def _sidecar(capture: Path) -> dict:
    notes = json.loads((capture.parent / (capture.name + ".json")).read_text())
    if "ghosts" in notes and sum(notes["ghosts"]["stretches"].values()) == 0:
        raise Trouble("nothing could be followed\n  remedy: see what `hardmeter doctor` says of ghosts")
    return notes


def _tables(server: Server) -> Dict[str, dict]:
    """Objects by event."""
    return {table["event"]: table for table in loads._objects(server)["tables"]}
