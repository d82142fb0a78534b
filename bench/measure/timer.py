"""The cost of sampling by the timer: pgbench with and without `hardmeter record --source timer -F 1000`.

Recordings are switched on and off beside one running pgbench (common/windows.py). `perf record -a -e cpu-clock -F 1000`
takes turns with them, for information: what both cost is the kernel's and the machine's.
"""

import os
import shutil
from typing import Callable, Dict, List, Optional, Sequence

import windows
from figure import Bar, Figure
from servers import HARDMETER, Playground, Server

BAR_PERCENT = 1.0


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figure 6."""
    figures = []
    with playground.server("native").running() as server:
        samplers = _samplers(server)
        for script in list(windows.SCRIPTS)[: 1 if quick else None]:
            blocks = windows.blocks_of(
                server, script, samplers, 1 if quick else 24, lambda what: say(f"timer at 1 kHz, {what}")
            )
            for sampler in samplers:
                if sampler != "off":
                    figures += _figures(sampler, script, blocks)
    return figures


def _samplers(server: Server) -> Dict[str, Optional[Sequence]]:
    ours = [HARDMETER, "--quiet", "record", "--source", "timer", "-F", "1000", "-o", server.capture]
    samplers: Dict[str, Optional[Sequence]] = {"off": None, "hardmeter": [*ours, "--server", server.folder, "--", "cat"]}
    # Only root may sample all processors.
    if os.geteuid() == 0 and shutil.which("perf"):
        theirs = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "1000", "-o", f"{server.capture}.perf"]
        samplers["perf"] = [*theirs, "--", "cat"]
    return samplers


def _figures(sampler: str, script: str, blocks: List[windows.Block]) -> List[Figure]:
    bar = Bar(BAR_PERCENT) if sampler == "hardmeter" else None
    title = f"timer, {script}" if sampler == "hardmeter" else f"timer by {sampler}, {script}"
    by = f"pgbench {script}, {windows.CLIENTS} clients, cpu-clock sampled at 1 kHz by {sampler}"
    return [
        Figure.of_blocks(
            f"{title}: throughput",
            [block.throughput_less(sampler, "off") for block in blocks],
            "% less",
            f"fewer transactions per second, {by}",
            bar,
        ),
        Figure.of_blocks(
            f"{title}: backends' CPU",
            [block.backends_more(sampler, "off") for block in blocks],
            "% more",
            f"more CPU time of the server per transaction, {by}",
            bar,
        ),
        Figure.of_blocks(
            f"{title}: recorder's CPU",
            [block.recorder_more(sampler, "off") for block in blocks],
            "% of one",
            f"CPU time of the recorder, of one processor, beside {by}",
        ),
    ]
