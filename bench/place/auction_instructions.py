"""The cost of collecting on the auction site in instructions, relative to stock servers: hardly affected by a shared
machine's noise.

Apache (one process) and MariaDB of a site run inside callgrind, stock and with the modules, and serve the same list of requests repeatedly.
The median over the lists is taken, because a server sometimes does other work as well (0.2 % of a list were seen). Counted are Apache's
connections and MariaDB's commands, in user mode. Valgrind has no rseq: place/sections/rseq_stand_in.c replaces it, so that sections run the same
code as on the real machine, where threads are interrupted now and then. No analyzer probes. Nothing else should run: whether a server finds the
next packet there already makes 0.1 to 0.2 %. Instructions are not time: what modules add are short loops over text, which take fewer cycles an
instruction than a server's own work.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence

import callgrind
from auction_overhead import BAR, SCENARIOS, requests
from auction_site import MODULES, Site, Visitor, need_modules
from figure import Figure
from processes import Trouble, run
from servers import Playground, undisturbed

WORKERS = 2
LISTS, QUICK_LISTS = 5, 1
START_PATIENCE = 120
# Counted functions: exported by the servers, with any symbols.
COUNTED = {"apache": "ap_run_process_connection", "mariadb": "do_command*"}
# Functions executed only between lists: callgrind writes its counts there, and starts again.
MARKED = {"apache": "ap_send_error_response", "mariadb": "mysqld_list_processes*"}
RSEQ = MODULES / "sections/rseq_stand_in.so"
# Valgrind's io_uring never answers.
MORE_WORDS = {"apache": ["-X"], "mariadb": ["--innodb-use-native-aio=0"]}


class Server:
    """One of a site's servers: its command, to restart it inside callgrind."""

    def __init__(self, site: Site, name: str):
        pid = getattr(site, name)
        self.name, self.folder = name, site.folder
        self.words = [*_words(pid, "cmdline"), *MORE_WORDS[name]]
        self.environment = {**dict(one.split("=", 1) for one in _words(pid, "environ") if "=" in one), "LD_PRELOAD": str(RSEQ)}
        status = Path(f"/proc/{pid}/status").read_text()
        self.user, self.group = (int(re.findall(rf"^{field}:\s+(\d+)", status, re.M)[0]) for field in ("Uid", "Gid"))
        self.address = ("127.0.0.1", site.port) if name == "apache" else site.socket
        os.kill(pid, signal.SIGTERM)
        _await(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text(), f"the end of {name}")

    def start(self, counts: Path) -> subprocess.Popen:
        """Starts the server inside callgrind, under its original account."""
        tool = ["valgrind", "--tool=callgrind", f"--toggle-collect={COUNTED[self.name]}", f"--dump-before={MARKED[self.name]}"]
        tool += [f"--callgrind-out-file={counts}"]
        if isinstance(self.address, str):
            Path(self.address).unlink(missing_ok=True)
        with open(self.folder / f"callgrind-{self.name}.log", "ab") as log:
            process = subprocess.Popen(
                [*tool, *self.words], env=self.environment, user=self.user, group=self.group, extra_groups=[],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            _await(lambda: _answers(self.address, process), f"the start of {self.name} inside callgrind")
        except Trouble:
            process.kill()
            process.wait()
            raise
        return process


def _words(pid: int, name: str) -> List[str]:
    return Path(f"/proc/{pid}/{name}").read_bytes().decode().split("\0")[:-1]


def _answers(address, process: subprocess.Popen) -> bool:
    if process.poll() is not None:
        raise Trouble(f"valgrind: exit status {process.returncode}\n  remedy: apt-get install valgrind")
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        return client.connect_ex(address) == 0


def _await(happened, what: str) -> None:
    deadline = time.monotonic() + START_PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise Trouble(f"{what} was not seen within {START_PATIENCE} s")
        time.sleep(0.1)


def counted(site: Site, servers: List[Server], scenario: str, lists: int, state: str) -> Dict[str, float]:
    """Instructions of a list of requests by server: the median of `rounds`, after a warm-up."""
    folder = site.folder / "callgrind" / f"{scenario}-{state}"
    folder.mkdir(parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        one.chmod(0o777)
    running = []
    try:
        for server in servers:
            running.append(server.start(folder / server.name))
        if state != "stock":
            site.switch(state == "on")
            problem = _ask(site, "SHOW STATUS LIKE 'split_problem'")
            if "rseq" in problem:
                raise Trouble(f"{RSEQ} does not stand in for rseq: {problem}\n  remedy: see {site.folder}/callgrind-mariadb.log")
        with Visitor(site) as visitor:
            for number in range(1, lists + 2):
                for path in requests(scenario, random.Random(1)):
                    visitor.get(path)
                _mark(site, visitor, [folder / f"{server.name}.{number}" for server in servers])
    finally:
        with undisturbed():
            for process in reversed(running):
                _end(process)
    return {server.name: statistics.median(_total(folder / f"{server.name}.{number}") for number in range(2, lists + 2)) for server in servers}


def _mark(site: Site, visitor: Visitor, files: List[Path]) -> None:
    """Makes callgrind write the counts of the finished list, by a missing page, and by a command without other use.
    """
    visitor.get("no-such-page", 404)
    _ask(site, "SHOW PROCESSLIST")
    for file in files:
        _await(file.exists, f"{file.name}, what callgrind counted,")


def _ask(site: Site, sql: str) -> str:
    return run(["mariadb", "--no-defaults", "--user=root", f"--socket={site.socket}", f"--execute={sql}"])


def _end(process: subprocess.Popen) -> None:
    """Sends it SIGTERM, repeatedly: Apache's single process continues to accept if it was just about to."""
    while process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


def _total(file: Path) -> int:
    counted = callgrind.total(file)
    if counted is None:
        raise Trouble(f"callgrind counted nothing in {file}\n  remedy: check the names in COUNTED: this server may have other symbols")
    return counted


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Instructions of a list of requests: collecting and switched off, relative to stock servers."""
    need_modules()
    if not RSEQ.exists():
        raise Trouble(f"there is no {RSEQ}\n  remedy: make build-place")
    if shutil.which("valgrind") is None:
        raise Trouble("there is no valgrind\n  remedy: apt-get install valgrind")
    data, lists = (0.1, QUICK_LISTS) if quick else (1.0, LISTS)
    scenarios = SCENARIOS[1:] if quick else SCENARIOS
    found: Dict[str, Dict[str, Dict[str, float]]] = {scenario: {} for scenario in scenarios}
    for split in ("off", "collect"):
        say(f"instructions: a site, {'stock' if split == 'off' else 'with the modules'}")
        site = Site(playground, f"counted-{split}", split, data, WORKERS)
        servers = [Server(site, "mariadb"), Server(site, "apache")]
        for state in ("stock",) if split == "off" else ("on", "off"):
            for scenario in scenarios:
                say(f"instructions: {scenario}, {state}, inside callgrind")
                found[scenario][state] = counted(site, servers, scenario, lists, state)
    for scenario, states in found.items():
        yield from _figures(scenario, states)


def _figures(scenario: str, states: Dict[str, Dict[str, float]]) -> Iterator[Figure]:
    def more(way: str, other: str, names: Sequence[str] = tuple(COUNTED)) -> float:
        """By how many percent `way` exceeds `other`."""
        mine, theirs = (sum(states[state][name] for name in names) for state in (way, other))
        return 100 * (mine / theirs - 1)

    name = f"instructions, {scenario}"
    millions = sum(states["stock"].values()) / 1e6
    what = f"collecting over stock servers, Apache with PHP and MariaDB; {millions:.0f} million of stock ones"
    yield Figure(name, more("on", "stock"), "% more", 1, what, BAR)
    for server in COUNTED:
        yield Figure(f"{name}: {server}", more("on", "stock", [server]), "% more", 1, f"the same, of {server} alone")
    yield Figure(f"{name}: on to off", more("on", "off"), "% more", 1, "collecting over the same modules switched off")
    yield Figure(f"{name}: off to stock", more("off", "stock"), "% more", 1, "the modules switched off over stock servers")
