#!/usr/bin/python3
"""Counts the instructions of a query in `postgres --single` with callgrind, within standard_ExecutorRun only.

  bench/plan/instructions.py --server DIR [--query N] [--settings 'load:ccopt; ccopt.enabled=on']

DIR is a stopped server of `hardmeter server` with the data of `hardmeter tpch load`. Parsing, planning and the server's
start do not count; reading pages into empty buffers does. The count is free of noise: the same program on the same data
gives the same number to some 0.1 %.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, List, Sequence

sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[1] / "common"))

import callgrind  # noqa: E402
import tpch  # noqa: E402
from figure import Bar, Figure  # noqa: E402
from processes import Trouble, run  # noqa: E402
from servers import HARDMETER, Playground  # noqa: E402

BAR_MILLIONS = 650
SCALE = "0.1"
QUICK_SCALE = "0.01"
# As config A of the measurements, and buffers that hold the data.
SETTINGS = [
    "shared_buffers=512MB",
    "random_page_cost=1.1",
    "work_mem=1GB",
    "jit=off",
    "max_parallel_workers_per_gather=0",
    "fsync=off",
]


def collect(
    programs: Path, data: Path, account: str, database: str, lines: Sequence[str], settings: Sequence[str], within: str = ""
) -> int:
    """Instructions of a `postgres --single` that runs these statements, in total or within one function."""
    with tempfile.TemporaryDirectory(prefix="hardmeter-callgrind-", dir="/var/tmp") as folder:
        output = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        command += [f"--toggle-collect={within}"] if within else []
        command += [str(programs / "postgres"), "--single", "-D", str(data)]
        for setting in (*SETTINGS, *settings):
            command += ["-c", setting]
        command.append(database)
        if os.geteuid() == 0:
            shutil.chown(folder, account)
            command = ["runuser", "-u", account, "--", *command]
        # A line is a statement in this mode.
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, text=True, errors="replace", cwd="/"
        )
        said = done.stdout + done.stderr
        if done.returncode != 0 or "ERROR:" in said or "FATAL:" in said:
            tail = "\n".join(said.splitlines()[-12:])
            raise Trouble(f"{shlex.join(command)}: exit status {done.returncode}\n{tail}")
        counted = callgrind.total(output)
        if counted is None:
            raise Trouble(f"callgrind collected nothing{f': does this server export {within}?' if within else ''}")
        return counted


def count(
    programs: Path, data: Path, account: str, query: str, statements: Sequence[str] = (), settings: Sequence[str] = ()
) -> int:
    """Instructions of `query` within ExecutorRun, after `statements`, on the data folder of a stopped server."""
    lines = [*statements, query]
    return collect(programs, data, account, tpch.DATABASE, lines, settings, "standard_ExecutorRun")


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Q1 with and without the extension, one run each."""
    scale = QUICK_SCALE if quick else SCALE
    server = tpch.server(playground, scale, say)
    extension = tpch.Extension(playground)
    programs = Path(server.program("postgres")).parent
    library = [f"{name}={value}" for name, value in extension.server_settings().items()]
    ways = {"stock": [], "ccopt": extension.statements()}
    counted = {}
    for way, statements in ways.items():
        say(f"instructions of Q1 at scale {scale}, {way}")
        query = tpch.text(1, scale)
        counted[way] = count(programs, server.data, server.account, query, statements, library) / 1e6
    what = f"instructions of Q1 at scale {scale} within ExecutorRun, by callgrind"
    return [
        Figure("Q1: instructions", counted["ccopt"], "million", 1, f"{what}, with the extension", Bar(BAR_MILLIONS)),
        Figure("Q1: instructions of stock", counted["stock"], "million", 1, what),
    ]


def main() -> int:
    """The script: one query, once."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", required=True, metavar="DIR", help="a stopped server of `hardmeter server`")
    parser.add_argument("--query", type=int, default=1, choices=range(1, 23), metavar="N")
    parser.add_argument("--settings", default="", help="settings of the session, as for `hardmeter tpch run --variant`")
    arguments = parser.parse_args()
    try:
        found = json.loads(run([HARDMETER, "server", "status", "--dir", arguments.server, "--format", "json"]))
        if found["status"] == "running":
            raise Trouble(f"the server runs\n  remedy: hardmeter server stop --dir {arguments.server}")
        library = [f"{name}={value}" for name, value in found["settings"].items() if name == "dynamic_library_path"]
        statements = tpch.statements(arguments.settings)
        folder, data = Path(found["programs"]), Path(found["data"])
        print(count(folder, data, found["account"], tpch.text(arguments.query), statements, library))
    except (Trouble, OSError) as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
