"""Faults planted on real servers under load, and habits that look like faults but are none there."""

import contextlib
from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional, Sequence

import bed
from bed import WARM, Bed, Load
from figure import Bar, Figure
from servers import Playground

Say = Callable[[str], None]

# The rank of a remedy that is not named.
ABSENT = 99


@dataclass(frozen=True)
class Fault:
    """A fault; `remedies` are those that name it. For an innocent habit: those that must not be advised."""

    name: str
    remedies: Sequence[str]
    load: Load = Load()
    plant: Sequence[str] = ()
    uproot: Sequence[str] = ()
    bed: Bed = bed.MAIN
    # The statement of a session before the load begins; the session then stays open.
    holder: Optional[str] = None
    seconds: int = 6
    # Seconds of load before a block of a proof: harm that grows takes time to show.
    warm: float = WARM
    vacuum: str = "VACUUM ANALYZE"
    # The application's load after its own remedy; and an administrator's setting, where a program may not change it.
    cure: Optional[Load] = None
    # The server that an operator starts instead, where the command line has the setting.
    cure_bed: Optional[Bed] = None
    cure_sql: Sequence[str] = ()
    cure_undo: Sequence[str] = ()


def _set(*settings: str) -> List[str]:
    """Gives the database settings, which new sessions take."""
    return [f"ALTER DATABASE postgres SET {setting}" for setting in settings]


def _reset(*names: str) -> List[str]:
    return [f"ALTER DATABASE postgres RESET {name}" for name in names]


ORDERS = [
    "CREATE TABLE ox AS SELECT i AS id, i % 20000 AS customer, i::text AS code, repeat('x', 50) AS note "
    "FROM generate_series(1, 200000) i",
    "ALTER TABLE ox ADD PRIMARY KEY (id)",
]
WIDE = [
    "CREATE TABLE wide AS SELECT i AS id, " + ", ".join(f"i AS c{n}" for n in range(12)) + " FROM generate_series(1, 50000) i",
    "ALTER TABLE wide ADD PRIMARY KEY (id)",
]
JOBS = [
    "CREATE TABLE jobs (id int PRIMARY KEY, state text, pad text) WITH (autovacuum_enabled = false)",
    "INSERT INTO jobs SELECT i, 'new', repeat('x', 60) FROM generate_series(1, 50000) i",
    "CREATE INDEX jobs_state ON jobs (state)",
    "ANALYZE jobs",
]
UPDATE_WIDE = "\\set id random(1, 50000)\nUPDATE wide SET c0 = c0 + 1 WHERE id = :id;\n"
RANGE = "\\set a random(1, 190000)\nSELECT sum(length(note)) FROM spread WHERE place BETWEEN :a AND :a + 300;\n"
LOOKUP = "\\set c random(1, 200000)\nSELECT note FROM ox WHERE id = :c;\n"
SPREAD = [
    "CREATE TABLE spread AS SELECT i AS id, (i::bigint * 7919) % 200003 AS place, repeat('x', 50) AS note "
    "FROM generate_series(1, 200000) i",
    "CREATE INDEX spread_place ON spread (place)",
]
TELLERS = "SELECT count(*) FROM pgbench_tellers;\n"
COUNTER = "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n"
DROPPED = ["DROP TABLE IF EXISTS ox, wide, jobs, spread, full_pages"]

