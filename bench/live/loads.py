"""How often loads are found for timer samples, and whether their objects agree with the simulation."""

import contextlib
import json
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Set, Tuple

import evidence
from figure import Bar, Figure, Interval
from processes import Trouble, run
from servers import HARDMETER, Playground, Server

Say = Callable[[str], None]
# Latency of a first-level hit in cycles, subtracted from that of a miss.
L1_LATENCY = 4
# Names of objects compared.
TOP = 10
# Under the simulation a transaction takes a hundred times as long. What these processes do by the clock would have a hundred
# times its share of the misses.
SELDOM = {"bgwriter_delay": "10s", "wal_writer_delay": "10s", "checkpoint_timeout": "60min"}


def skid(playground: Playground, _quick: bool, say: Say) -> Iterator[Figure]:
    """The places of samples in a loop with one waiting load: the self-test at the start of a recording."""
    say("self-test of the source live")
    capture = playground.folder / "self-test.data"
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"
    run([HARDMETER, "--quiet", "record", "--source", "live", "-o", capture, "--", "sh", "-c", busy])
    counts = [count["samples"] for count in _notes(capture)["skid"]]
    what = "samples of a chase beyond L2, at the commonest instruction"
    yield _share("self-test: samples at one place", max(counts), sum(counts), what, Bar(95.0, False))


def loads(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Of the samples of pgbench -S in programs: shares after a load, with an address, at a known place."""
    with _server(playground).running() as server:
        say("pgbench -S, recorded by live")
        _record(server, ["--source", "live"], "5" if quick else "20")
        counts = _notes(server.capture)["counts"]
        coverage = _objects(server)["coverage"]
    stalls = sum(counts[name] for name in ("with_address", "overwritten", "segment", "several"))
    user = sum(counts.values()) - counts["kernel"]
    addressed = counts["with_address"]
    what = "of pgbench -S, 2 clients"
    yield _share("user samples right behind a load", stalls, user, f"samples in user mode {what}")
    yield _share("stall samples with an address", addressed, stalls, f"stall samples {what}", Bar(90.0, False))
    noted, of = coverage["noted"], coverage["user_data"]
    yield _share("addresses in known memory", noted, of, f"addresses {what}", Bar(99.0, False))


def objects(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The objects with most stall time against those with most simulated miss latency, on the same server."""
    seconds = "5" if quick else "20"
    with _server(playground).running() as server:
        say("pgbench -S, recorded by live")
        # 8 of the true top ten within a minute, the start and the answer included.
        _record(server, ["--source", "live"], "5" if quick else "50")
        live = _by_name(_objects(server)["tables"][0], lambda row: float(row["count"]))
        say("pgbench -S, recorded by simulated")
        _record(server, ["--source", "simulated", "-e", "l1d-miss"], seconds)
        simulated = _by_name(_objects(server)["tables"][0], _latency)
    common = len(_top(live) & _top(simulated))
    apart = 50 * sum(abs(live.get(name, 0) - simulated.get(name, 0)) for name in {*live, *simulated})
    what = "objects of pgbench -S, stall time against simulated miss latency beyond L1"
    yield Figure("objects: common to both top ten", common, "of 10", 1, what, Bar(8, False))
    yield Figure("objects: total variation", apart, "points", 1, what)


def first_answer(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Seconds from the command until the first screen of `objects`, on a server at work: five of them record."""
    blocks: List[float] = []
    with _server(playground).running() as server, pgbench(server):
        record = [HARDMETER, "--quiet", "record", "--source", "live", "-o", server.capture]
        for block in range(3 if quick else 9):
            say(f"first answer: {block + 1}")
            begin = time.monotonic()
            run([*record, "--server", server.folder, "--", "sleep", "5"], env=server.environment())
            screen = run([HARDMETER, "objects", "-i", server.capture])
            blocks.append(time.monotonic() - begin)
            if "pgbench_accounts" not in screen:
                raise Trouble(f"the first screen names no table\n  remedy: read it:\n{screen}")
    yield Figure.of_blocks("first answer", blocks, "s", "record -- sleep 5, then objects, beside pgbench -S -c 2", Bar(10))


@contextlib.contextmanager
def pgbench(server: Server) -> Iterator[None]:
    """pgbench -S with two clients, until the block ends."""
    command = ["pgbench", "-n", "-S", "-c", "2", "-T", "3600"]
    output = subprocess.DEVNULL
    with subprocess.Popen(command, env=server.environment(), stdout=output, stderr=output) as load:
        try:
            yield
            if load.poll() is not None:
                raise Trouble("pgbench ended early\n  remedy: read the server's log")
        finally:
            load.terminate()


def _server(playground: Playground) -> Server:
    return playground.server("native", 10, {"shared_buffers": "256MB", **SELDOM})


def _record(server: Server, source: List[str], seconds: str) -> None:
    command = [HARDMETER, "--quiet", "record", *source, "-o", server.capture, "--server", server.folder, "--"]
    run([*command, "pgbench", "-n", "-S", "-c", "2", "-T", seconds], env=server.environment())


def _notes(capture: Path) -> dict:
    """The side file of a live recording."""
    return json.loads((capture.parent / (capture.name + ".json")).read_text())["stall"]


def _objects(server: Server) -> dict:
    """What `hardmeter objects` prints."""
    arguments = ["objects", "--by", "name", "--all", "--format", "json", "-i", server.capture]
    return json.loads(run([HARDMETER, *arguments]))


def _latency(row: dict) -> float:
    mean = (row.get("latencies") or {}).get("mean") or 0
    return row["count"] * max(0.0, mean - L1_LATENCY)


def _by_name(table: dict, weight: Callable[[dict], float]) -> Dict[Tuple[str, str], float]:
    """The share of each object."""
    weights: Dict[Tuple[str, str], float] = {}
    for row in table["rows"]:
        name = (row["class"], row["name"])
        weights[name] = weights.get(name, 0) + weight(row)
    total = sum(weights.values())
    if total == 0:
        raise Trouble("no sample has a data address\n  remedy: see what `hardmeter doctor` says of the sources")
    return {name: value / total for name, value in weights.items()}


def _top(shares: Dict[Tuple[str, str], float]) -> Set[Tuple[str, str]]:
    """The objects with the largest shares."""
    return set(sorted(shares, key=lambda name: shares[name], reverse=True)[:TOP])


def _share(name: str, count: int, total: int, what: str, bar: Optional[Bar] = None) -> Figure:
    if total == 0:
        raise Trouble(f"{name}: no samples\n  remedy: see what else uses this machine")
    return Figure(name, 100 * count / total, "%", total, what, bar, _interval(count, total))


def _interval(count: int, total: int) -> Interval:
    """The 95 % interval of a share, in percent."""
    low, high = evidence.share_interval(count, total) or (0.0, 1.0)
    return 100 * low, 100 * high
