"""Ghosts of a running server: how many stretches end as the server's did, how long the server is stopped, and
whether their misses agree with source `simulated` on the same load."""

import json
from pathlib import Path
from typing import Callable, Dict, Iterator, Optional

import loads
import works
from figure import Bar, Figure
from processes import Trouble
from servers import Playground, Server

Say = Callable[[str], None]
EVENTS = "l1d-miss,l2-miss,stlb-miss"
PRIVATE = ("heap", "memory context")
SEGMENT = "dynamic shared memory"
# Event, its title, the number of points that shares of objects may be apart.
PAUSES = (("p50", "p50_ns", 0.3), ("p99", "p99_ns", 2.0), ("longest", "max_ns", 20.0))
COMPARED = (("l1d-miss", "L1D misses", 5.0), ("l2-miss", "L2 misses", 6.0), ("stlb-miss", "page walks", None))


def checks(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The self-check and losses under each load; pauses and the part that is followed under those of pgbench."""
    for work in works.ALL:
        load = work.name
        with works.of(playground, work).running() as server:
            works.record(server, work, ["--ghosts", "-e", EVENTS], 10 if quick else 40 if work.usual else 20, say)
            notes = _sidecar(server.capture)["ghosts"]
        counts = notes["stretches"]
        different = counts["other_call"] + counts["other_registers"] + counts["died"]
        checked, total = counts["same"] + different, sum(counts.values())
        what = f"stretches of {load}"
        if checked:
            yield loads._share(f"{load}: ended as the server's did", counts["same"], checked, what, Bar(work.least, False))
        yield loads._share(f"{load}: at the limit, not checked", counts["unchecked"], total, what)
        yield loads._share(f"{load}: lost to the emulator", counts["unsupported"], total, what, Bar(1.0))
        if not work.usual:
            continue
        pauses = notes["pauses"]
        for name, key, most in PAUSES:
            yield Figure(f"{load}: pause, {name}", pauses[key] / 1e6, "ms", pauses["n"], f"pauses of {what}", Bar(most))
        followed = 100 * notes["kept_ns"] / max(1, notes["stood_for_ns"])
        yield Figure(f"{load}: CPU time followed", followed, "%", notes["windows"], f"windows of {load}")


def agreement(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Misses per 1,000 instructions, and their objects, against the simulation on the same server."""
    seconds, work = 10 if quick else 60, works.READS[0]
    with works.of(playground, work).running() as server:
        works.record(server, work, ["--ghosts", "-e", EVENTS], seconds, say)
        ghosts, of_ghosts = _sidecar(server.capture)["counts"], _tables(server)
        works.record(server, work, [*works.SIMULATED, "-e", EVENTS], seconds, say)
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
    """Without what only a restarted server uses: the log's buffers, which it clears once, and empty buffers, which its background
    writer reads. Private memory as one object, since ghosts' chunks are looked up after they were freed; likewise segments that
    have another name at each start."""
    rows = [
        row for row in table["rows"] if row["class"] != "WAL" and (row["class"], row["name"]) != ("buffer descriptor", "empty")
    ]
    merged = {**dict.fromkeys(PRIVATE, "private memory"), SEGMENT: SEGMENT}
    return {
        **table,
        "rows": [{**row, "class": merged[row["class"]], "name": ""} if row["class"] in merged else row for row in rows],
    }


def _count(row: dict) -> float:
    return float(row["count"])


def _sidecar(capture: Path) -> dict:
    notes = json.loads((capture.parent / (capture.name + ".json")).read_text())
    if "ghosts" in notes and sum(notes["ghosts"]["stretches"].values()) == 0:
        raise Trouble("nothing could be followed\n  remedy: see what `hardmeter doctor` says of ghosts")
    return notes


def _tables(server: Server) -> Dict[str, dict]:
    """Objects by event."""
    return {table["event"]: table for table in loads._objects(server)["tables"]}
