"""Advisers that can be had, beside `hardmeter tune`, on the same planted faults.

A peer names a fault if its advice has a line that fits the fault (PATTERNS, generous) and that it does not give the same
server without the fault. Programs that are not installed are left out and said.
"""

import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Set

import bed
import faults
import mariadb
from bed import Bed, TunedServer
from faults import FAULTS, Fault, in_place, place
from figure import Figure
from processes import Trouble
from servers import Playground

Say = Callable[[str], None]

# What a line of advice must say to name a fault.
PATTERNS = {
    "slow sync": r"fsync|synchronous_commit|slow (disk|sync)|commit.*slow",
    "64 connections": r"connection|backends|pool",
    "missing index": r"create index|missing index|without index|seq(uential)? scan",
    "twelve useless indexes": r"unused|not used|useless",
    "four duplicate indexes": r"duplicate|redundant",
    "idle transaction": r"idle.in.transaction|txn_idle|txn_time",
    "tiny buffer pool": r"shared_buffers|buffer.pool|hit ?ratio|hit rate",
    "work_mem of 64 kB, hash join": r"work_mem|temp(orary)? ?files?",
    "jit on short statements": r"\bjit",
    "random_page_cost = 40, ranges": r"random_page_cost|costs? settings",
    "stale statistics": r"stale|analyze|statistics",
    "statements not prepared": r"prepared?\b",
    "one query a row": r"n\+1|round.?trip|many (small )?quer",
    "a cast that hides an index": r"\bcast|implicit conver|create index",
    "eight clients on one row": r"row lock|lock wait|acquired|waiting for|locks",
    "a lock's holder that sleeps": r"row lock|lock wait|acquired|waiting for|locks|idle.in.transaction|txn_idle",
    "pages without room for updates": r"fillfactor|\bhot\b",
    "dead rows without vacuum": r"bloat|dead|vacuum",
    "a checkpoint each few seconds": r"checkpoint|max_wal_size",
    "large pool without huge pages": r"huge",
    # MariaDB
    "six duplicate indexes": r"duplicate|redundant",
    "cache of ten open tables": r"table_open_cache|table cache",
    "temporary tables on disk": r"tmp_table_size|temporary tables|tmp_memory_table_size|tmp_disk",
}
# The log that pgBadger reads; short statements are left out, as on a busy server.
LOGGED = {
    "log_min_duration_statement": "10",
    "log_temp_files": "0",
    "log_lock_waits": "on",
    "deadlock_timeout": "100ms",
    "log_checkpoints": "on",
    "log_autovacuum_min_duration": "0",
    "log_line_prefix": "%t [%p]: db=%d,user=%u,app=%a,client=%h ",
}
TUNER = os.environ.get("POSTGRESQLTUNER", "postgresqltuner")
ACTIONS = "backends bloat checkpoint commitratio hitratio last_analyze last_vacuum locks query_time txn_idle txn_time wal_files"
# Thresholds where an action has none of its own.
WARNINGS = {"checkpoint": ["--critical=3600"], "hitratio": ["--warning=95%"], "commitratio": ["--warning=90%"]}
QUALSTATS_NAME = "pg_qualstats' adviser"
QUALSTATS = "SELECT v FROM json_array_elements(pg_qualstats_index_advisor(min_filter => 50)->'indexes') v"


