"""Servers on which faults are planted, their loads, and observations of them."""

import contextlib
import json
import shlex
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

from postgres import Connection
from processes import Trouble, run
from servers import HARDMETER, Playground, Server

# Settings of a tuned server on a small machine; statistics of statements need the extension.
TUNED = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track_planning": "on",
    "track_wal_io_timing": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "autovacuum": "on",
    "autovacuum_naptime": "5s",
    "fsync": "on",
    "jit": "on",
    "random_page_cost": "1.1",
}

# Adds its delay to each sync of a file.
SLOW_SYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#define SLOWED(name)                                          \
  int name(int file) {                                        \
    static int (*real)(int);                                  \
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name);  \
    usleep(5000);                                             \
    return real(file);                                        \
  }
SLOWED(fsync)
SLOWED(fdatasync)
"""


@dataclass(frozen=True)
class Load:
    """A pgbench load: its own transaction, unless there is a script."""

    script: str = ""
    clients: int = 2
    protocol: str = "prepared"
    arguments: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Bed:
    """A kind of server."""

    name: str
    scale: int = 5
    # By ALTER SYSTEM, so that remedies can change them.
    settings: Dict[str, str] = field(default_factory=dict)
    # Settings that `hardmeter server` sets on the command line already.
    command_line: Dict[str, str] = field(default_factory=dict)
    slow_sync: bool = False


# Sessions that a transaction keeps idle while the load's own sessions, which pgbench names, go on.
END_HOLDERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE state = 'idle in transaction' AND application_name <> 'pgbench' AND pid <> pg_backend_pid()
"""

MAIN = Bed("tune", 10)


class TunedServer(Server):
    """A server of a bed; with slow syncs if the bed has them."""

    def __init__(self, bed: Bed, playground: Path):
        others = {name: value for name, value in TUNED.items() if name not in bed.settings}
        super().__init__(bed.name, playground, bed.scale, {**others, **bed.command_line})
        self._slow_sync = bed.slow_sync

    def programs(self) -> List[str]:
        if not self._slow_sync:
            return []
        self._programs.mkdir(mode=0o755, exist_ok=True)
        source, library = self._programs / "slow_sync.c", self._programs / "slow_sync.so"
        source.write_text(SLOW_SYNC)
        run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"])
        real, script = self.program("postgres"), self._programs / "postgres"
        script.write_text(f'#!/bin/sh\nLD_PRELOAD={shlex.quote(str(library))} exec {shlex.quote(real)} "$@"\n')
        script.chmod(0o755)
        return ["--programs", str(self._programs)]

    def restart(self) -> None:
        """Restarts, for settings that only a restart changes."""
        self._hardmeter("stop")
        self._hardmeter("start", *self.programs())

    def query(self, sql: str) -> list:
        connection = self.connect()
        try:
            return connection.query(sql)
        finally:
            connection.close()


@contextlib.contextmanager
def running(playground: Playground, bed: Bed) -> Iterator[TunedServer]:
    """A running server of a bed, with pgbench's tables; removed afterwards."""
    server = TunedServer(bed, playground.folder)
    playground.adopt(server)
    server.make()
    with server.running():
        server.query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        for setting, value in bed.settings.items():
            server.query(f"ALTER SYSTEM SET {setting} = '{value}'")
        if bed.settings:
            server.restart()
        server.query("VACUUM ANALYZE")
        yield server
    server.remove()


@contextlib.contextmanager
def under(server: TunedServer, load: Load) -> Iterator[None]:
    """The server under a load."""
    command: list = [server.program("pgbench"), "-n", "-M", load.protocol, "-T", "600", "-c", load.clients, *load.arguments]
    if load.script:
        script = server.folder.parent / "script.sql"
        script.write_text(load.script)
        command += ["-f", script]
    with subprocess.Popen(
        list(map(str, command)),
        env=server.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            yield
            if process.poll() is not None:
                raise Trouble(f"pgbench ended early: {process.stderr.read() if process.stderr else ''}")
        finally:
            process.terminate()
            process.wait(timeout=60)


def look(server: TunedServer, seconds: int) -> dict:
    """The report of `hardmeter tune` on the server."""
    words: list = [HARDMETER, "--quiet", "tune", "--server", server.folder, "--database", server.environment()["PGDATABASE"]]
    return json.loads(run([*words, "--seconds", str(seconds), "--format", "json"]))


def named(page: dict) -> List[str]:
    """The remedies of a report, in order. Other load of this machine, as of builds, is not the server's fault."""
    return [finding["remedy"] for finding in page["findings"] if finding["remedy"] != "other-programs"]


# Seconds for which a load runs before an observation.
WARM = 1.5


def looked(
    server: TunedServer, load: Load, seconds: int, holder: Optional[str] = None, warm: float = WARM, ended: bool = False
) -> dict:
    """The report on the server under a load that runs for `warm` seconds, optionally with a session that holds a
    transaction. If `ended`, the session is ended before the observation, as `tune` advises.
    """
    connection = server.connect() if holder else None
    try:
        if connection:
            # Not awaited: a report query may run as long as the load.
            threading.Thread(target=_ask, args=(connection, holder), daemon=True).start()
        with under(server, load):
            time.sleep(warm)
            if ended:
                server.query(END_HOLDERS)
                time.sleep(WARM)
            return look(server, seconds)
    finally:
        if connection:
            with contextlib.suppress(OSError):  # the server has ended it already
                connection.socket.shutdown(socket.SHUT_RDWR)
            connection.close()


def _ask(connection: Connection, sql: str) -> None:
    with contextlib.suppress(Trouble, OSError):
        connection.query(sql)
