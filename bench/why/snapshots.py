"""The cost of observing a server: pgbench under `hardmeter record` with and without object snapshots.

Both recordings are the same but for `--no-objects`: first touches of pages (page faults carry a data address, on any
machine) and the timer, so that there is something to look up. They take turns beside one running pgbench
(common/windows.py).
"""

from typing import Callable, Dict, List, Optional, Sequence

import windows
from figure import Bar, Figure
from servers import HARDMETER, Playground

BAR_PERCENT = 2.0


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Throughput lost to object snapshots, and its causes."""
    figures = []
    with playground.server("native").running() as server:
        record = [HARDMETER, "--quiet", "record", "--source", "hardware", "-e", "cpu-clock,page-faults"]
        record += ["-o", server.capture, "--server", server.folder]
        ways: Dict[str, Optional[Sequence]] = {"without": [*record, "--no-objects", "--", "cat"], "with": [*record, "--", "cat"]}
        for script in list(windows.SCRIPTS)[: 1 if quick else None]:
            blocks = windows.blocks_of(
                server, script, ways, 1 if quick else 24, lambda what: say(f"object snapshots, {what}")
            )
            figures += _figures(script, blocks)
    return figures


def _figures(script: str, blocks: List[windows.Block]) -> List[Figure]:
    of = f"pgbench {script}, {windows.CLIENTS} clients"
    return [
        Figure.of_blocks(
            f"snapshots, {script}: throughput",
            [block.throughput_less("with", "without") for block in blocks],
            "% less",
            f"fewer transactions per second with object snapshots than without, {of}",
            Bar(BAR_PERCENT),
        ),
        Figure.of_blocks(
            f"snapshots, {script}: recorder's CPU",
            [block.recorder_more("with", "without") for block in blocks],
            "% of one",
            f"CPU time that the recorder takes more with object snapshots, of one processor, beside {of}",
        ),
        Figure.of_blocks(
            f"snapshots, {script}: backends' CPU",
            [block.backends_more("with", "without") for block in blocks],
            "% more",
            f"CPU time of the backends per transaction with object snapshots, to without, {of}",
        ),
    ]
