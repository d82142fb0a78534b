"""Throwaway PostgreSQL servers, each running either natively or under a tool of Valgrind.

All are made, started, stopped and removed by `hardmeter server`, so all have the same programs and settings, an
unprivileged account, and a unix socket only. Each has data of its own, so that they can stand side by side and be
asked in turn: runs are interleaved within fractions of a second, not by restarts that lie minutes apart.

    native       the server as it is
    none         valgrind --tool=none: translation alone, the floor of everything built on Valgrind
    cachegrind   valgrind --tool=cachegrind --cache-sim=yes
    softpmu      hardmeter record --source simulated: all levels, TLBs, causes, both events sampled with registers
    softpmu-16   the same, simulating one line in 16
"""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from postgres import Connection
from processes import Trouble, children, cpu_seconds, run

REPOSITORY = Path(__file__).resolve().parents[2]
HARDMETER = Path(os.environ.get("HARDMETER") or REPOSITORY / "target/release/hardmeter")
EVENTS = "l1d-miss,l2-miss"

VALGRIND = ["valgrind", "-q", "--vgdb=no", "--sigill-diagnostics=no", "--run-libc-freeres=no"]
TOOLS = {
    "none": ["--tool=none"],
    "cachegrind": ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"],
}
RECORDINGS = {"softpmu": [], "softpmu-16": ["--set-sampling", "16"]}
KINDS = ["native", "none", "softpmu", "softpmu-16", "cachegrind"]

# Each of these would change the work of a query, add work of other processes, or add the disk's time to all.
SETTINGS = {"autovacuum": "off", "fsync": "off", "jit": "off", "max_parallel_workers_per_gather": "0"}


