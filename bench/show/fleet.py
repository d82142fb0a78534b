"""Captures as Parquet: the rate of the export, and queries of docs/fleet.md by DuckDB."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, Tuple

from figure import Bar, Figure
from processes import Trouble, Used, run, run_measured
from servers import HARDMETER, Playground, make_capture

# Each host has a capture of this many samples in each of two releases, and no two are of one size, so that sums differ.
# Files are linked until there are ROWS.
HOSTS = 3
SAMPLES = 2_500_000
MORE = 997
ROWS = 100_000_000

TOP_STATEMENTS = """
select statement_id, any_value(statement) as statement, sum(events) as misses, count(distinct host) as hosts
from '{fleet}/samples/*.parquet' where event = 'l2-miss' and statement_id is not null
group by statement_id order by misses desc, statement_id limit 10"""
RELEASES = """
with work as (select release, sum(transactions) as transactions from '{fleet}/captures/*.parquet'
              where event = 'l2-miss' group by release)
select s.release, s.statement_id, sum(s.events) / any_value(work.transactions) as misses_a_transaction
from '{fleet}/samples/*.parquet' s join work using (release)
where s.event = 'l2-miss' and s.statement_id is not null
group by all order by statement_id, release"""
ROUTINES = """
select host, routine, sum(latency_cycles * events) as cycles
from '{fleet}/samples/*.parquet' group by all order by cycles desc, host, routine limit 10"""
QUERIES = {"statements of all hosts": TOP_STATEMENTS, "statements by release": RELEASES, "routines by host": ROUTINES}

# A process of its own: its memory and threads are not those of the bench. Prints seconds and rows.
PROGRAM = """
import json, sys, time
import duckdb
connection = duckdb.connect()
begun = time.monotonic()
rows = connection.sql(sys.argv[1]).fetchall()
print(json.dumps([time.monotonic() - begun, len(rows)]))
"""


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The export of a large capture, and three queries over many."""
    samples, wanted = sizes(quick)
    folder = playground.folder / "fleet"
    rows, seconds, cpu, peak = 0, 0.0, 0.0, 0
    for count, took, used in exported(playground, folder, samples, say):
        rows, seconds, cpu, peak = rows + count, seconds + took, cpu + used.cpu_seconds, max(peak, used.peak_bytes)
    size = sum(file.stat().st_size for file in folder.glob("samples/*.parquet"))
    what = f"export of {HOSTS * 2} captures of {samples} samples or more, with call chains and statements"
    yield Figure("parquet: rate", rows / seconds, "1/s", HOSTS * 2, what, Bar(1e6, at_most=False))
    yield Figure("parquet: CPU time, 1 million samples", cpu / rows * 1e6, "s", HOSTS * 2, what)
    yield Figure("parquet: peak memory", peak / (1 << 20), "MB", HOSTS * 2, what)
    yield Figure("parquet: size of a sample", size / rows, "bytes", HOSTS * 2, what)
    python = python_with("duckdb")
    total = link(folder / "samples", wanted // samples) * samples
    for name, query in QUERIES.items():
        say(f"{name}, over {total} rows")
        # DuckDB may draw a progress bar before the figures.
        took, found = json.loads(run([python, "-c", PROGRAM, query.format(fleet=folder)]).splitlines()[-1])
        if found == 0:
            raise Trouble(f"the query on {name} found no row")
        what = f"DuckDB over {total} rows or more, files linked to reach it"
        yield Figure(f"query: {name}", took, "s", 1, what, Bar(10))
    shutil.rmtree(folder)


def sizes(quick: bool) -> Tuple[int, int]:
    """Samples of a capture, and rows to link files to."""
    return (100_000, 2_000_000) if quick else (SAMPLES, ROWS)


def exported(playground: Playground, folder: Path, samples: int, say: Callable[[str], None]) -> Iterator[Tuple[int, float, Used]]:
    """Exports a capture of each host and release into the folder; yields samples, seconds and resources of each export."""
    program = playground.server("native").program("postgres")
    capture = playground.folder / "fleet.data"
    for number, (host, release) in enumerate(itertools.product(range(HOSTS), ("3.1", "3.2"))):
        count = samples + number * MORE
        say(f"exporting {count} samples of host {host}, release {release}")
        run([make_capture(), capture, str(count), program, f"host-{host}-{release}"])
        words = [HARDMETER, "--quiet", "export", "--to", "parquet", "-o", folder, "--release", release, capture]
        begun = time.monotonic()
        used = run_measured(words)
        yield count, time.monotonic() - begun, used
        for file in (capture, Path(f"{capture}.json")):
            file.unlink()


def python_with(*modules: str) -> str:
    """HARDMETER_PYTHON, or this Python if that is not set. Raises Trouble if it lacks one of the modules."""
    python = os.environ.get("HARDMETER_PYTHON", sys.executable)
    for module in modules:
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
            raise Trouble(f"{python} has no module {module}\n  remedy: pip install {' '.join(modules)}, or set HARDMETER_PYTHON")
    return python


def link(folder: Path, wanted: int) -> int:
    """Links the files of a folder until there are `wanted`; returns the number of files."""
    files = sorted(folder.glob("*.parquet"))
    for number in range(len(files), wanted):
        os.link(files[number % len(files)], folder / f"link-{number}.parquet")
    return max(len(files), wanted)