def _lines(words: Sequence[str], server: TunedServer) -> List[str]:
    """What a program says about the server; its exit status is a part of that."""
    done = subprocess.run(
        [str(word) for word in words],
        env=dict(server.environment(), LC_ALL="C"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    return (done.stdout + done.stderr).splitlines()


def _postgresqltuner(server: TunedServer, log: str) -> List[str]:
    place_of = server.environment()
    words = [TUNER, "--nocolor", f"--host={place_of['PGHOST']}", f"--port={place_of['PGPORT']}", f"--user={place_of['PGUSER']}"]
    said = _lines([*words, f"--database={place_of['PGDATABASE']}"], server)
    return [line for line in said if re.match(r"\[(HIGH|MEDIUM|LOW|BAD|WARN|CRIT|URGENT)", line.strip())]


def _pgbadger(server: TunedServer, log: str) -> List[str]:
    piece = server.folder.with_suffix(".log")
    piece.write_text(log)
    words = ["pgbadger", "-q", "-f", "stderr", "-p", LOGGED["log_line_prefix"].strip(), "-x", "text", "-o", "-", str(piece)]
    # Counts of nothing are no advice, and a statement's text is not the program's.
    return [line for line in _lines(words, server) if not re.search(r":\s*0\b|SELECT|UPDATE|INSERT", line)]


def _check_postgres(server: TunedServer, log: str) -> List[str]:
    found = []
    for action in ACTIONS.split():
        found += _lines(["check_postgres", f"--action={action}", *WARNINGS.get(action, [])], server)
    return [line for line in found if re.search(r"CRITICAL|WARNING", line)]


def _qualstats(server: TunedServer, log: str) -> List[str]:
    return [row[0] for row in server.query(QUALSTATS)]


PEERS: Dict[str, Callable[[TunedServer, str], List[str]]] = {
    "postgresqltuner": _postgresqltuner,
    "pgBadger": _pgbadger,
    "check_postgres": _check_postgres,
    QUALSTATS_NAME: _qualstats,
}
PROGRAMS = {"postgresqltuner": TUNER, "pgBadger": "pgbadger", "check_postgres": "check_postgres"}


def _has_qualstats() -> bool:
    return any(Path("/usr/share/postgresql").glob("*/extension/pg_qualstats.control"))


def _bare(line: str) -> str:
    """A line without its numbers, which differ from run to run."""
    return re.sub(r"[\d.,]+", "#", line.strip())


class Score:
    """The faults that one adviser named."""

    def __init__(self) -> None:
        self.named: List[str] = []
        self.first: List[str] = []
        self.predicted: List[str] = []

    def add(self, fault: str, rank: int, predicted: bool = False) -> None:
        if rank == faults.ABSENT:
            return
        self.named.append(fault)
        self.first += [fault] if rank == 1 else []
        self.predicted += [fault] if predicted else []

    def figure(self, name: str, of: int) -> Figure:
        what = (
            f"named first {len(self.first)}, predicted {len(self.predicted)} of {of}; named: {', '.join(self.named) or 'none'}"
        )
        return Figure(f"{name}: faults named", len(self.named), f"of {of}", of, what)


def _rank(advice: Sequence[str], usual: Set[str], fault: str) -> int:
    new = [line for line in advice if _bare(line) not in usual]
    return next((at for at, line in enumerate(new, 1) if re.search(PATTERNS[fault], line, re.IGNORECASE)), faults.ABSENT)


def _of_peers(one: Bed) -> Bed:
    """The same kind of server with what the peers need."""
    line = dict(one.command_line)
    if _has_qualstats():
        line |= {"shared_preload_libraries": "pg_stat_statements,pg_qualstats", "pg_qualstats.sample_rate": "1"}
    return dataclasses.replace(one, name=one.name + "-peers", settings={**one.settings, **LOGGED}, command_line=line)


@contextlib.contextmanager
def _held(server: TunedServer, holder: Optional[str]) -> Iterator[None]:
    connection = server.connect() if holder else None
    if connection:
        threading.Thread(target=bed._ask, args=(connection, holder), daemon=True).start()
    try:
        yield
    finally:
        if connection:
            connection.close()


def _asked(server: TunedServer, case: Fault, present: Sequence[str]) -> Dict[str, List[str]]:
    """The advice of each peer on the server under the case's load; of `hardmeter`, the remedies."""
    log = server.folder / "server.log"
    before = log.stat().st_size
    if QUALSTATS_NAME in present:
        server.query("SELECT pg_qualstats_reset()")
    with _held(server, case.holder), bed.under(server, case.load):
        time.sleep(1.5)
        page = bed.look(server, case.seconds)
        with log.open(encoding="utf-8", errors="replace") as text:
            text.seek(before)
            piece = text.read()
        advice = {name: PEERS[name](server, piece) for name in present}
    advice["hardmeter"] = bed.named(page)
    advice["predicted"] = [one["remedy"] for one in page["findings"] if one["prediction"]["gain"] is not None]
    return advice


def peers(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """How many of the faults each adviser names. None but `hardmeter` predicts a gain, tries, or undoes."""
    missing = [name for name, program in PROGRAMS.items() if not shutil.which(program)]
    missing += [] if _has_qualstats() else [QUALSTATS_NAME]
    if missing:
        say(f"not installed, left out: {', '.join(missing)}")
    present = [name for name in PEERS if name not in missing]
    scores = {name: Score() for name in ("hardmeter", *present)}
    usual: Dict[str, Set[str]] = {}
    beds = dict.fromkeys(case.bed for case in FAULTS)
    for one in sorted(beds, key=lambda one: one is not bed.MAIN):
        with bed.running(playground, _of_peers(one)) as server:
            if QUALSTATS_NAME in present:
                server.query("CREATE EXTENSION IF NOT EXISTS pg_qualstats")
            if not usual:
                healthy = _asked(server, Fault("none", []), present)
                usual = {name: {_bare(line) for line in healthy[name]} for name in present}
            for case in (case for case in FAULTS if case.bed is one):
                server.query("SELECT pg_stat_reset()")
                with in_place(server, case):
                    advice = _asked(server, case, present)
                ours = place(advice["hardmeter"], case.remedies)
                scores["hardmeter"].add(case.name, ours, place(advice["predicted"], case.remedies) != faults.ABSENT)
                ranks = {name: _rank(advice[name], usual[name], case.name) for name in present}
                for name, rank in ranks.items():
                    scores[name].add(case.name, rank)
                named = [name for name, rank in {"hardmeter": ours, **ranks}.items() if rank != faults.ABSENT]
                say(f"{case.name}: named by {', '.join(named) or 'none'}")
    for name, score in scores.items():
        yield score.figure(name, len(FAULTS))


def _mysqltuner(server: mariadb.Server) -> List[str]:
    words = ["mysqltuner", "--nocolor", "--noinfo", "--nogood", "--skippassword", "--forcemem", "4000", "--forceswap", "1000"]
    options = server.folder.with_suffix(".cnf")
    options.write_text(f"[client]\nuser=root\nsocket={server.folder}/socket/mariadb.sock\n")
    words += ["--verbose", f"--defaults-file={options}"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if "InnoDB Metrics" not in done.stdout or done.returncode:
        raise Trouble(f"mysqltuner gave no recommendations: {(done.stdout + done.stderr)[-300:]}\n  remedy: it needs mariadb-admin")
    return [line for line in done.stdout.splitlines() if line.strip()]


def mariadb_peers(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The same on MariaDB, beside MySQLTuner."""
    if not shutil.which("mysqltuner"):
        raise Trouble("mysqltuner is not installed\n  remedy: apt-get install mysqltuner")
    scores = {"hardmeter, MariaDB": Score(), "MySQLTuner": Score()}
    usual: Set[str] = set()
    healthy = mariadb.Fault("none", [], mariadb._point)
    for number, fault in enumerate([healthy, *mariadb.FAULTS]):
        # MySQLTuner 1.9.9 divides by the size of a chunk, which is 0 where MariaDB chooses it.
        settings = {"innodb_buffer_pool_chunk_size": "2M", **fault.settings}
        server = mariadb.Server(playground.folder / f"mariadb-peers-{number}", settings)
        playground.adopt(server)
        for sql in [*mariadb.ORDERS, *fault.plant]:
            server.query(sql)
        with mariadb._under(server, fault):
            page = server.look(4)
            advice = _mysqltuner(server)
        server.remove()
        if fault is healthy:
            usual = {_bare(line) for line in advice}
            continue
        found = [finding["remedy"] for finding in page["findings"]]
        known = [one["remedy"] for one in page["findings"] if one["prediction"]["gain"] is not None]
        ours = place(found, fault.remedies)
        scores["hardmeter, MariaDB"].add(fault.name, ours, place(known, fault.remedies) != faults.ABSENT)
        rank = _rank(advice, usual, fault.name)
        scores["MySQLTuner"].add(fault.name, rank)
        say(f"MariaDB, {fault.name}: hardmeter {ours}, MySQLTuner {rank}")
    for name, score in scores.items():
        yield score.figure(name, len(mariadb.FAULTS))