FAULTS = [
    Fault(
        "slow sync",
        ["slow-sync"],
        Load(clients=4),
        bed=Bed("tune-sync", 2, slow_sync=True),
        cure_sql=_set("synchronous_commit = off"),
        cure_undo=_reset("synchronous_commit"),
    ),
    Fault("64 connections", ["connections"], Load(clients=64, arguments=["-j", "2"]), cure=Load(clients=5)),
    Fault(
        "missing index",
        ["missing-index"],
        Load("\\set c random(0, 19999)\nSELECT id FROM ox WHERE customer = :c;\n"),
        ORDERS,
        DROPPED,
    ),
    Fault(
        "twelve useless indexes",
        ["unused-indexes"],
        Load(UPDATE_WIDE),
        [*WIDE, *(f"CREATE INDEX useless{n} ON wide (c{n})" for n in range(12))],
        DROPPED,
    ),
    Fault(
        "four duplicate indexes",
        ["duplicate-indexes"],
        Load(
            "\\set c random(0, 50000)\nINSERT INTO wide (id, c0) SELECT nextval('ids'), i FROM generate_series(:c, :c + 200) i;\n"
            "SELECT id FROM wide WHERE c0 = :c;\n"
        ),
        [*WIDE, "CREATE SEQUENCE ids START 100000", *(f"CREATE INDEX same{n} ON wide (c0)" for n in range(5))],
        [*DROPPED, "DROP SEQUENCE ids"],
    ),
    Fault(
        "idle transaction",
        ["idle-in-transaction"],
        # The disk's waits would hide what dead rows cost.
        plant=_set("synchronous_commit = off"),
        uproot=_reset("synchronous_commit"),
        holder="BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1",
        warm=6,
    ),
    Fault(
        "tiny buffer pool",
        ["shared-buffers"],
        Load(arguments=["-S"]),
        bed=Bed("tune-pool", 10, command_line={"shared_buffers": "1MB"}),
        cure_bed=Bed("tune-large-pool", 10),
    ),
    Fault(
        "work_mem of 64 kB, hash join",
        ["spill"],
        Load("SELECT count(*) FROM ox a JOIN ox b ON a.code = b.code WHERE a.note = b.note;\n"),
        [*ORDERS, *_set("work_mem = '64kB'", "enable_mergejoin = off")],
        [*DROPPED, *_reset("work_mem", "enable_mergejoin")],
    ),
    Fault(
        "jit on short statements",
        ["jit"],
        Load("SELECT sum(abalance * 2), avg(bid + 1) FROM pgbench_accounts WHERE aid < 3000;\n"),
        _set("jit_above_cost = 0", "jit_inline_above_cost = 0", "jit_optimize_above_cost = 0"),
        _reset("jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"),
    ),
    Fault(
        "random_page_cost = 40, ranges",
        ["random-page-cost"],
        Load(RANGE),
        [*SPREAD, *_set("random_page_cost = 40")],
        [*DROPPED, *_reset("random_page_cost")],
    ),
    Fault(
        "stale statistics",
        ["stale-statistics"],
        Load("SELECT id FROM jobs WHERE state = 'new';\n"),
        [*JOBS, "UPDATE jobs SET state = 'done' WHERE id > 10"],
        DROPPED,
        vacuum="VACUUM",
    ),
    Fault(
        "statements not prepared",
        ["prepared-statements"],
        Load(protocol="simple", arguments=["-S"]),
        cure=Load(arguments=["-S"]),
    ),
    Fault(
        "one query a row",
        ["many-small-queries"],
        Load("BEGIN;\n" + LOOKUP * 40 + "COMMIT;\n"),
        ORDERS,
        DROPPED,
        cure=Load("\\set c random(1, 199960)\nSELECT note FROM ox WHERE id BETWEEN :c AND :c + 39;\n"),
    ),
    Fault(
        "a cast that hides an index",
        ["cast-hides-index"],
        Load("\\set c random(1, 200000)\nSELECT note FROM ox WHERE id = :c + 0.0;\n"),
        ORDERS,
        DROPPED,
    ),
    Fault(
        "eight clients on one row",
        ["hot-row"],
        Load("BEGIN;\n" + COUNTER + TELLERS * 3 + "COMMIT;\n", 8),
        cure=Load("BEGIN;\n" + TELLERS * 3 + COUNTER + "COMMIT;\n", 8),
    ),
    Fault(
        "a lock's holder that sleeps",
        ["sleeping-holder"],
        Load("BEGIN;\n" + COUNTER + "\\sleep 50 ms\nCOMMIT;\n", 4),
        cure=Load("BEGIN;\n" + COUNTER + "COMMIT;\n\\sleep 50 ms\n", 4),
    ),
    Fault(
        "pages without room for updates",
        ["fillfactor"],
        Load("\\set id random(1, 100000)\nUPDATE full_pages SET note = 'y' WHERE id = :id;\n", arguments=["-R", "500"]),
        [
            "CREATE TABLE full_pages AS SELECT i AS id, "
            + ", ".join(f"i AS c{n}" for n in range(4))
            + ", repeat('x', 10) AS note, repeat('p', 900) AS pad FROM generate_series(1, 100000) i",
            "ALTER TABLE full_pages ADD PRIMARY KEY (id)",
            *(f"CREATE INDEX full_pages_c{n} ON full_pages (c{n})" for n in range(4)),
            # Each index is used once, so that it does not count as unused.
            *(f"SET enable_seqscan = off; SELECT count(*) FROM full_pages WHERE c{n} = 5" for n in range(4)),
            # A busy disk would be a fault of its own.
            *_set("synchronous_commit = off"),
        ],
        [*DROPPED, *_reset("synchronous_commit")],
        # A rewrite gives free space to pages that are already full.
        cure_sql=["VACUUM FULL full_pages"],
    ),
    Fault(
        "dead rows without vacuum",
        ["dead-rows"],
        Load("SELECT count(*), max(pad) FROM jobs;\n"),
        [*JOBS, *(f"UPDATE jobs SET pad = 'y{n}'" for n in range(4))],
        DROPPED,
        vacuum="VACUUM pgbench_accounts",
        cure_sql=["VACUUM jobs"],
    ),
    Fault(
        "a checkpoint each few seconds",
        ["checkpoints"],
        Load(clients=4),
        bed=Bed("tune-checkpoints", 10, {"max_wal_size": "32MB"}),
        warm=6,
    ),
    Fault(
        "large pool without huge pages",
        ["huge-pages"],
        bed=Bed("tune-huge", 2, {"huge_pages": "off"}, {"shared_buffers": "1100MB"}),
    ),
]