class Playground:
    """A folder for one run of the bench, with its servers. It is removed at the end of the run."""

    def __init__(self) -> None:
        # Not below the repository: that may be in a home folder that the servers' account cannot enter.
        self.folder = Path(tempfile.mkdtemp(prefix="hardmeter-bench-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self._servers: list = []
        self._made: Dict[Tuple[str, int], "Server"] = {}

    def __enter__(self) -> "Playground":
        return self

    def __exit__(self, *_) -> None:
        with undisturbed():
            for server in self._servers:
                try:
                    server.remove()
                except (Trouble, OSError, subprocess.TimeoutExpired) as error:
                    print(f"bench: {server.folder} stays behind: {error}", file=sys.stderr)
            shutil.rmtree(self.folder, ignore_errors=True)

    def server(self, kind: str, scale: int = 1, settings: Optional[Dict[str, str]] = None) -> "Server":
        """The server of a kind, with pgbench's tables; created at the first request, and then stopped."""
        if (kind, scale) not in self._made:
            server = Server(kind, self.folder, scale, {**SETTINGS, **(settings or {})})
            self._made[kind, scale] = server
            self.adopt(server)
            server.make()
        return self._made[kind, scale]

    def adopt(self, server) -> None:
        """Registers a server for removal at the end of the run, also one created elsewhere."""
        self._servers.append(server)


def environment(description: dict, database: str) -> dict:
    """Environment variables with which PostgreSQL's programs find a server that `hardmeter server status` described."""
    return dict(
        os.environ,
        PGHOST=description["socket_folder"],
        PGPORT=str(description["port"]),
        PGUSER=description["user"],
        PGDATABASE=database,
    )


class Server:
    """One server; `with server.running():` starts it."""

    def __init__(self, kind: str, playground: Path, scale: object, settings: Dict[str, str]):
        self.kind = kind
        self.scale = scale
        # Resolved: /proc/PID/cwd, which stop() compares with it, has no symbolic links.
        self.folder = playground.resolve() / f"{kind}-{scale}"
        self.capture = playground / f"{kind}-{scale}.data"
        self._settings = settings
        self.postmaster = 0
        self._recorder: Optional[int] = None
        self._programs = playground / f"{kind}-{scale}.programs"
        self._description: dict = {}

    def make(self) -> None:
        settings = [word for item in self._settings.items() for word in ("--set", "=".join(item))]
        self._hardmeter("start", "postgres", *settings)
        self._hardmeter("load", "postgres", "--scale", str(self.scale))
        self._hardmeter("stop")
        self._description = json.loads(self._hardmeter("status", "--format", "json"))

    @contextlib.contextmanager
    def running(self) -> Iterator["Server"]:
        """The server, running in its kind's way."""
        with self._recorded() if self.kind in RECORDINGS else self._started():
            self.postmaster = json.loads(self._hardmeter("status", "--format", "json"))["pid"]
            yield self

    def connect(self) -> Connection:
        socket = f"{self._description['socket_folder']}/.s.PGSQL.{self._description['port']}"
        return Connection(socket, self._description["user"], self._description["database"])

    def environment(self) -> dict:
        """Environment variables with which pgbench finds the server."""
        return environment(self._description, self._description["database"])

    def program(self, name: str) -> str:
        """One of the programs that belong to the server."""
        return str(Path(self._description["programs"]) / name)

    @property
    def account(self) -> str:
        """The account of the server's processes."""
        return self._description["account"]

    @property
    def data(self) -> Path:
        """The data folder."""
        return Path(self._description["data"])

    def programs(self) -> list:
        """Arguments that have the server run other programs than those installed."""
        if self.kind not in TOOLS:
            return []
        # Ten minutes, hardmeter's own time limit for simulated servers.
        return ["--programs", self._wrapped_programs(), "--timeout", "600"]

    def processes(self) -> List[int]:
        """The server's processes: its first, and the children of that."""
        return [self.postmaster, *children(self.postmaster)]

    def recorder_cpu(self) -> float:
        """CPU seconds of the server's `hardmeter record`; 0 without one."""
        return 0.0 if self._recorder is None else cpu_seconds(self._recorder)

    def remove(self) -> None:
        if (self.folder / "state.json").exists():
            self._hardmeter("remove")

    @contextlib.contextmanager
    def _started(self) -> Iterator[None]:
        self._hardmeter("start", *self.programs())
        try:
            yield
        finally:
            with undisturbed():
                self.stop()

    def stop(self) -> None:
        """Stops it, also if another program removed its folder, as one that clears /var/tmp does: `hardmeter server` needs the state there."""
        if (self.folder / "state.json").exists():
            self._hardmeter("stop")
            return
        with contextlib.suppress(OSError):
            # The number may be another process's by now.
            if self.postmaster and os.readlink(f"/proc/{self.postmaster}/cwd").startswith(str(self.folder)):
                os.kill(self.postmaster, signal.SIGQUIT)
        raise Trouble(
            f"another program removed {self.folder / 'state.json'} while the server ran; the server is ended\n"
            "  remedy: keep programs that clear temporary folders away from /var/tmp, and run it again"
        )

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """Records the server until `cat` ends, with its input. Its echo shows that the recording has begun."""
        command: list = [HARDMETER, "record", "--source", "simulated", "-e", EVENTS, *RECORDINGS[self.kind]]
        command += ["-o", self.capture, "--server", self.folder, "--", "cat"]
        log = tempfile.TemporaryFile()
        recorder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        try:
            recorder.stdin.write(b"ready\n")
            recorder.stdin.flush()
            if recorder.stdout.readline() != b"ready\n":
                recorder.wait()
                raise Trouble(f"{shlex.join(map(str, command))}: {_text(log)}")
            self._recorder = recorder.pid
            yield
        finally:
            self._recorder = None
            with undisturbed():
                recorder.stdin.close()
                try:
                    recorder.wait(timeout=90)
                except subprocess.TimeoutExpired:
                    recorder.terminate()
                    recorder.wait(timeout=90)
                recorder.stdout.close()
        if recorder.returncode != 0:
            raise Trouble(f"{shlex.join(map(str, command))}: exit status {recorder.returncode}\n{_text(log)}")

    def _wrapped_programs(self) -> Path:
        """A folder whose `postgres` runs the real one under the tool."""
        self._programs.mkdir(mode=0o755, exist_ok=True)
        real = self.program("postgres")
        script = self._programs / "postgres"
        script.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = --version ]; then exec {shlex.quote(real)} "$@"; fi\n'
            f'exec {shlex.join([*VALGRIND, *TOOLS[self.kind], real])} "$@"\n'
        )
        script.chmod(0o755)
        return self._programs

    def _hardmeter(self, action: str, *words) -> str:
        return run([HARDMETER, "--quiet", "server", action, *words, "--dir", self.folder])


def _text(log) -> str:
    log.seek(0)
    return log.read().decode(errors="replace").strip()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delays Ctrl-C and SIGTERM during cleanup."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


def make_capture() -> Path:
    """The generator of captures, built."""
    words = ["build", "--release", "--locked", "--quiet", "--workspace", "--example", "make_capture"]
    run([REPOSITORY / "scripts/cargo", *words], cwd=REPOSITORY)
    return REPOSITORY / "target/release/examples/make_capture"
