#!/usr/bin/python3
"""Counts what collecting costs on the auction site in instructions: free of noise, and against stock servers.

  bench/place/auction_instructions.py [--scenario accesses|volume ...]      some four minutes a scenario

Apache (one process) and MariaDB of a small site run inside callgrind, stock and with the modules, and are asked for one and for three lists of
requests: the difference is two lists. Counted are Apache's connections and MariaDB's commands, in user mode. Two things differ from earnest:
Valgrind has no rseq, so that a section takes some 100 instructions more, and no analyzer probes. Instructions are not time: what modules add are
short loops over text, which take fewer cycles an instruction than a server's own work.
"""

import argparse
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List

sys.dont_write_bytecode = True  # the repository is not ours to write into
sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

import callgrind  # noqa: E402
from auction_overhead import requests  # noqa: E402
from auction_site import Site, Visitor, need_modules  # noqa: E402
from processes import Trouble  # noqa: E402
from servers import Playground, undisturbed  # noqa: E402

DATA, WORKERS = 0.1, 2
FEW, MORE = 1, 3
START_PATIENCE = 120
# What is counted: functions that the servers export, whatever symbols they come with.
COUNTED = {"apache": "ap_run_process_connection", "mariadb": "do_command*"}
# Valgrind's io_uring never answers.
MORE_WORDS = {"apache": ["-X"], "mariadb": ["--innodb-use-native-aio=0"]}


class Server:
    """One of a site's servers: how it was started, to be started again inside callgrind."""

    def __init__(self, site: Site, name: str):
        pid = getattr(site, name)
        self.name, self.folder = name, site.folder
        self.words = [*_words(pid, "cmdline"), *MORE_WORDS[name]]
        self.environment = dict(one.split("=", 1) for one in _words(pid, "environ") if "=" in one)
        status = Path(f"/proc/{pid}/status").read_text()
        self.user, self.group = (int(re.search(rf"^{field}:\s+(\d+)", status, re.M)[1]) for field in ("Uid", "Gid"))
        self.address = ("127.0.0.1", site.port) if name == "apache" else site.socket
        os.kill(pid, signal.SIGTERM)
        _await(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text(), f"the end of {name}")

    def start(self, counts: Path) -> subprocess.Popen:
        """Inside callgrind, as the account that it had."""
        tool = ["valgrind", "--tool=callgrind", f"--toggle-collect={COUNTED[self.name]}", f"--callgrind-out-file={counts}"]
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
        raise Trouble(f"{process.args[0]}: exit status {process.returncode}\n  remedy: apt-get install valgrind")
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        return client.connect_ex(address) == 0


def _await(happened, what: str) -> None:
    deadline = time.monotonic() + START_PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise Trouble(f"{what} was not seen within {START_PATIENCE} s")
        time.sleep(0.1)


def counted(site: Site, servers: List[Server], scenario: str, lists: int) -> Dict[str, int]:
    """Instructions of so many lists of requests, after one that warms up; by server."""
    folder = site.folder / "callgrind"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    running = []
    try:
        for server in servers:
            running.append(server.start(folder / f"{server.name}.{scenario}.{lists}"))
        with Visitor(site) as visitor:
            for seed in (1, *[2] * lists):
                for path in requests(scenario, random.Random(seed)):
                    visitor.get(path)
    finally:
        with undisturbed():
            for process in reversed(running):
                _end(process)
    return {server.name: _total(folder / f"{server.name}.{scenario}.{lists}") for server in servers}


def _end(process: subprocess.Popen) -> None:
    """Asks it to end, again if need be: Apache's one process goes on accepting if it was about to when it was asked."""
    while process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)


def _total(file: Path) -> int:
    counted = callgrind.total(file)
    if counted is None:
        raise Trouble(f"callgrind counted nothing in {file}\n  remedy: the server's symbols may be other ones: see COUNTED")
    return counted


def measure(playground: Playground, scenarios: List[str]) -> dict:
    """Instructions of a list of requests by scenario, site and server; printed as they come."""
    found: dict = {}
    for split in ("off", "collect"):
        site = Site(playground, split, split, DATA, WORKERS)
        servers = [Server(site, "apache"), Server(site, "mariadb")]
        servers.reverse()
        for scenario in scenarios:
            few, more = (counted(site, servers, scenario, lists) for lists in (FEW, MORE))
            found.setdefault(scenario, {})[split] = {name: (more[name] - few[name]) / (MORE - FEW) for name in few}
    for scenario, of in found.items():
        for name in (*COUNTED, "both"):
            stock, mine = (sum(of[split][one] for one in COUNTED if name in (one, "both")) for split in ("off", "collect"))
            print(f"{scenario:<9} {name:<8} stock {stock:14,.0f}  collecting {mine:14,.0f}  {100 * (mine / stock - 1):+.2f} %", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scenario", action="append", choices=("accesses", "volume"))
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        need_modules()
        with Playground() as playground:
            measure(playground, given.scenario or ["accesses", "volume"])
    except (Trouble, OSError) as error:
        print(f"auction_instructions: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
