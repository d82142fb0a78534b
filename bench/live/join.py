"""What source `live` names first in a hash join: the hash table if it misses the caches, and not if it fits half of L2."""

import contextlib
import json
import os
from pathlib import Path
from typing import Callable, Dict, Iterator, Tuple

import loads
import works
from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, Playground, Server

Say = Callable[[str], None]
ROWS = 1_500_000
# An entry of the hash table: its header of 16 bytes, a tuple of 24, and the bucket's pointer.
ENTRY = 48
LARGE = 60 << 20
HASH_TABLE = "hash memory"
# One batch, in one process, by a hash join.
SETTINGS = {
    "work_mem": "512MB",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "enable_mergejoin": "off",
    "enable_nestloop": "off",
}


def measure(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The first object by stall time, with a large table and with a small one; and by the misses that ghosts see."""
    with works.server(playground).running() as server:
        for name, size, first in (("60 MB", LARGE, True), ("half of L2", _second_level() // 2, False)):
            say(f"hash join, table of {name}: preparing")
            query, used = _prepare(server, size)
            say(f"hash join, table of {name}, followed")
            tables = _recorded(server, query, "5" if quick else "15")
            for event, bar in (("stall", Bar(1, False)), ("l2-miss", None)):
                shares = loads._by_name(tables[event], lambda row: float(row["count"]))
                named = max(shares, key=lambda name: shares[name])
                samples = sum(row["count"] for row in tables[event]["rows"])
                what = f"of a join with a hash table of {used / 2**20:.1f} MB"
                right = int((HASH_TABLE in named[0]) == first)
                title = f"join, {name}: hash table {'first' if first else 'not first'}"
                of = f"{event} samples {what}; first is {' '.join(named)}, {100 * shares[named]:.1f} %"
                yield Figure(f"{title}, {event}", right, "of 1", samples, of, bar)
                share = sum(one for name, one in shares.items() if HASH_TABLE in name[0])
                yield Figure(f"join, {name}: share of it, {event}", 100 * share, "%", samples, of)


def _prepare(server: Server, size: int) -> Tuple[str, int]:
    """The query, and the bytes that its hash table has, as EXPLAIN reports."""
    rows = size // ENTRY
    with contextlib.closing(server.connect()) as connection:
        connection.query("drop table if exists built, probed")
        connection.query(f"create table built as select i as id from generate_series(1, {rows}) i order by random()")
        random = f"1 + floor(random() * {rows})::int"
        connection.query(f"create table probed as select {random} as id from generate_series(1, {ROWS})")
        connection.query("analyze built, probed")
        for name, value in SETTINGS.items():
            connection.query(f"set {name} = '{value}'")
        query = "select count(*) from probed join built using (id)"
        [[plan]] = connection.query(f"explain (analyze, format json) {query}")
    node = json.loads(plan)[0]["Plan"]
    while node["Node Type"] != "Hash":
        if "Plans" not in node:
            raise Trouble(f"the plan has no hash join\n  remedy: read it:\n{plan}")
        node = node["Plans"][-1]
    if node["Hash Batches"] != 1:
        raise Trouble(f"the hash table has {node['Hash Batches']} batches\n  remedy: more work_mem")
    return query, node["Peak Memory Usage"] * 1024


def _recorded(server: Server, query: str, seconds: str) -> Dict[str, dict]:
    """Objects by event, of a client that repeats the query."""
    file = server.capture.parent / "join.sql"
    file.write_text(query + ";\n")
    record = [HARDMETER, "--quiet", "record", "--ghosts", "-e", "stall,l2-miss", "-o", server.capture, "--server", server.folder]
    environment = dict(server.environment(), PGOPTIONS=" ".join(f"-c {name}={value}" for name, value in SETTINGS.items()))
    run([*record, "--", "pgbench", "-n", "-f", file, "-c", "1", "-T", seconds], env=environment)
    return {table["event"]: table for table in loads._objects(server)["tables"]}


def _second_level() -> int:
    """Bytes of the second-level cache of a core."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (index / "level").read_text().strip() == "2":
            return int((index / "size").read_text().strip().rstrip("K")) * 1024
    return os.sysconf("SC_LEVEL2_CACHE_SIZE")
