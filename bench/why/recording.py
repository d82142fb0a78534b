"""One recording of pgbench with ten clients: objects at its addresses, their statements, and contended lines;
compared with pg_buffercache and `perf c2c report`.
"""

import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import Callable, Dict, List, Tuple

from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, Playground, Server

EVENTS = "l1d-miss/period=211/,l2-miss/period=211/"
# Only sharing events: perf adds up the samples of all events, and a coherence miss is also one of L1D.
EVENTS_OF_SHARING = "coherence-miss/period=7/,invalidation/period=7/"
CORES = "4"

# Relation, block, number of the buffer: main forks of tables and indexes of pgbench's database.
BUFFERS = """
    SELECT n.nspname || '.' || c.relname, b.relblocknumber, b.bufferid
    FROM pg_buffercache b JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid)
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE b.relforknumber = 0 AND n.nspname = 'public'
    AND b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
PAGE = 8192


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figures of objects, queries and sharing. With --quick a tenth as long, which start-up then weighs down."""
    transactions = "20" if quick else "200"
    # Buffers for the whole database: none is reused, so that pg_buffercache at the end lists all.
    server = playground.server("native", scale=10, settings={"shared_buffers": "256MB"})
    with server.running(), contextlib.closing(server.connect()) as connection:
        connection.query("CREATE EXTENSION IF NOT EXISTS pg_buffercache")
    say(f"recording pgbench -c 10 -t {transactions} at scale 10 on {CORES} simulated cores")
    # The buffers of the recorded server, queried before it ends.
    script = f"pgbench -n -c 10 -t {transactions} >/dev/null 2>&1 && psql -XAt -F '|' -c \"$BUFFERS\""
    programs = Path(server.program("pgbench")).parent
    environment = dict(server.environment(), BUFFERS=BUFFERS)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    told = run([*_record(server, EVENTS), "sh", "-c", script], env=environment)
    figures = [*_objects(server, _buffers(told)), *_queries(server), *_score(_view(server, "why", "--score"))]
    say("the same for the lines that clients fight for")
    run([*_record(server, EVENTS_OF_SHARING), "pgbench", "-n", "-c", "10", "-t", "20"], env=environment)
    return [*figures, _sharing(server)]


def _record(server: Server, events: str) -> list:
    """The command line before the words of the command to run."""
    record = [HARDMETER, "--quiet", "record", "--source", "simulated", "-e", events, "--cores", CORES]
    return [*record, "-o", server.capture, "--server", server.folder, "--"]


def _view(server: Server, *words) -> dict:
    return json.loads(run([HARDMETER, "--quiet", *words, "--format", "json", "-i", server.capture]))


def _buffers(told: str) -> Dict[Tuple[str, int], int]:
    rows = [line.split("|") for line in told.splitlines() if line.count("|") == 2]
    return {(relation, int(block)): int(buffer) for relation, block, buffer in rows}


def _percent(name: str, share: dict, what: str, bar: float) -> Figure:
    interval = share["interval_95"]
    between = (interval["low"] * 100, interval["high"] * 100)
    return Figure(name, share["fraction"] * 100, "%", share["of"], what, Bar(bar, at_most=False), between)


def _objects(server: Server, buffers: Dict[Tuple[str, int], int]) -> List[Figure]:
    coverage = _view(server, "objects")["coverage"]
    right, all_pages = _pages(Path(f"{server.capture}.objects"), buffers)
    stable = coverage["stable_share"]
    return [
        Figure(
            "objects: pages as pg_buffercache has them",
            100 * right / all_pages if all_pages else 0,
            "%",
            all_pages,
            "sampled pages of pgbench's relations that are in the buffer that pg_buffercache says",
            Bar(100, at_most=False),
        ),
        _percent(
            "objects: more specific than memory",
            coverage["specific_share"],
            'data samples in user mode named more specifically than "shared memory" or "heap"',
            90,
        ),
        Figure(
            "objects: surely at that moment",
            stable["fraction"] * 100,
            "%",
            stable["of"],
            "samples named by the notes whose object was the same before and after, or told by the sample's own state",
            None,
            (stable["interval_95"]["low"] * 100, stable["interval_95"]["high"] * 100),
        ),
    ]


