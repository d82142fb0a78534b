"""Compares the misses of the software PMU with those of cachegrind, with the same caches.

Single-threaded programs; both tools simulate `tests/machines/cachegrind.toml`. Both are deterministic, so one run of
each is enough and there is no interval. `tests/softpmu_cachegrind.rs` compares more programs, and gives the reason
for each difference. """

import json
import os
import shutil
from pathlib import Path
from typing import Callable, Dict, List

from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, REPOSITORY, Playground

MACHINE = REPOSITORY / "tests/machines/cachegrind.toml"
GEOMETRY = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]
VALGRIND_TOOLS = Path("/usr/libexec/valgrind")
SOFTPMU = REPOSITORY / "build/softpmu/valgrind/softpmu-amd64-linux"
BAR_PERCENT = 0.5

# Hardmeter's events, and cachegrind's names: instruction and data misses of the last level are added.
COMPARED = {
    "l1d-miss": ("D1", ["D1mr", "D1mw"]),
    "l3-miss": ("LL", ["ILmr", "DLmr", "DLmw"]),
    "l1i-miss": ("I1", ["I1mr"]),
}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figure 7."""
    # One folder with both tools, and one environment: the strings on a program's stack move everything below them.
    tools = playground.folder / "tools"
    tools.mkdir()
    for tool in [*VALGRIND_TOOLS.iterdir(), SOFTPMU]:
        (tools / tool.name).symlink_to(tool)
    environment = dict(os.environ, VALGRIND_LIB=str(tools), HARDMETER_SOFTPMU=str(tools), LC_ALL="C")
    figures = []
    for name, command in _programs(playground.folder, quick).items():
        say(f"misses of {name}, twice")
        theirs = _cachegrind(command, tools, environment)
        ours = _softpmu(command, environment)
        for event, (title, parts) in COMPARED.items():
            expected = sum(theirs[part] for part in parts)
            difference = abs(ours[event] - expected) / expected * 100
            what = f"{event} of {name} on the software PMU {ours[event]}, in cachegrind {expected}"
            figures.append(Figure(f"agreement, {name}: {title}", difference, "% apart", 1, what, Bar(BAR_PERCENT)))
    return figures


def _programs(folder: Path, quick: bool) -> Dict[str, List[str]]:
    mixture = folder / "mixture"
    source = REPOSITORY / "tests/microkernels/mixture.c"
    run(["gcc", "-O2", "-o", mixture, source])
    # The lock file, repeated: with sort's own arrays it exceeds the last level.
    text = folder / "text"
    text.write_bytes((REPOSITORY / "Cargo.lock").read_bytes() * (1 if quick else 100))
    return {
        "mixture": [str(mixture), "20000"],
        "sort": [shutil.which("sort") or "sort", "--parallel=1", str(text)],
    }


def _cachegrind(command: List[str], tools: Path, environment: dict) -> Dict[str, int]:
    """cachegrind's totals, by its own names."""
    out = tools / "cachegrind.out"
    # The options that hardmeter gives valgrind too.
    words = ["valgrind", "--tool=cachegrind", "-q", "--cache-sim=yes", "--trace-children=yes", "--vgdb=no"]
    words += ["--sigill-diagnostics=no", "--run-libc-freeres=no", f"--cachegrind-out-file={out}", *GEOMETRY]
    run([*words, *command], env=environment)
    wanted = ("events:", "summary:")
    lines = dict(line.split(":", 1) for line in out.read_text().splitlines() if line.startswith(wanted))
    return {name: int(count) for name, count in zip(lines["events"].split(), lines["summary"].split())}


def _softpmu(command: List[str], environment: dict) -> Dict[str, int]:
    events = ",".join(COMPARED)
    words = [HARDMETER, "--quiet", "stat", "--source", "simulated", "--format", "json", "-e", events]
    output = run([*words, "--machine", MACHINE, "--", *command], env=environment)
    # The command's own output comes first.
    begin = output.rindex('{\n  "comm')
    counts = {event["name"]: event["count"] for event in json.loads(output[begin:])["events"]}
    missing = set(COMPARED) - set(counts)
    if missing:
        raise Trouble(f"hardmeter stat did not count {', '.join(missing)}")
    return counts
