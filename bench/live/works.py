"""Loads for ghosts: what clients repeat, on which data, and whether it mostly reads what lies in shared buffers."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Set

import loads
from processes import Trouble, run
from servers import HARDMETER, Playground, Server

Say = Callable[[str], None]
CLIENTS = 2
# The simulation restarts the server; then clients connect, and caches are cold. None of it is part of the load.
DELAY = 20
SIMULATED = ["--source", "simulated", "--cores", CLIENTS, "--delay", DELAY]
SCALE = "0.1"
# Arguments of pgbench, or the command itself.
Command = List[object]


@dataclass(frozen=True)
class Work:
    """A load on a server that is running."""

    name: str
    least: float
    """Minimum percentage of stretches that end as the server's did: 99 where mostly read, 95 on writers and with I/O."""
    prepare: Callable[[Server], Command]
    usual: bool = False
    """Whether it runs on the server of all parts, with pgbench's tables at scale 10; otherwise on `server`."""


def server(playground: Playground) -> Server:
    """A server whose buffers hold the data of TPC-H; the largest table is below a quarter of them, so that scans use them."""
    return playground.server("native", 1, {"shared_buffers": "512MB"})


def of(playground: Playground, work: Work) -> Server:
    """The server of a load."""
    return loads._server(playground) if work.usual else server(playground)


def record(server: Server, work: Work, source: Sequence[object], seconds: int, say: Say) -> None:
    """Records a load for some seconds, after the delay of the simulation."""
    say(f"{work.name}: preparing")
    load = work.prepare(server)
    words = [HARDMETER, "--quiet", "record", *source, "-o", server.capture, "--server", server.folder, "--"]
    say(f"{work.name}, {'followed' if '--ghosts' in source else 'simulated'}")
    if source[: len(SIMULATED)] == SIMULATED:
        seconds += DELAY
    if load[0] == HARDMETER:
        load = [*load, "--interval", f"{seconds}s"]
    else:
        load = ["pgbench", "-n", "-T", seconds, *load]
    sidecar = server.capture.with_name(server.capture.name + ".json")
    sidecar.unlink(missing_ok=True)
    try:
        run(list(map(str, [*words, *load])), env=server.environment())
    except Trouble as error:
        # If all stretches were dropped there is no sample; the side file still counts them.
        if "no samples" not in str(error) or not sidecar.exists():
            raise


def _pgbench(*arguments: object) -> Callable[[Server], Command]:
    return lambda server: ["-c", CLIENTS, *arguments]


def _mix(server: Server) -> Command:
    """Four statements that only read."""
    scripts = {
        "range": "\\set aid random(1, 999980)\nselect sum(abalance) from pgbench_accounts where aid between :aid and :aid + 20;",
        "tellers": "\\set bid random(1, 10)\nselect count(*), sum(tbalance) from pgbench_tellers where bid = :bid;",
        "join": "\\set aid random(1, 1000000)\n"
        "select a.abalance, b.bbalance from pgbench_accounts a join pgbench_branches b using (bid) where a.aid = :aid;",
    }
    files = [word for name, text in scripts.items() for word in ("-f", _script(server, name, text))]
    return ["-c", CLIENTS, "-b", "select-only", *files]


def _tpcc(server: Server) -> Command:
    if _first(server, "tpcc"):
        run([HARDMETER, "--quiet", "tpcc", "load", "--warehouses", "1", "--server", server.folder])
    words = ["--mode", "closed", "--clients", CLIENTS, "--connections", CLIENTS, "--ramp", "500ms", "--no-check"]
    report = server.capture.parent / "tpcc-run"
    return [HARDMETER, "--quiet", "tpcc", "run", *words, "--output", report, "--overwrite", "--server", server.folder]


def _tpch(query: int) -> Callable[[Server], Command]:
    def prepare(server: Server) -> Command:
        if _first(server, "tpch"):
            run([HARDMETER, "--quiet", "tpch", "load", "--scale", SCALE, "--server", server.folder])
        show = run([HARDMETER, "tpch", "show", "--queries", str(query), "--scale", SCALE, "--format", "json"])
        text = json.loads(show)["data"][0]["sql"]
        return ["-c", CLIENTS, "-f", _script(server, f"q{query}", text), "tpch"]

    return prepare


def _sql(name: str, setup: str, script: str, clients: int = CLIENTS) -> Callable[[Server], Command]:
    """A script of pgbench, and the SQL that makes its data."""

    def prepare(server: Server) -> Command:
        copied = f"'{server.data / 'copied'}'"
        if _first(server, name):
            with contextlib.closing(server.connect()) as connection:
                connection.query(setup.replace("$FILE", copied))
        return ["-c", clients, "-f", _script(server, name, script.replace("$FILE", copied))]

    return prepare


_made: Dict[Path, Set[str]] = {}


def _first(server: Server, name: str) -> bool:
    """Whether the data of this name are to be made."""
    names = _made.setdefault(server.folder, set())
    first = name not in names
    names.add(name)
    return first


def _script(server: Server, name: str, text: str) -> Path:
    file = server.capture.parent / f"{name}.sql"
    file.write_text(text + "\n")
    return file


FUNCTION = """
create function collatz(most bigint) returns bigint language plpgsql as $$
declare steps bigint := 0; n bigint;
begin
  for start in 1..most loop
    n := start;
    while n <> 1 loop
      if n % 2 = 0 then n := n / 2; else n := 3 * n + 1; end if;
      steps := steps + 1;
    end loop;
  end loop;
  return steps;
end $$"""
DOCUMENTS = """
create table documents as select jsonb_build_object('id', i, 'tags', jsonb_build_array(i % 7, i % 11),
  'person', jsonb_build_object('name', md5(i::text), 'age', i % 90)) as document from generate_series(1, 20000) i"""
DOCUMENT = """select count(document->'person'->>'name') from documents
  where (document->'person'->>'age')::int = 30 and document @> '{"tags": [3]}';"""
ACCOUNTS = "as select * from pgbench_accounts"

READS: List[Work] = [
    Work("pgbench -S", 99.0, _pgbench("-S"), True),
    *(Work(f"TPC-H Q{query}", 99.0, _tpch(query)) for query in (1, 3, 6, 9, 14, 18)),
    Work("plpgsql", 99.0, _sql("plpgsql", FUNCTION, "select collatz(300);")),
    Work("jsonb", 99.0, _sql("jsonb", DOCUMENTS, DOCUMENT)),
]
# The last two lock their table or wait for it, so that a second client would only wait.
WRITES: List[Work] = [
    Work("TPC-B", 95.0, _pgbench(), True),
    Work("TPC-C", 95.0, _tpcc),
    Work(
        "COPY",
        95.0,
        _sql("copy", f"create table copied {ACCOUNTS}; copy copied to $FILE", "truncate copied;\ncopy copied from $FILE;", 1),
    ),
    Work(
        "VACUUM",
        95.0,
        _sql(
            "vacuum",
            f"create table vacuumed {ACCOUNTS}; create index on vacuumed (aid)",
            "update vacuumed set abalance = abalance + 1 where aid % 10 = 0;\nvacuum vacuumed;",
            1,
        ),
    ),
]
ALL: List[Work] = [READS[0], WRITES[0], *READS[1:], *WRITES[1:]]
MIX = Work("four statements", 99.0, _mix, True)


def choose(words: Sequence[str]) -> None:
    """Restricts the loads that are followed to those whose names contain one of these words."""
    ALL[:] = [work for work in ALL if any(word in work.name for word in words)]
