"""A throwaway PostgreSQL with the data of TPC-H, and the extension that is measured on it."""

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Callable, Dict, List, Optional

from postgres import Connection, PostgresError
from processes import Trouble, run
from servers import HARDMETER, REPOSITORY, SETTINGS, Playground, Server

LIBRARY = REPOSITORY / "build/plan/15/ccopt.so"
CONTROL = REPOSITORY / "plan/ccopt.control"
SCRIPTS = REPOSITORY / "plan/sql"
PG_CONFIG = "/usr/lib/postgresql/15/bin/pg_config"
DATABASE = "tpch"

# All of scale 1 with its indexes (1.7 GB) fits into the buffers; a load writes no log.
TPCH_SETTINGS = {
    "shared_buffers": "3GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "60min",
}


def scale(quick: bool) -> str:
    """The scale of a run: TPCH_SCALE or 1, and a small one for --quick."""
    return "0.1" if quick else os.environ.get("TPCH_SCALE", "1")


def statements(settings: str) -> List[str]:
    """Settings in the form of `hardmeter tpch run --variant`, as SQL."""
    made = []
    for setting in filter(None, (part.strip() for part in settings.split(";"))):
        if setting.startswith("load:"):
            made.append(f"LOAD '{setting[5:].strip()}'")
        else:
            name, value = setting.split("=", 1)
            made.append(f"SET {name.strip()} = '{value.strip()}'")
    return made


class Extension:
    """The library in a folder that a server's account can read, and the settings that enable it."""

    def __init__(self, playground: Playground):
        self.settings = os.environ.get("CCOPT_SETTINGS", "load:ccopt; ccopt.enabled=on")
        self._needed = "ccopt" in self.settings
        self.folder = playground.folder / "ccopt"
        if self._needed and not self.folder.exists():
            library = Path(os.environ.get("CCOPT_LIBRARY", LIBRARY))
            if not library.exists():
                raise Trouble(f"there is no {library}\n  remedy: make -C plan, or name it with CCOPT_LIBRARY")
            self.folder.mkdir(mode=0o755)
            shutil.copy(library, self.folder / "ccopt.so")
            (self.folder / "ccopt.so").chmod(0o755)

    def server_settings(self) -> Dict[str, str]:
        """The setting by which a server finds the library without installation."""
        return {"dynamic_library_path": f"{self.folder}:$libdir"} if self._needed else {}

    def variants(self) -> List[str]:
        """Options of `hardmeter tpch run`: stock is a session in which the library was never loaded."""
        return ["--variant", "stock=", "--variant", f"ccopt={self.settings}"]

    def statements(self) -> List[str]:
        """The settings as SQL."""
        return statements(self.settings)

    def options(self) -> str:
        """The settings for PGOPTIONS, with which an unmodified client starts its sessions."""
        words = []
        for setting in filter(None, (part.strip() for part in self.settings.split(";"))):
            if setting.startswith("load:"):
                setting = f"session_preload_libraries={setting[5:].strip()}"
            words += ["-c", setting.replace(" ", "")]
        return " ".join(words)

    def programs(self) -> List[str]:
        """Options of `hardmeter server start`: a copy of PostgreSQL's programs with the extension installed.

        A server finds its shared files relative to its own program, by the paths compiled in. So a copy of the program
        gets its own tree, with links to the system's files and the extension's files. Nothing is installed into the
        system, and CREATE EXTENSION works as for a user.
        """
        if not self._needed:
            return []
        binaries, shared, libraries = (
            Path(run([PG_CONFIG, option]).strip()) for option in ("--bindir", "--sharedir", "--pkglibdir")
        )
        root = self.folder / "root"
        inside = [root / path.relative_to("/") for path in (binaries, shared, libraries)]
        if not root.exists():
            for source, target in zip((binaries, shared, shared / "extension"), (*inside[:2], inside[1] / "extension")):
                target.mkdir(parents=True)
                for entry in source.iterdir():
                    if entry.name != "extension":
                        (target / entry.name).symlink_to(entry)
            inside[2].parent.mkdir(parents=True, exist_ok=True)
            inside[2].symlink_to(libraries)
            # A link would be resolved, and lead back to the system's files.
            (inside[0] / "postgres").unlink()
            shutil.copy(binaries / "postgres", inside[0] / "postgres")
            for entry in [CONTROL, *SCRIPTS.glob("ccopt--*.sql")]:
                shutil.copy(entry, inside[1] / "extension" / entry.name)
            control = inside[1] / "extension" / CONTROL.name
            control.write_text(control.read_text().replace("$libdir/ccopt", "ccopt"))
        return ["--programs", str(inside[0])]

    def install(self, connection: Connection, say: Callable[[str], None]) -> None:
        """Runs CREATE EXTENSION, and its calibration of the machine."""
        if not self._needed:
            return
        connection.query("CREATE EXTENSION ccopt")
        say("calibrating the extension")
        try:
            said = connection.query("SELECT ccopt.ccopt_calibrate()")
            say(f"calibrated: {said[0][0]}")
        except PostgresError as error:
            say(f"NOT calibrated, built-in costs are used: {error}")


class TpchServer(Server):
    """A server with the data of one scale."""

    def __init__(
        self, playground: Playground, scale: str, extension: Extension, further: Optional[Dict[str, str]] = None, kind: str = "tpch"
    ):
        settings = {**SETTINGS, **TPCH_SETTINGS, **extension.server_settings(), **(further or {})}
        super().__init__(kind, playground.folder, scale, settings)
        self._extension = extension

    def load(self, say: Callable[[str], None]) -> None:
        """Creates the server with its data, and leaves it stopped."""
        settings = [word for item in self._settings.items() for word in ("--set", "=".join(item))]
        self._hardmeter("start", "postgres", *settings, *self._extension.programs())
        self._description = json.loads(self._hardmeter("status", "--format", "json"))
        say(f"loading TPC-H, scale {self.scale}")
        run([HARDMETER, "--quiet", "tpch", "load", "--scale", self.scale, "--server", self.folder])
        connection = self.connect_to(DATABASE)
        try:
            self._extension.install(connection, say)
        finally:
            connection.close()
        self._hardmeter("stop")

    def connect_to(self, database: str) -> Connection:
        socket = f"{self._description['socket_folder']}/.s.PGSQL.{self._description['port']}"
        return Connection(socket, self._description["user"], database)

    def tpch(self, *words) -> dict:
        """The result of `hardmeter tpch run`. Its status 1 means that answers differ, which is a figure here, not an
        error.
        """
        command = [HARDMETER, "--quiet", "tpch", "run", "--server", self.folder, "--format", "json", *words]
        return json.loads(run(["sh", "-c", f'{shlex.join(map(str, command))} || [ $? = 1 ]']))


_made: Dict[str, TpchServer] = {}


def server(playground: Playground, scale: str, say: Callable[[str], None]) -> TpchServer:
    """The server of a scale, created at the first request."""
    if scale not in _made:
        made = TpchServer(playground, scale, Extension(playground))
        playground.adopt(made)
        made.load(say)
        _made[scale] = made
    return _made[scale]


def text(query: int, scale: str = "1") -> str:
    """The query's text with validation parameters, on one line."""
    show = [HARDMETER, "tpch", "show", "--queries", str(query), "--scale", scale, "--format", "json"]
    return " ".join(json.loads(run(show))["data"][0]["sql"].split())


def interval(median: Optional[dict]):
    """The interval of a median of `hardmeter tpch run`."""
    between = median and median["interval_95"]
    return (between["low"], between["high"]) if between else None
