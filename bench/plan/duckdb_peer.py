"""Q1 by DuckDB on one thread with its own storage, compared with PostgreSQL with the extension: the same rows, in
turn.
"""

import contextlib
import json
import random
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Callable, List

import tpch
from figure import Bar, Figure, interleaved
from postgres import Connection
from processes import Trouble, run, settled_cpu_seconds
from servers import REPOSITORY, Playground

BAR = 2.5
VERSION = "2.0.0"
HERE = Path(__file__).resolve().parent
VENV = REPOSITORY / "build/duckdb"

# PostgreSQL's column types; char and varchar are one type in DuckDB.
COLUMNS = """
    l_orderkey integer, l_partkey integer, l_suppkey integer, l_linenumber integer, l_quantity decimal(15,2),
    l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag varchar,
    l_linestatus varchar, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct varchar,
    l_shipmode varchar, l_comment varchar
"""


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """CPU time of Q1 relative to DuckDB's."""
    scale, blocks = ("0.1", 2) if quick else ("1", 12)
    python = peer(say)
    server = tpch.server(playground, scale, say)
    chance = random.Random(1)
    extension = tpch.Extension(playground)
    query = tpch.text(1, scale)
    with server.running(), contextlib.closing(server.connect_to(tpch.DATABASE)) as connection:
        for statement in _preset(server) + extension.statements():
            connection.query(statement)
        rows = playground.folder / "lineitem.csv"
        say(f"copying lineitem, scale {scale}, to DuckDB {VERSION}")
        export(server, rows)
        with Duck(python, rows, query) as duck:
            rows.unlink()
            same_answer(connection.query(query), duck.answer)
            ratios = ratios_of(1, query, connection, duck, blocks, chance, say)
    what = f"CPU time of Q1 at scale {scale} with the extension, to DuckDB {VERSION} on one thread"
    return [Figure.of_blocks("Q1 beside DuckDB", ratios, "x", what, Bar(BAR))]


def peer(say: Callable[[str], None]) -> Path:
    """Returns a Python with DuckDB, in a folder below build/."""
    python = VENV / "bin/python"
    probe: list = [python, "-c", "import duckdb"]
    if not python.exists() or subprocess.run(probe, capture_output=True).returncode != 0:
        say(f"fetching DuckDB {VERSION} from PyPI into {VENV}")
        run(["/usr/bin/python3", "-m", "venv", "--clear", VENV])
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"duckdb=={VERSION}"])
    return python


def _preset(server) -> List[str]:
    """The settings of config A, from `hardmeter tpch run`."""
    report = server.tpch("--queries", "6", "--blocks", "1", "--warm-up", "0", "--settings", "index-friendly")
    return [f"SET {name} = '{value}'" for name, value in report["settings"].items()]


def export(server, path: Path) -> None:
    """Writes lineitem for DuckDB."""
    environment = dict(server.environment(), PGDATABASE=tpch.DATABASE)
    command = [server.program("psql"), "-X", "-q", "-c", f"\\copy lineitem TO '{path}' (FORMAT csv, DELIMITER '|')"]
    run(command, env=environment)


def same_answer(ours: list, theirs: list) -> None:
    """Checks that both give the same answer. DuckDB's averages are binary fractions, so sums and counts are compared.
    """
    exact = [0, 1, 2, 3, 4, 5, 9]

    def values(rows: list) -> list:
        picked = [[str(row[column]).strip() for column in exact] for row in rows]
        return [row[:2] + [Decimal(value).normalize() for value in row[2:]] for row in picked]

    if values(ours) != values(theirs):
        raise Trouble(f"DuckDB answers Q1 otherwise:\n{values(theirs)}\nand PostgreSQL\n{values(ours)}")


class Duck:
    """DuckDB in a separate process, on one thread, with lineitem in its own storage."""

    def __init__(self, python: Path, rows: Path, query: str):
        self._process = subprocess.Popen(
            [python, HERE / "duckdb_worker.py", rows, " ".join(COLUMNS.split()), query],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.answer: list = []

    def __enter__(self) -> "Duck":
        try:
            self.answer = self._read()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def cpu_seconds(self) -> float:
        """CPU time of one run of the query."""
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise Trouble(f"DuckDB ended, exit status {self._process.wait()}; see above")
        return json.loads(line)


def ratios_of(
    number: int,
    query: str,
    connection: Connection,
    duck: Duck,
    blocks: int,
    chance: random.Random,
    say: Callable[[str], None],
) -> List[float]:
    """CPU time of a query on PostgreSQL to that in DuckDB, block by block, in random order within each."""
    ratios = []
    for block in range(blocks):
        say(f"Q{number} beside DuckDB: block {block + 1} of {blocks}")
        times = {"ccopt": 0.0, "duckdb": 0.0}
        for way in interleaved(list(times), chance):
            if way == "duckdb":
                times[way] += duck.cpu_seconds()
                continue
            before = settled_cpu_seconds(connection.backend)
            connection.query(query)
            times[way] += settled_cpu_seconds(connection.backend) - before
        ratios.append(times["ccopt"] / times["duckdb"])
    return ratios
