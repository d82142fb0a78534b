"""Faults that are planted on MariaDB servers under load, and their rank in the findings of `hardmeter tune`."""

import contextlib
import json
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence

from faults import ABSENT, place
from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, Playground

Say = Callable[[str], None]

ORDERS = [
    "CREATE TABLE ox (id int PRIMARY KEY, customer int, total int, note char(100))",
    "INSERT INTO ox SELECT seq, seq % 20000, seq % 997, 'x' FROM seq_1_to_200000",
    "ANALYZE TABLE ox",
]
# A statement of a client's script; each line draws new random numbers.
Line = Callable[[random.Random], str]


@dataclass(frozen=True)
class Fault:
    """A fault; `remedies` are those that name it. None: a healthy server, for which no finding may predict a gain."""

    name: str
    remedies: Sequence[str]
    line: Line
    clients: int = 2
    settings: Dict[str, str] = field(default_factory=dict)
    plant: Sequence[str] = ()
    lines: int = 20_000


def _point(dice: random.Random) -> str:
    return f"SELECT total FROM ox WHERE id = {dice.randint(1, 200_000)};"


FAULTS = [
    Fault(
        "missing index",
        ["missing-index"],
        lambda dice: f"SELECT id, total FROM ox WHERE customer = {dice.randint(0, 19_999)};",
    ),
    Fault("statements not prepared", ["prepared-statements"], _point),
    Fault(
        "tiny buffer pool",
        ["buffer-pool"],
        _point,
        settings={"innodb_buffer_pool_size": "8M", "innodb_buffer_pool_chunk_size": "1M"},
    ),
    Fault(
        "six duplicate indexes",
        ["duplicate-indexes"],
        lambda dice: f"UPDATE ox SET customer = {dice.randint(0, 19_999)} WHERE id = {dice.randint(1, 200_000)};",
        settings={"innodb_flush_log_at_trx_commit": "2"},
        plant=[f"CREATE INDEX d{number} ON ox (customer, total)" for number in range(7)],
    ),
    Fault(
        "cache of ten open tables",
        ["table-cache"],
        lambda dice: f"SELECT * FROM small{dice.randint(1, 60)};",
        settings={"table_open_cache": "10", "table_open_cache_instances": "1"},
        plant=[f"CREATE TABLE small{number} (id int PRIMARY KEY)" for number in range(1, 61)],
    ),
    Fault(
        "temporary tables on disk",
        ["temporary-tables"],
        lambda dice: f"SELECT customer, SUM(total) FROM ox WHERE id BETWEEN {(a := dice.randint(1, 190_000))} "
        f"AND {a + 200} GROUP BY customer ORDER BY NULL;",
        settings={"tmp_memory_table_size": "1024"},
    ),
    Fault(
        "eight clients on one row",
        ["row-locks"],
        lambda dice: "BEGIN; UPDATE ox SET total = total + 1 WHERE id = 7; SELECT COUNT(*) FROM ox WHERE id "
        f"BETWEEN {(a := dice.randint(1, 190_000))} AND {a + 3000}; COMMIT;",
        clients=8,
        lines=4_000,
    ),
]


class Server:
    """A throwaway MariaDB."""

    def __init__(self, folder: Path, settings: Dict[str, str]):
        self.folder = folder
        words = [word for item in settings.items() for word in ("--set", "=".join(item))]
        run([HARDMETER, "--quiet", "server", "start", "mariadb", "--dir", folder, *words])

    def remove(self) -> None:
        if not self.folder.exists():
            return  # removed already, and the playground removes what is left at its end
        run([HARDMETER, "--quiet", "server", "remove", "--dir", self.folder])

    def client(self) -> List[str]:
        return ["mariadb", f"--socket={self.folder}/socket/mariadb.sock", "-u", "root", "test"]

    def query(self, sql: str) -> None:
        run([*self.client(), "-e", sql])

    def look(self, seconds: int) -> dict:
        words = [HARDMETER, "--quiet", "tune", "--server", self.folder, "--database", "test"]
        return json.loads(run([*words, "--seconds", str(seconds), "--format", "json"]))


@contextlib.contextmanager
def _under(server: Server, fault: Fault) -> Iterator[None]:
    """The server under the fault's load: clients that read scripts, repeatedly."""
    with contextlib.ExitStack() as stack:
        processes = []
        for client in range(fault.clients):
            dice = random.Random(client)
            script = server.folder.parent / f"client-{client}.sql"
            script.write_text("\n".join(fault.line(dice) for _ in range(fault.lines)) + "\n")
            feeder = stack.enter_context(
                subprocess.Popen(["sh", "-c", f"while cat {script}; do :; done"], stdout=subprocess.PIPE)
            )
            process = stack.enter_context(
                subprocess.Popen(server.client(), stdin=feeder.stdout, stdout=subprocess.DEVNULL)
            )
            processes += [process, feeder]
        try:
            time.sleep(1.5)
            yield
            if any(process.poll() is not None for process in processes):
                raise Trouble(f"{fault.name}: a client ended early")
        finally:
            for process in processes:
                process.terminate()


def mariadb(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The rank at which each fault that is planted on MariaDB is named."""
    places = []
    for number, fault in enumerate(FAULTS):
        server = Server(playground.folder / f"mariadb-{number}", fault.settings)
        playground.adopt(server)
        for sql in [*ORDERS, *fault.plant]:
            server.query(sql)
        with _under(server, fault):
            found = [finding["remedy"] for finding in server.look(4 if quick else 8)["findings"]]
        server.remove()
        at = place(found, fault.remedies)
        places.append(at)
        say(f"MariaDB, {fault.name}: {', '.join(found) or 'nothing'}")
        yield Figure(
            name=f"MariaDB, {fault.name}: place",
            value=at,
            unit=f"of {len(found)}",
            n=1,
            what=f"place of {' or '.join(fault.remedies)} among: {', '.join(found) or 'nothing'}; {ABSENT} is not named",
            bar=Bar(3),
        )
    first, n = sum(at == 1 for at in places), len(FAULTS)
    yield Figure("faults of MariaDB named first", first, f"of {n}", n, "planted faults named first", Bar(0.9 * n, False))
