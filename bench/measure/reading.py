"""`hardmeter report` compared with `perf report --stdio` on one file: CPU time and memory."""

import os
import shutil
from typing import Callable, Dict, List

from figure import Bar, Figure
from processes import Trouble, Used, run, run_measured
from servers import HARDMETER, Playground, make_capture

BYTES_PER_SAMPLE = 330


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figure 5."""
    samples, blocks = (200_000, 1) if quick else (5_000_000, 1)
    if shutil.which("perf") is None:
        raise Trouble("there is no perf to compare with\n  remedy: apt-get install linux-perf")
    needed = samples * BYTES_PER_SAMPLE
    if shutil.disk_usage(playground.folder).free < 2 * needed:
        raise Trouble(f"no room for a capture of {needed >> 20} MB in /var/tmp\n  remedy: free some space there")
    capture = playground.folder / "large.data"
    try:
        say(f"making a capture of {samples} samples")
        # Its samples are in this program's code.
        program = playground.server("native").program("postgres")
        run([make_capture(), capture, str(samples), program])
        readers = {
            "hardmeter": [HARDMETER, "report", "-i", capture],
            # perf's default; and the same without callers' trees, which hardmeter does not print either.
            "perf": ["perf", "report", "--stdio", "-i", capture],
            "perf, flat": ["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", capture],
        }
        used: Dict[str, list] = {name: [] for name in readers}
        for block in range(blocks):
            for name in [*readers, *reversed(list(readers))]:
                say(f"{name} reads {samples} samples: block {block + 1} of {blocks}")
                # Without any user's configuration of perf.
                used[name].append(run_measured(readers[name], dict(os.environ, PERF_CONFIG="/dev/null")))
    finally:
        capture.unlink(missing_ok=True)
    return _figures(used, samples)


def _figures(used: dict, samples: int) -> List[Figure]:
    def pairs(value: Callable[[Used], float], name: str) -> List[float]:
        """A block is two runs of each reader; their values are added."""
        values = [value(one) for one in used[name]]
        return [first + second for first, second in zip(values[::2], values[1::2])]

    def ratio(value: Callable[[Used], float], above: str, below: str) -> List[float]:
        return [a / b for a, b in zip(pairs(value, above), pairs(value, below))]

    cpu, memory = (lambda one: one.cpu_seconds), (lambda one: one.peak_bytes)
    on = f"on one file of {samples} samples"
    return [
        Figure.of_blocks(
            "report: perf / hardmeter, CPU time",
            ratio(cpu, "perf", "hardmeter"),
            "x",
            f"CPU time of perf report --stdio / hardmeter report, {on}",
            Bar(10, at_most=False),
        ),
        Figure.of_blocks(
            "report: hardmeter / perf, memory",
            ratio(memory, "hardmeter", "perf"),
            "x",
            f"peak memory of hardmeter report / perf report --stdio, {on}",
            Bar(0.25),
        ),
        Figure.of_blocks(
            "report: flat perf / hardmeter, CPU",
            ratio(cpu, "perf, flat", "hardmeter"),
            "x",
            f"CPU time of perf report --stdio --no-children -g none / hardmeter report, {on}",
        ),
        Figure.of_blocks(
            "report: hardmeter, CPU time",
            [seconds / 2 for seconds in pairs(cpu, "hardmeter")],
            "s",
            f"CPU time of hardmeter report {on}",
        ),
        Figure.of_blocks(
            "report: hardmeter, memory",
            [size / 2 / 2**20 for size in pairs(memory, "hardmeter")],
            "MiB",
            f"peak memory of hardmeter report {on}",
        ),
    ]
