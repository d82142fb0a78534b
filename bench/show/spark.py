"""The fleet queries by Spark beside DuckDB: those of docs/fleet.md, and those that fleet.py times. Rows that differ."""

import json
import math
import re
import shutil
from typing import Callable, Dict, Iterator, List

import fleet
from figure import Bar, Figure
from processes import Trouble, run
from servers import REPOSITORY, Playground

# Both read a folder and queries, and print the rows of each query. Spark's ANSI mode reads "a" as a name, as SQL does.
DUCKDB = """
import json, sys
import duckdb
connection = duckdb.connect()
connection.execute("set enable_progress_bar = false")
connection.execute("set timezone = 'UTC'")
for table in ("samples", "findings", "captures"):
    connection.execute(f"create view {table} as select * from '{sys.argv[1]}/{table}/*.parquet'")
rows = [connection.sql(query).fetchall() for query in json.loads(sys.argv[2])]
print(json.dumps([duckdb.__version__, rows], default=float))
"""
SPARK = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", False).config("spark.driver.memory", "4g")
builder = builder.config("spark.sql.ansi.enabled", True).config("spark.sql.ansi.doubleQuotedIdentifiers", True)
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
for table in ("samples", "findings", "captures"):
    spark.read.parquet(f"{sys.argv[1]}/{table}").createOrReplaceTempView(table)
rows = [[list(row) for row in spark.sql(query).collect()] for query in json.loads(sys.argv[2])]
print(json.dumps([spark.version, rows], default=float))
"""


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Runs every query by both over the same files, and counts rows of either that the other one has not in this place."""
    python = fleet.python_with("duckdb", "pyspark")
    if shutil.which("java") is None:
        raise Trouble("there is no java, which Spark needs\n  remedy: apt-get install openjdk-17-jre-headless")
    samples, wanted = fleet.sizes(quick)
    folder = playground.folder / "fleet"
    for _ in fleet.exported(playground, folder, samples, say):
        pass
    total = fleet.link(folder / "samples", wanted // samples) * samples
    queries = _queries()
    words = [folder, json.dumps(list(queries.values()))]
    say(f"{len(queries)} queries over {total} rows by DuckDB")
    duckdb, expected = json.loads(run([python, "-c", DUCKDB, *words]).splitlines()[-1])
    say(f"{len(queries)} queries over {total} rows by Spark")
    spark, found = json.loads(run([python, "-c", SPARK, *words]).splitlines()[-1])
    for name, ours, theirs in zip(queries, expected, found):
        if not ours:
            raise Trouble(f"the query on {name} found no row")
        differ = abs(len(ours) - len(theirs)) + sum(not _same(a, b) for a, b in zip(ours, theirs))
        what = f"rows of Spark {spark} that are not those of DuckDB {duckdb}, over {total} samples or more"
        yield Figure(f"spark: {name}", differ, "rows", len(ours), what, Bar(0))
    shutil.rmtree(folder)


def _queries() -> Dict[str, str]:
    """The queries by name; tables have the names of their folders."""
    page = (REPOSITORY / "docs/fleet.md").read_text(encoding="utf-8")
    texts = dict(fleet.QUERIES)
    for number, query in enumerate(re.findall(r"```sql\n(.*?)```", page, re.S), 1):
        texts[f"query {number} of docs/fleet.md"] = query
    return {name: re.sub(r"'[^']*/(samples|findings|captures)/\*\.parquet'", r"\1", query) for name, query in texts.items()}


def _same(ours: List, theirs: List) -> bool:
    """Whether two rows are equal; numbers to the last digits, since sums of fractions depend on their order."""

    def equal(a: object, b: object) -> bool:
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return math.isclose(a, b, rel_tol=1e-9)
        return a == b

    return len(ours) == len(theirs) and all(equal(a, b) for a, b in zip(ours, theirs))