INNOCENT = [
    Fault(
        "a sort that spills and fits the cache",
        ["spill"],
        Load("SELECT note FROM ox WHERE id < 60000 ORDER BY code OFFSET 59000;\n"),
        [*ORDERS, *_set("work_mem = '64kB'")],
        [*DROPPED, *_reset("work_mem")],
    ),
    Fault(
        "random_page_cost = 40, look-ups",
        ["random-page-cost"],
        Load(LOOKUP),
        [*ORDERS, *_set("random_page_cost = 40")],
        [*DROPPED, *_reset("random_page_cost")],
    ),
    Fault("waits for a healthy log", ["slow-sync"]),
    Fault(
        "unused unique indexes",
        ["unused-indexes", "duplicate-indexes"],
        Load(UPDATE_WIDE),
        [*WIDE, *(f"CREATE UNIQUE INDEX once{n} ON wide (c{n}, id)" for n in range(1, 5))],
        DROPPED,
    ),
    Fault(
        "many changes, plans as before",
        ["stale-statistics"],
        Load("\\set c random(1, 50000)\nSELECT pad FROM jobs WHERE id = :c;\n"),
        [*JOBS, "UPDATE jobs SET pad = 'y'"],
        DROPPED,
        vacuum="VACUUM",
    ),
    Fault("a long report", ["idle-in-transaction"], holder="SELECT count(*), pg_sleep(60) FROM pgbench_branches"),
]


def choose(words: Sequence[str]) -> None:
    """Leaves only the faults and innocent habits whose names contain one of these words."""
    for cases in (FAULTS, INNOCENT):
        cases[:] = [case for case in cases if any(word in case.name for word in words)]


def place(found: Sequence[str], wanted: Sequence[str]) -> int:
    """The rank of the first expected remedy among those found, from 1."""
    return next((at for at, remedy in enumerate(found, 1) if remedy in wanted), ABSENT)


@contextlib.contextmanager
def in_place(server: bed.TunedServer, case: Fault) -> Iterator[None]:
    """The server with the case's fault planted."""
    for sql in case.plant:
        server.query(sql)
    if case.plant:
        server.query(case.vacuum)
    try:
        yield
    finally:
        for sql in case.uproot:
            server.query(sql)


def _looked(playground: Playground, cases: Sequence[Fault], say: Say) -> Iterator[tuple]:
    """Each case with the remedies named while its fault is planted; cases of one bed share its server."""
    for one in dict.fromkeys(case.bed for case in cases):
        with bed.running(playground, one) as server:
            for case in (case for case in cases if case.bed is one):
                with in_place(server, case):
                    found = bed.named(bed.looked(server, case.load, case.seconds, case.holder))
                say(f"{case.name}: {', '.join(found) or 'nothing'}")
                yield case, found


def planted(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The rank at which each planted fault is named."""
    places = []
    for fault, found in _looked(playground, FAULTS, say):
        at = place(found, fault.remedies)
        places.append(at)
        yield Figure(
            name=f"{fault.name}: place",
            value=at,
            unit=f"of {len(found)}",
            n=1,
            what=f"place of {' or '.join(fault.remedies)} among: {', '.join(found) or 'nothing'}; {ABSENT} is not named",
            bar=Bar(3),
        )
    first = sum(at == 1 for at in places)
    among = sum(at <= 3 for at in places)
    unit, n = f"of {len(FAULTS)}", len(FAULTS)
    # 18 of 20, and all of them.
    yield Figure("faults named first", first, unit, n, "planted faults named first", Bar(0.9 * n, at_most=False))
    yield Figure("faults among the first three", among, unit, n, "planted faults named", Bar(n, at_most=False))


def innocent(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Number of innocent habits for which remedies are advised."""
    advised = []
    cases = INNOCENT[:1] if quick else INNOCENT
    for case, found in _looked(playground, cases, say):
        if place(found, case.remedies) != ABSENT:
            advised.append(f"{case.name}: {', '.join(found)}")
    yield Figure(
        name="rules of thumb advised",
        value=len(advised),
        unit=f"of {len(cases)}",
        n=len(cases),
        what="; ".join(advised) or "none of " + ", ".join(case.name for case in cases),
        bar=Bar(0),
    )