def _pages(notes: Path, buffers: Dict[Tuple[str, int], int]) -> Tuple[int, int]:
    """Pages in the side file that agree with the server, and all of them.

    Buffer N begins at a multiple of the page size from the first: origin - (N - 1) * 8192 is one address for all pages
    if both are right. Pages that are in no buffer any more cannot be checked: a table that was truncated.
    """
    told = json.loads(notes.read_text())
    texts, begins = told["texts"], {}
    for fact in told["facts"]:
        path = fact["path"]
        block = re.match(r"main block (\d+)", texts[path["instance"]])
        if texts[path["class"]] not in ("table", "index") or not block:
            continue
        page = (texts[path["name"]], int(block[1]))
        if page in buffers:
            begins[(page, fact["origin"])] = fact["origin"] - (buffers[page] - 1) * PAGE
    if not begins:
        raise Trouble("no sampled page is one that pg_buffercache tells of")
    first = max(set(begins.values()), key=list(begins.values()).count)
    return sum(begin == first for begin in begins.values()), len(begins)


def _queries(server: Server) -> List[Figure]:
    report = _view(server, "queries", "--all")
    apart = sum(
        abs(table["samples"] - sum(row["count"] for row in table["rows"])) for table in report["tables"]
    )
    samples, coverage = sum(table["samples"] for table in report["tables"]), report["coverage"]
    return [
        _percent(
            "queries: backend samples with a statement",
            coverage["statement_share"],
            "samples of client backends that carry a statement, executed or just over",
            95,
        ),
        Figure(
            "queries: before the first statement",
            100 * coverage["starting_share"]["fraction"],
            "%",
            coverage["starting_share"]["of"],
            "samples of client backends that start: the less, the longer they live",
        ),
        Figure("queries: counts that do not add up", apart, "", samples, "samples in no row, or in two", Bar(0)),
    ]


def _sharing(server: Server) -> Figure:
    ours: Dict[int, int] = {}
    for line in _view(server, "sharing", "--all")["lines"]:
        counts, address = line["counts"], int(line["address"], 16)
        ours[address] = ours.get(address, 0) + counts["local_hitm"] + counts["remote_hitm"]
    theirs = _lines_of_perf(server.capture)
    return Figure(
        "sharing: lines perf c2c counts otherwise",
        sum(ours.get(address) != count for address, count in theirs.items()),
        "",
        len(theirs),
        "lines whose loads of modified data `perf c2c report` counts otherwise in the same file",
        Bar(0),
    )


def _score(why: dict) -> List[Figure]:
    """How often the classifier for hardware samples, without the recorded causes, decides, and how often it is right.
    Without a bar: the score is reported.
    """
    figures = []
    for event in why["events"]:
        score, name = event.get("score"), event["event"]
        if not score or score["decided"]["of"] == 0:
            continue
        told = [("decided", score["decided"], "whose cause is inferred from samples alone, others stay unknown")]
        if score["agreement"]["of"]:
            told.append(("right of these", score["agreement"], "of them whose cause is the simulator's"))
        for which, share, what in told:
            interval = share["interval_95"]
            figures.append(
                Figure(
                    f"inferred causes, {name}: {which}",
                    share["fraction"] * 100,
                    "%",
                    share["of"],
                    f"misses of {name} {what}",
                    None,
                    (interval["low"] * 100, interval["high"] * 100),
                )
            )
    return figures


def _lines_of_perf(capture: Path) -> Dict[int, int]:
    """Loads that hit a line modified elsewhere, by line, from `perf c2c report`."""
    if not shutil.which("perf"):
        raise Trouble("perf is not installed\n  remedy: make setup")
    text = run(["perf", "c2c", "report", "-i", capture, "--stdio"])
    table = text.split("Shared Data Cache Line Table")[1].split("Pareto")[0]
    lines: Dict[int, int] = {}
    for row in table.splitlines():
        if "%" in row:
            # Index, address, node, page count, share; then such loads in all, local, remote.
            words = row.split()
            address = int(words[1], 16)
            lines[address] = lines.get(address, 0) + int(words[6]) + int(words[7])
    return lines
