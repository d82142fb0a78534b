"""Auction sites that stay while the bench visits them (`hardmeter auction start`), stock or with placement's modules."""

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

from processes import Trouble, children, run
from servers import HARDMETER, REPOSITORY, Playground, undisturbed

MODULES = REPOSITORY / "build/place"
# Time limit of the analyzer's search for the probe's sets (place/analyzer, probing.rs), plus a margin for a busy
# machine.
SETS_PATIENCE = 90


_sites: Dict[Tuple[Path, str], "Site"] = {}


class Site:
    """A site that runs until the end of the playground."""

    @staticmethod
    def of(playground: Playground, name: str, split: str, data: float, say: Callable[[str], None]) -> "Site":
        """One site is shared by all parts of a bench: creating it takes half a minute."""
        key = (playground.folder, name)
        if key not in _sites:
            say(f"making a site: {name}")
            _sites[key] = Site(playground, name, split, data)
        return _sites[key]

    def __init__(self, playground: Playground, name: str, split: str, data: float, workers: int = 16):
        self.folder = playground.folder / f"auction-{name}"
        self.segments = self.folder / "split"
        playground.adopt(self)
        words = ["--dir", self.folder, "--split", split, "--split-build", MODULES, "--data", str(data), "--workers", str(workers)]
        run([HARDMETER, "--quiet", "auction", "start", *words])
        self.apache = self._state("web/web.json")["apache"]["pid"]
        database = self._state("database/state.json")
        self.mariadb, self.socket = database["process"]["pid"], f"{database['socket_folder']}/mariadb.sock"
        self.port = self._state("web/web.json")["port"]

    def _state(self, name: str) -> dict:
        return json.loads((self.folder / name).read_text())

    def visit(self, *words) -> dict:
        """One run of the load generator; returns its result."""
        command = [HARDMETER, "--quiet", "auction", "--at", self.folder, "--format", "json", *map(str, words)]
        return json.loads(run(command))

    def cpu_seconds(self) -> float:
        """CPU time of Apache with PHP, and of MariaDB, so far: of all their threads, including ended ones."""
        return sum(process_seconds(pid) for pid in (self.apache, *children(self.apache), self.mariadb))

    def switch(self, on: bool) -> None:
        """Switches collecting of the running servers on or off, as an operator does."""
        run([HARDMETER, "split", "off", "--directory", self.segments, *(["--on"] if on else [])])

    def remove(self) -> None:
        if (self.folder / "site.json").exists():
            run([HARDMETER, "--quiet", "auction", "stop", "--dir", self.folder])

    @contextlib.contextmanager
    def analyzed(self, policy: str, *words) -> Iterator[int]:
        """With an analyzer that has found the probe's sets, or that there are none; yields its process id."""
        log = open(self.folder / "analyzer.log", "ab")  # pylint: disable=consider-using-with
        command: list = [HARDMETER, "split", "analyze", "--directory", self.segments, "--policy", policy, *map(str, words)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            self._await_sets(process)
            yield process.pid
            self._require(process)
        finally:
            with undisturbed():
                process.terminate()  # not SIGINT, which background processes inherit as ignored
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                log.close()

    def _require(self, process: subprocess.Popen) -> None:
        if process.poll() is not None:
            raise Trouble(f"the analyzer ended: {(self.folder / 'analyzer.log').read_text()[-2000:]}")

    def _await_sets(self, process: subprocess.Popen) -> None:
        deadline = time.monotonic() + SETS_PATIENCE
        while self.told(process.pid)["probe"]["kind"] in ("", "searching"):
            self._require(process)
            if time.monotonic() > deadline:
                raise Trouble(f"the analyzer found no sets in {SETS_PATIENCE} s\n  remedy: see {self.folder / 'analyzer.log'}")
            time.sleep(0.1)

    def told(self, analyzer: int) -> dict:
        """The analyzer's latest state (analyzer-state.json)."""
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            state = json.loads((self.segments / "analyzer-state.json").read_text())
            if state["pid"] == analyzer:
                return state
        return {"probe": {"kind": ""}, "plan": {"placements": []}}


def process_seconds(pid: int) -> float:
    """Processor time of a process, its ended threads' included, by its clock (clock_getcpuclockid): /proc/PID/stat has ticks of 10 ms,
    and a sum over /proc/PID/task loses threads that end."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError as error:
        raise Trouble(f"process {pid} of the site is gone\n  remedy: see its logs") from error


class Visitor:
    """One kept connection to a site; one request at a time. Not the load generator, since starting it would dominate
    legs of tenths of a second.
    """

    def __init__(self, site: Site):
        self._socket = socket.create_connection(("127.0.0.1", site.port), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_) -> None:
        self._socket.close()

    def get(self, path: str, status: int = 200) -> int:
        """Requests a page with this expected status; returns its size in bytes."""
        self._socket.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._receive()
        head, body = head.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        if f" {status} " not in lines[0] + " " or "content-length" not in fields:
            raise Trouble(f"{path}: {lines[0]}\n  remedy: see the site's logs")
        length, came = int(fields["content-length"]), len(body)
        while came < length:
            came += len(self._receive())
        return length

    def _receive(self) -> bytes:
        received = self._socket.recv(1 << 18)
        if not received:
            raise Trouble("the site closed a connection\n  remedy: see its logs")
        return received


def need_modules() -> None:
    """The modules."""
    if not (MODULES / "apache/mod_split.so").exists():
        raise Trouble(f"there are no modules in {MODULES}\n  remedy: make build-place")


def spread(values: List[float]) -> float:
    """Half of the interquartile range over the median: the spread of blocks."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    middle = ordered[len(ordered) // 2]
    return (ordered[-1 - quarter] - ordered[quarter]) / 2 / middle if middle else 0.0
